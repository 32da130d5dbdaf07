"""Spaces among parameters: which are there, what they become, and what runs without a search do with them."""

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.parameters import Parameters
from delira.search import Choice, Float, Int
from delira.testing import ToySGD
from delira.utils import yaml_codec


class Slow:
    """An option that only its name tells."""


class Quick:
    """Another one."""


def parameters(**defaults):
    given = {"lr": {}, "depth": {}, "momentum": {}, "optimizer": {}, **defaults}
    return Parameters(
        {"model": {"n": 3}, "training": {"num_epochs": 3, "optimizer_params": {"lr": 0.5}}},
        {
            "model": {"depth": Int(1, 4, **given["depth"]), "widths": [Int(8, 64, default=8), 5]},
            "training": {
                "optimizer_params": {
                    "momentum": Float(0, 0.9, when={"optimizer_cls": Slow}, **given["momentum"]),
                    "lr": Float(1e-5, 0.1, log=True, **given["lr"]),
                },
                "optimizer_cls": Choice([Quick, Slow], **given["optimizer"]),
            },
        },
    )


DEFAULTS = {
    "lr": {"default": 0.01},
    "depth": {"default": 2},
    "momentum": {"default": 0.5},
    "optimizer": {"default": Quick},
}
NAMES = [
    "model.depth", "model.widths.0", "training.optimizer_params.lr", "training.optimizer_cls",
    "training.optimizer_params.momentum",
]  # fmt: skip


def test_spaces_are_named_by_their_path_and_a_condition_goes_before_what_hangs_on_it():
    assert [*parameters().spaces()] == NAMES


def test_what_is_conditional_is_there_only_where_its_condition_holds():
    values = {"model.depth": 3, "model.widths.0": 16, "training.optimizer_params.lr": 0.1}
    quick = parameters().with_values({**values, "training.optimizer_cls": Quick})
    assert quick.training_settings() == {"num_epochs": 3, "optimizer_params": {"lr": 0.1}, "optimizer_cls": Quick}
    assert quick.model_kwargs() == {"n": 3, "depth": 3, "widths": [16, 5]}
    slow = parameters().with_values(
        {**values, "training.optimizer_cls": Slow, "training.optimizer_params.momentum": 0.2}
    )
    assert slow.training_settings()["optimizer_params"] == {"momentum": 0.2, "lr": 0.1}


def test_parameters_themselves_stay_as_they_are():
    params = parameters(**DEFAULTS)
    before = yaml_codec.dumps(params)
    params.with_defaults()
    assert yaml_codec.dumps(params) == before


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"training.lr": 1}, "there is no search space 'training.lr'"),
        ({"model.depth": 9}, r"model.depth needs a value out of Int\(1, 4\), got 9"),
        ({"model.depth": 1}, "model.widths.0 needs a value .* got none"),
    ],
)
def test_values_that_are_not_of_the_spaces_are_refused(values, why):
    with pytest.raises(ConfigError, match=why):
        parameters().with_values(values)


def test_a_missing_default_is_refused_by_name_and_tune_is_named():
    with pytest.raises(ConfigError, match=r"model.depth, training.optimizer_params.lr, .* without a default.*tune"):
        parameters().with_defaults()


def test_a_space_in_what_is_fixed_is_refused():
    with pytest.raises(ConfigError, match=r"training.lr is a search space among the fixed parameters"):
        Parameters({"training": {"lr": Float(0, 1)}}).spaces()


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ({"optimizer": 1}, "when names 'optimizer', which is no parameter; known are 'model.a.n'"),
        ({"lr": 1}, "the condition of training.lr is that parameter itself"),
        ({"n": 1}, "may be any of model.a.n, model.b.n"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(when, why):
    fixed = {"model": {"a": {"n": 1}, "b": {"n": 2}}, "training": {"optimizer_cls": Slow}}
    with pytest.raises(ConfigError, match=why):
        Parameters(fixed, {"training": {"lr": Float(0, 1, when=when)}}).spaces()


def test_conditions_that_hang_on_each_other_are_refused():
    both = {"a": Float(0, 1, when={"b": 1.0}), "b": Float(0, 1, when={"a": 1.0})}
    with pytest.raises(ConfigError, match="hang on each other"):
        Parameters(None, {"model": both}).spaces()


def test_yaml_brings_spaces_back_both_ways(tmp_path):
    params = parameters(**DEFAULTS)
    again = Parameters.load(params.save(tmp_path / "params"))
    assert again == params
    assert again.spaces() == params.spaces()


def test_the_command_line_gives_values_and_spaces():
    params = parameters(**DEFAULTS)
    params.update_from_argparse(arguments=["--lr", "0.5", "--optimizer_cls", "Slow", "--depth", "Int(2, 3, default=3)"])
    assert [*params.spaces()] == ["model.depth", "model.widths.0", "training.optimizer_params.momentum"]
    settled = params.with_defaults()
    assert settled.training_settings()["optimizer_params"] == {"momentum": 0.5, "lr": 0.5}
    assert settled.model_kwargs()["depth"] == 3


def test_the_command_line_makes_what_is_fixed_variable():
    params = parameters(**DEFAULTS)
    params.update_from_argparse(arguments=["--num_epochs", "Int(1, 5, default=4)"])
    assert params.with_defaults().training_settings()["num_epochs"] == 4
    assert "num_epochs" not in params["fixed.training"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--optimizer_cls", "Slwo"], "is none of its options: Quick, Slow"),
        (["--depth", "1.5"], "it must be a whole number"),
        (["--depth", "Int(3, 1)"], "is empty"),
    ],
)
def test_the_command_line_refuses_what_is_in_no_space(words, why, capsys):
    with pytest.raises(SystemExit):
        parameters().update_from_argparse(arguments=words)
    assert why in capsys.readouterr().err


# ---- in experiments


def searched(kit, path, lr, **more):
    training = {**kit.settings, "num_epochs": 1, "save_freq": None, "val_metrics": {}}
    fixed = {"model": {"n_features": 3}, "training": training}
    return kit.experiment_cls(
        Parameters(fixed, {"training": {"optimizer_params": {"lr": lr}}}), kit.network, save_path=path, **more
    )


def test_run_and_kfold_use_the_default(kit, tmp_path, manager):
    experiment = searched(kit, tmp_path, Float(0.01, 1.0, log=True, default=0.05))
    experiment.run(manager(6))
    assert experiment.last_trainer.config.optimizer.params == {"lr": 0.05}
    result = experiment.kfold(manager(6), num_splits=2, val_split=None)
    assert result.folds[0].parameters.training_settings()["optimizer_params"] == {"lr": 0.05}


def test_run_and_kfold_refuse_a_space_without_a_default(kit, tmp_path, manager):
    experiment = searched(kit, tmp_path, Float(0.01, 1.0))
    for call in (lambda: experiment.run(manager(6)), lambda: experiment.kfold(manager(6), num_splits=2)):
        with pytest.raises(ConfigError, match=r"training.optimizer_params.lr is a search space without a default"):
            call()
    assert not [*tmp_path.rglob("manifest.json")]


def test_settings_that_no_training_takes_are_refused_at_every_corner(kit, tmp_path):
    training = {**kit.settings, "num_epochs": 1}
    with pytest.raises(ConfigError) as caught:
        kit.experiment_cls(
            Parameters({"model": {"n_features": 3}, "training": training}, {"training": {"val_freq": Int(0, 3)}}),
            kit.network,
            save_path=tmp_path,
        )
    assert "with training.val_freq=0" in caught.value.__notes__


def test_a_space_among_settings_is_refused(kit, tmp_path, manager):
    with pytest.raises(ConfigError, match="batch_size is a search space among the settings of the experiment"):
        kit.experiment(tmp_path, batch_size=Int(1, 4))
    with pytest.raises(ConfigError, match="batch_size is a search space among the settings of the call"):
        kit.experiment(tmp_path).run(BaseDataManager(linear_problem(6), 2), batch_size=Int(1, 4))


# ---- conditions that can never hold


def conditional(when, **variable):
    fixed = {"training": {"num_epochs": 2, "scheduler": Slow}}
    spaces = {
        "lr": Float(0.01, 0.1),
        "width": Int(8, 16, step=4),
        "momentum": Choice([0, 0.5]),
        "optimizer_cls": Choice([Quick, Slow]),
        "activation": Choice(["relu", "gelu"]),
    }
    return Parameters(fixed, {"training": {**spaces, "decay": Float(0, 1, when=when), **variable}})


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ({"lr": 5.0}, r"decay has 5.0 in when={'lr': …}, .*never hold: training.lr is Float\(0.01, 0.1\); name what"),
        ({"width": 9}, r"width is Int\(8, 16, step=4\)"),
        ({"width": np.int64(12)}, "did you mean the plain number 12?"),
        ({"momentum": 0.7}, "training.momentum is one of 0, 0.5; name what it can be, or leave the condition out"),
        ({"num_epochs": 7}, "training.num_epochs is fixed as 2"),
        ({"num_epochs": [7, 8]}, "has 7 in .* training.num_epochs is fixed as 2"),
        ({"optimizer_cls": "Slow"}, "is one of Quick, Slow; did you mean Slow itself, without quotes"),
        ({"optimizer_cls": [Quick, "slow"]}, "has 'slow' in .* did you mean Slow itself, without quotes"),
        ({"scheduler": "Slow"}, "scheduler is fixed as Slow; did you mean Slow itself, without quotes"),
        ({"activation": "ReLU"}, "did you mean 'relu'?"),
        ({"momentum": 0.5, "lr": 2}, "has 2 in when={'lr': …}"),
    ],
)
def test_a_condition_that_can_never_hold_is_refused(when, why):
    with pytest.raises(ConfigError, match=why):
        conditional(when).check_conditions()


@pytest.mark.parametrize(
    "when",
    [
        {"lr": 0.05}, {"width": [8, 16]}, {"momentum": 0.0}, {"num_epochs": 2}, {"num_epochs": [2, 7]},
        {"optimizer_cls": [Quick, Slow]}, {"scheduler": Slow}, {"optimizer_cls": Quick, "momentum": 0.5},
    ],
)  # fmt: skip
def test_a_condition_that_may_hold_is_none_of_these(when):
    conditional(when).check_conditions()


def test_what_hangs_on_another_value_of_a_variable_parameter_is_left_out_on_purpose():
    params = conditional({"optimizer_cls": Slow})
    params.update_from_argparse(arguments=["--optimizer_cls", "Quick"])
    params.check_conditions()
    values = {"lr": 0.05, "width": 8, "momentum": 0, "activation": "relu"}
    assert (
        "decay"
        not in params.with_values({f"training.{name}": each for name, each in values.items()})["variable.training"]
    )


def test_an_experiment_and_a_search_refuse_conditions_that_can_never_hold(tmp_path):
    kit = toy_kit()
    training = {**kit.settings, "num_epochs": 1}
    never = {"optimizer_params": {"lr": Float(0.01, 0.1, default=0.05, when={"num_epochs": 7})}}
    with pytest.raises(ConfigError, match=r"optimizer_params.lr has 7 in when={'num_epochs': …}"):
        kit.experiment_cls(
            Parameters({"model": {"n_features": 3}, "training": training}, {"training": never}), kit.network,
            save_path=tmp_path,
        )  # fmt: skip
    experiment = searched(kit, tmp_path, Float(0.01, 1.0, default=0.05))
    experiment.params.update({"variable": {"training": never}})
    with pytest.raises(ConfigError, match=r"optimizer_params.lr has 7 in when={'num_epochs': …}"):
        experiment.tune(BaseDataManager(linear_problem(6), 2), 2)


class Plain(ToySGD):
    """Descent without momentum."""

    def __init__(self, weight, lr):
        super().__init__(weight, lr)


@pytest.mark.parametrize(
    ("fixed", "searched", "why"),
    [
        ({"lr": 0.1, "momentun": 0.5}, {}, "ToySGD takes no 'momentun'; did you mean 'momentum'"),
        ({}, {"lrr": Float(0.01, 0.1)}, "ToySGD takes no 'lrr'; did you mean 'lr'"),
    ],
)
def test_an_argument_that_no_optimizer_takes_is_refused_when_the_experiment_is_made(tmp_path, fixed, searched, why):
    kit = toy_kit()
    training = {**kit.settings, "optimizer_params": fixed}
    params = Parameters({"training": training}, {"training": {"optimizer_params": searched}} if searched else {})
    with pytest.raises(ConfigError, match=why):
        kit.experiment_cls(params, kit.network, save_path=tmp_path)


def test_what_one_of_several_optimizers_takes_is_conditional(tmp_path):
    """Else each trial of the other one would fail, and the search would look at one of them alone."""
    kit = toy_kit()

    def made(**conditions):
        searched = {"lr": Float(0.01, 0.1), "momentum": Choice([0.0, 0.5], **conditions)}
        variable = {"training": {"optimizer_cls": Choice([ToySGD, Plain]), "optimizer_params": searched}}
        training = {**kit.settings, "optimizer_params": {}}
        return kit.experiment_cls(Parameters({"training": training}, variable), kit.network, save_path=tmp_path)

    with pytest.raises(ConfigError, match="Plain takes no 'momentum'") as caught:
        made()
    assert "optimizer_cls=" in str(caught.value.__notes__)
    made(when={"optimizer_cls": ToySGD})
