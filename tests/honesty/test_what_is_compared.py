"""What is compared when a run is continued: validation data, callbacks and their settings, the network's code."""

import functools
import json
import sys
import types

import numpy as np
import pytest
from compared_runs import begun, data, go_on
from problems import linear_problem
from small_backends import build_kit

from delira.errors import ConfigError
from delira.runs.code_of import code_of_functions
from delira.training import KFoldResult

# ---- validation data


def test_other_validation_labels_are_not_continued_silently(tmp_path):
    experiment, folder = begun(tmp_path)
    labels = linear_problem(8, 3, 1)["label"] + 1
    with pytest.raises(
        ConfigError, match=r"its validation differ .*\n  validation data: 8 samples then, 8 now; finger"
    ):
        go_on(experiment, folder, val=data(8, 1, label=labels))
    with pytest.raises(ConfigError, match="validation data: BaseDataManager in the run, list now"):
        go_on(experiment, folder, val=[*data(8, 1)])
    with pytest.warns(UserWarning, match="validation data: 8 samples then, 8 now"):
        go_on(experiment, folder, val=data(8, 1, label=labels), allow_changes=True)
    (told,) = [text for text in KFoldResult.load(folder).to_html().splitlines() if "continued with changes" in text]
    assert "validation data: 8 samples then" in told


def test_the_same_validation_data_go_on_and_auto_takes_no_others(tmp_path):
    experiment, folder = begun(tmp_path)
    go_on(experiment, folder)
    lines = (folder / "ledger.jsonl").read_text().splitlines()
    (folder / "ledger.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # as if it had been killed
    go_on(experiment, "auto", val=data(8, 2))
    assert experiment.last_trainer.save_path.parent != folder


# ---- callbacks


# ---- code


def test_a_run_is_not_continued_with_another_forward(tmp_path):
    torch = pytest.importorskip("torch")
    kit = build_kit("torch")

    def network(factor):
        class Net(kit.network):
            def forward(self, x):
                return {"pred": factor * super().forward(x)["pred"]}

        return Net

    _, folder = begun(tmp_path, "torch", cls=network(1.0))
    same = kit.experiment(tmp_path, cls=network(1.0))
    go_on(same, folder)
    other = kit.experiment(tmp_path, cls=network(2.0))
    with pytest.raises(ConfigError, match=r"its code differ .*\n  code: .*Net.forward is another one"):
        go_on(other, folder)
    assert torch is not None


def test_what_an_older_run_does_not_say_is_not_compared(tmp_path):
    experiment, folder = begun(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("code", "functions", "callbacks", "validation"):
        del manifest[name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    go_on(experiment, folder, val=data(8, 2))
    assert np.isfinite(experiment.last_trainer.state.history[-1]["mse"])


# ---- losses, metrics and transforms


def scaled(factor):
    """A function of the user's that says something else for each factor."""

    def own(*arrays, **batch):
        return float(factor * np.mean((arrays[0] - arrays[1]) ** 2)) if arrays else batch

    return own


class Chain:
    """Transforms, one after the other, as those of other libraries hold them."""

    def __init__(self, *transforms):
        self.transforms = [*transforms]

    def __call__(self, **batch):
        for transform in self.transforms:
            batch = transform(**batch)
        return batch


@pytest.mark.parametrize(
    "wrapped",
    [lambda f: f, lambda f: [f], lambda f: {"a": f}, functools.partial(functools.partial), lambda f: Chain(Chain(f))],
)
def test_functions_are_found_wherever_they_are(wrapped):
    then, same, now = (code_of_functions([wrapped(scaled(factor))])["functions"] for factor in (1.0, 1.0, 2.0))
    assert then == same
    different = [name for name in then if then[name] != now[name]]
    assert [name.rpartition(".")[2] for name in different] == ["own"]


@pytest.mark.parametrize("setting", ["losses", "train_metrics", "metrics", "val_metrics"])
def test_a_run_is_not_continued_with_another_loss_or_metric(tmp_path, setting):
    def settings(factor):
        name = "mse" if setting == "losses" else "own"
        loss = build_kit("toy").loss

        def own(prediction, target):
            return factor * loss(prediction, target)

        return {"training": {setting: {name: own}}}

    _, folder = begun(tmp_path, **settings(1.0))
    go_on(build_kit("toy").experiment(tmp_path, **settings(1.0)), folder)
    other = build_kit("toy").experiment(tmp_path, **settings(2.0))
    with pytest.raises(ConfigError, match=r"its functions differ .*\n  code: .*own is another one"):
        go_on(other, folder)
    with pytest.warns(UserWarning, match="own is another one"):
        go_on(other, folder, allow_changes=True)


@pytest.mark.parametrize("role", ["training", "validation"])
def test_a_run_is_not_continued_with_another_transform(tmp_path, role):
    def managers(factor):
        train, val = data(), data(8, 1)
        (train if role == "training" else val).transforms = Chain(scaled(factor))
        return train, val

    experiment = build_kit("toy").experiment(tmp_path)
    experiment.run(*managers(1.0), num_epochs=1)
    folder = experiment.last_trainer.save_path.parent
    experiment.run(*managers(1.0), num_epochs=2, resume=folder)
    with pytest.raises(ConfigError, match=r"its functions differ .*\n  code: .*own is another one"):
        experiment.run(*managers(2.0), num_epochs=3, resume=folder)


def test_a_test_metric_whose_code_has_changed_is_computed_again(tmp_path):
    def own_metric(factor):
        module = types.ModuleType("own_metrics")
        module.__file__ = "/home/me/own_metrics.py"
        sys.modules["own_metrics"] = module
        source = f"def error(y_true, y_pred):\n    return {factor} * float(((y_true - y_pred) ** 2).mean())\n"
        exec(compile(source, module.__file__, "exec"), vars(module))
        return {"error": module.error}

    experiment = build_kit("toy").experiment(tmp_path, training={"num_epochs": 1})
    first = experiment.kfold(data(), own_metric(1.0), num_splits=2)
    again = experiment.kfold(data(), own_metric(3.0), num_splits=2, resume=first.path)
    for then, now in zip(first.folds, again.folds, strict=True):
        assert now.metrics["error"] == pytest.approx(3 * then.metrics["error"])
