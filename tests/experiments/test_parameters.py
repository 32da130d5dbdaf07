"""Parameters: two hierarchies, lookup, merging, and a file that people can read."""

import copy
import os
import pickle

import pytest
from problems import mae

from delira.errors import ConfigError, DeliraError
from delira.experiments.parameters import Parameters
from delira.utils.config import LookupConfig
from delira.utils.yaml_codec import Unresolved, fingerprint

FIXED = {"model": {"n_classes": 10}, "training": {"num_epochs": 3, "losses": {"ce": len}}}
VARIABLE = {"model": {"width": 8}, "training": {"lr": 0.1}}


class Net:
    """A class that a file can name."""


@pytest.fixture
def params():
    return Parameters(FIXED, VARIABLE)


@pytest.fixture(params=["variability", "training"])
def turned(request, params):
    """The same parameters in either hierarchy."""
    return params if request.param == "variability" else params.permute_training_on_top()


# ---- making and reading


def test_parameters_are_read_by_attribute_by_dotted_key_and_by_name(params):
    assert params.fixed.training.num_epochs == 3
    assert params["variable.training.lr"] == 0.1
    params["fixed"]["training"]["lr_sched_cls"] = None
    assert params.nested_get("lr_sched_cls", "default") is None
    assert isinstance(params.fixed.training.losses, LookupConfig)


def test_empty_parameters_have_all_their_parts():
    empty: dict = {"model": {}, "training": {}}
    assert Parameters() == {"fixed": empty, "variable": empty}


@pytest.mark.parametrize("fixed", [{"training": {"lr": 1}}, {"training": {"lr": 1}, "model": None}])
def test_a_missing_model_part_is_empty_and_no_key_error(fixed):
    params = Parameters(fixed_params=fixed)
    assert params.permute_training_on_top().model == {"fixed": {}, "variable": {}}
    assert params.nested_get("lr") == 1


def test_the_dictionaries_that_were_given_are_neither_changed_nor_shared():
    given = {"training": LookupConfig(lr=1)}
    params = Parameters(given)
    params.fixed.training.lr = 2
    params.fixed.training.new = 3
    assert given == {"training": {"lr": 1}}


def test_parameters_accept_any_value_and_any_name():
    odd = {"class_weights": {0: 1.5, None: 2}, "mAP@0.5": [object()], "items": lambda: 0}
    params = Parameters({"training": odd, "data": {"batch_size": 3}})
    assert params.training_settings() == odd
    assert params.fixed.data.batch_size == 3


def test_what_is_no_dictionary_is_refused():
    with pytest.raises(ConfigError, match=r"fixed_params must be a dictionary .*got 3"):
        Parameters(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"variable_params\['model'\] must be a dictionary, got 'Net'"):
        Parameters(variable_params={"model": "Net"})


def test_names_are_found_at_any_depth_in_either_hierarchy(turned):
    assert turned.nested_get("lr") == 0.1
    assert turned.nested_get("num_epochs") == 3
    assert turned.nested_get("ce") is len
    assert turned.nested_get("momentum", default=None) is None


def test_a_name_that_is_fixed_and_variable_has_the_variable_value(turned):
    turned.update(Parameters({"training": {"lr": 5, "optimizer_params": {"eps": 1}}}))
    turned.update(Parameters({}, {"training": {"optimizer_params": {"eps": 2}}}))
    assert turned.nested_get("lr") == turned.training_settings()["lr"] == 0.1
    assert turned.nested_get("eps") == turned.training_settings()["optimizer_params"]["eps"] == 2
    assert turned.nested_get("optimizer_params") == {"eps": 2}


def test_a_name_of_the_model_and_of_the_training_is_ambiguous_until_its_path_is_given():
    params = Parameters({"model": {"lr": 1}, "training": {"lr": 2}})
    with pytest.raises(KeyError, match=r"'fixed.model.lr', 'fixed.training.lr'"):
        params.nested_get("lr")
    assert params.nested_get("fixed.training.lr") == params.training_settings()["lr"] == 2


def test_the_number_of_epochs_may_have_its_old_name():
    params = Parameters({"training": {"n_epochs": 3}})
    assert params.nested_get("num_epochs", params.nested_get("n_epochs")) == 3


def test_model_kwargs_and_training_settings_do_not_depend_on_the_hierarchy(turned):
    before = copy.deepcopy(turned)
    assert turned.model_kwargs() == {"n_classes": 10, "width": 8}
    assert turned.training_settings() == {"num_epochs": 3, "losses": {"ce": len}, "lr": 0.1}
    assert turned == before
    assert turned.hierarchy == before.hierarchy


def test_model_kwargs_are_plain_dictionaries_of_the_same_values():
    layers = [{"width": 1}]
    kwargs = Parameters({"model": {"layers": layers, "head": {"bias": True}}}).model_kwargs()
    assert type(kwargs) is type(kwargs["head"]) is dict
    assert kwargs["layers"] is layers


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"lr": 1}, r"'fixed\.lr'; write 'fixed\.training\.lr'"),
        ({"trainning": {"lr": 1}}, r"'fixed\.trainning'; did you mean 'fixed\.training'"),
    ],
)
def test_settings_beside_model_and_training_are_refused_when_they_are_read(fixed, message):
    params = Parameters(fixed)
    for hierarchy in (params, copy.copy(params).permute_training_on_top()):
        with pytest.raises(ConfigError, match=message):
            hierarchy.training_settings()


def test_a_part_of_ours_on_top_of_the_variabilities_is_refused_when_it_is_read(params):
    params.training = {"lr": 1}
    with pytest.raises(ConfigError, match=r"write 'fixed\.training'"):
        params.model_kwargs()


# ---- the two hierarchies


def test_permutations_work_in_place_and_return_self(params):
    assert params.permute_hierarchy() is params
    assert params.training_on_top
    assert not params.variability_on_top
    assert params == {
        "model": {"fixed": {"n_classes": 10}, "variable": {"width": 8}},
        "training": {"fixed": FIXED["training"], "variable": {"lr": 0.1}},
    }
    assert params.permute_hierarchy() == {"fixed": FIXED, "variable": VARIABLE}
    assert params.permute_training_on_top().permute_training_on_top() is params
    assert params.training.variable.lr == 0.1
    assert params.permute_variability_on_top().permute_variability_on_top() == Parameters(FIXED, VARIABLE)


def test_the_hierarchy_is_drawn(params):
    assert params.hierarchy == "variability\n|\n->\ttraining"
    assert params.permute_hierarchy().hierarchy == "training\n|\n->\tvariability"
    params.clear()
    assert params.hierarchy == "no valid hierarchy"


def test_permute_to_hierarchy_gives_the_hierarchy_that_was_asked_for_and_not_the_opposite(turned):
    other = copy.copy(turned).permute_hierarchy()
    assert copy.copy(turned).permute_to_hierarchy(turned.hierarchy) == turned
    assert copy.copy(turned).permute_to_hierarchy(other.hierarchy) == other
    with pytest.raises(ValueError, match=r"unknown hierarchy 'upside down'; known are .*permute_training_on_top"):
        turned.permute_to_hierarchy("upside down")


def test_an_invalid_hierarchy_raises_instead_of_returning_an_error(params):
    del params["fixed"]
    for kind in (AttributeError, RuntimeError, DeliraError):
        with pytest.raises(kind, match=r"cannot permute top keys \['variable'\]"):
            params.permute_hierarchy()
    params.fixed = 3
    with pytest.raises(ConfigError, match="'fixed' must be a dictionary, got 3"):
        params.permute_hierarchy()


def test_what_users_add_beside_the_four_names_survives_permutation():
    params = Parameters({"data": {"batch_size": 3}, "seed": 1}, {"data": {"augment": True}})
    params.note = "mine"
    before = copy.deepcopy(params)
    assert params.permute_training_on_top().data == {
        "fixed": {"batch_size": 3},
        "variable": {"augment": True},
    }
    assert params.permute_variability_on_top() == before


def test_one_name_on_top_and_in_a_part_cannot_be_permuted():
    params = Parameters({"data": {}})
    params.data = {}
    with pytest.raises(ConfigError, match=r"\['data'\] are on top and inside 'fixed' or 'variable'"):
        params.permute_training_on_top()


# ---- merging


def test_update_takes_parameters_of_either_hierarchy_and_does_not_change_them(turned):
    for other in (Parameters(None, {"training": {"lr": 1}}), Parameters({"model": {"depth": 2}})):
        other.permute_training_on_top()
        before, hierarchy = copy.deepcopy(other), turned.hierarchy
        turned.update(other)
        assert other == before
        assert turned.hierarchy == hierarchy
    assert turned.training_settings()["lr"] == 1
    assert turned.model_kwargs() == {"n_classes": 10, "width": 8, "depth": 2}


def test_update_takes_dictionaries_with_the_top_keys_of_the_hierarchy_and_dotted_keys(params):
    given = {"fixed": {"training": {"num_epochs": 5}}, "variable.training.lr": 0.2}
    params.update(given)
    assert params.training_settings() == {"num_epochs": 5, "losses": {"ce": len}, "lr": 0.2}
    assert given == {"fixed": {"training": {"num_epochs": 5}}, "variable.training.lr": 0.2}
    params.permute_training_on_top().update({"training": {"fixed": {"num_epochs": 6}}}, deep=True)
    assert params.nested_get("num_epochs") == 6
    params.update({})


def test_update_refuses_dictionaries_without_the_top_keys(params):
    for kind in (RuntimeError, ConfigError):
        with pytest.raises(kind, match=r"got the top keys \['training'\], but 'fixed' and 'variable' are on top"):
            params.update({"training": {"lr": 1}})
    with pytest.raises(ConfigError, match="'fixed': 3; it must be a dictionary"):
        params.update({"fixed": 3})
    params.clear()
    with pytest.raises(ConfigError, match="start from Parameters"):
        params.update(Parameters())


def test_update_hands_its_options_on(params):
    params.update({"fixed": {"training": {"num_epochs": 9, "seed": 1}}}, ignore=["num_epochs"])
    assert params.fixed.training.num_epochs == 3
    assert params.fixed.training.seed == 1
    with pytest.raises(ConfigError, match=r"'fixed.training.losses'"):
        params.update({"fixed": {"training": {"losses": len}}}, allow_dict_overwrite=False)


# ---- copies and text


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        Parameters.copy,
        Parameters.deepcopy,
        lambda params: pickle.loads(pickle.dumps(params)),
    ],
)
def test_every_copy_is_independent_and_keeps_class_and_hierarchy(turned, duplicate):
    twin = duplicate(turned)
    assert type(twin) is Parameters
    assert twin == turned
    assert twin.hierarchy == turned.hierarchy
    twin.permute_hierarchy()
    twin.update(Parameters({"training": {"num_epochs": 99}}))
    assert turned.nested_get("num_epochs") == 3


def test_a_deep_copy_shares_no_value_and_a_copy_shares_all():
    values = [1]
    params = Parameters({"training": {"values": values}})
    assert copy.copy(params).fixed.training["values"] is values
    assert params.deepcopy().fixed.training["values"] is not values


def test_equality_is_that_of_dictionaries(params):
    assert params == {"fixed": FIXED, "variable": VARIABLE}
    assert params != copy.copy(params).permute_hierarchy()


def test_the_text_has_one_line_per_top_key():
    assert str(Parameters({"training": {"lr": 1}})) == (
        "Parameters:\n\tfixed = {'training': {'lr': 1}, 'model': {}}\n\tvariable = {'model': {}, 'training': {}}\n"
    )


# ---- files


def test_a_saved_file_is_readable_and_loads_equal(tmp_path, turned):
    before = copy.deepcopy(turned)
    path = turned.save(tmp_path / "new folder" / "params")
    assert turned == before
    assert path == tmp_path / "new folder" / "params.yml"
    assert os.listdir(path.parent) == ["params.yml"]  # and no pickle beside it
    assert path.read_text() == (
        "fixed:\n  model:\n    n_classes: 10\n  training:\n    num_epochs: 3\n"
        "    losses:\n      ce: {$object: 'builtins:len'}\n"
        "variable:\n  model:\n    width: 8\n  training:\n    lr: 0.1\n"
    )
    loaded = Parameters.load(path)
    assert type(loaded) is Parameters
    assert loaded == Parameters(FIXED, VARIABLE)
    assert fingerprint(loaded) == fingerprint(Parameters(FIXED, VARIABLE))


@pytest.mark.parametrize("name", ["a.yml", "a.yaml", "a.YML"])
def test_a_yaml_suffix_is_kept(tmp_path, params, name):
    assert params.save(str(tmp_path / name)) == tmp_path / name


def test_a_name_with_a_dot_gets_the_suffix_appended_and_is_found_again(tmp_path, params):
    assert params.save(tmp_path / "lr0.1") == tmp_path / "lr0.1.yml"
    assert Parameters.load(tmp_path / "lr0.1") == params


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, params):
    path = params.save(tmp_path / "params")
    old = path.read_bytes()
    del params["fixed"]
    with pytest.raises(ConfigError, match="cannot permute"):
        params.save(path)
    assert path.read_bytes() == old


def test_local_functions_are_kept_as_text_and_saved_again_unchanged(tmp_path):
    def loss(prediction, label):
        return prediction - label

    path = Parameters({"training": {"losses": {"mine": loss}}}).save(tmp_path / "a")
    loaded = Parameters.load(path)
    mine = loaded.fixed.training.losses.mine
    assert isinstance(mine, Unresolved)
    assert "loss" in str(mine)
    with pytest.raises(ConfigError, match="not resolved; it has no name to be found by"):
        mine(1, 2)
    assert copy.deepcopy(loaded).save(tmp_path / "b").read_bytes() == path.read_bytes()


def test_classes_resolve_from_objects(tmp_path):
    path = tmp_path / "params.yml"
    path.write_text("fixed: {training: {optimizer_cls: {$object: 'not_imported_module:Net'}}}\n")
    with pytest.raises(ConfigError, match=r"objects=\{'not_imported_module:Net': Net\}.*or import not_imported"):
        Parameters.load(path).fixed.training.optimizer_cls()
    assert Parameters.load(path, objects={"Net": Net}).nested_get("optimizer_cls") is Net


def test_files_written_by_hand_may_leave_parts_out_and_have_training_on_top(tmp_path):
    path = tmp_path / "params.yml"
    path.write_text("fixed:\n  training:\n    lr: 1e-3\nnote: mine\n")
    assert Parameters.load(path).training_settings() == {"lr": 0.001}
    assert Parameters.load(path).note == "mine"
    path.write_text("training:\n  fixed: {lr: 1e-3}\n  variable: {seed: 1}\n")
    loaded = Parameters.load(path)
    assert loaded.variability_on_top
    assert loaded.training_settings() == {"lr": 0.001, "seed": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "this is no parameter file"),
        ("lr: 1\n", "this is no parameter file"),
        ("", "this is no parameter file"),
        ("fixed: 3\n", "fixed_params must be a dictionary"),
        ("training: {lr: 1}\n", "'training' on top must hold 'fixed' and 'variable'"),
        ("fixed: {lr: 1, lr: 2}\n", "'lr' is there twice"),
        ("fixed: !!python/object/apply:os.system ['exit 1']\n", "not readable as plain YAML"),
        ("fixed: {\n", "not readable as plain YAML"),
    ],
)
def test_an_unusable_file_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "broken.yml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"(?s)broken\.yml: .*{message}"):
        Parameters.load(path)


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.yml"):
        Parameters.load(tmp_path / "nowhere")


def test_an_entry_of_a_call_replaces_one_that_the_experiment_has_as_variable(kit, tmp_path, manager):
    params = {
        "fixed": {"training": {**kit.settings, "save_freq": None}},
        "variable": {
            "model": {"n_features": 3},
            "training": {"num_epochs": 3, "optimizer_params": {"lr": 0.3}, "log_freq": 7},
        },
    }
    experiment = kit.experiment_cls(params, kit.network, save_path=tmp_path)
    before = copy.deepcopy(experiment.params)
    experiment.run(manager(), params={"training": {"num_epochs": 1}})
    assert experiment.last_trainer.state.epoch == 1
    assert experiment.last_trainer.config.logging.freq == 7
    experiment.run(manager(), params={"training": {"optimizer_params": {"lr": 0.2}}})
    assert experiment.last_trainer.config.optimizer.params["lr"] == 0.2
    network = experiment.run(manager(n_features=2), params={"model": {"n_features": 2}})
    assert kit.read(network).shape == (2, 1)
    result = experiment.kfold(manager(), {"mae": mae}, num_splits=2, params={"training": {"num_epochs": 1}})
    assert [len(fold.history) for fold in result.folds] == [1, 1]
    assert experiment.params == before
