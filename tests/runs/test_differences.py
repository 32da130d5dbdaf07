"""What differs when a run is continued: it is shown line by line, and refused unless it is allowed."""

import json

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.runs.differences import find_differences

pytestmark = pytest.mark.turns


def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def shifted(batch):
    return {**batch, "data": batch["data"] + 1}


class Stop(Exception):
    """Whatever ends a run before its time."""


class StopAt:
    """Ends a run before one of its epochs."""

    def __init__(self, epoch):
        self.epoch = epoch

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.epoch:
            raise Stop


def manifest(training=None, model=None, **more):
    """A manifest whose fingerprints are their content."""
    facts = {"model": "my:Net", "settings": training or {}, "model_params": model or {}, "n_samples": 10, **more}
    parts = {"kind": "run", "fold": 0, "splits": None, "data": more.pop("data", "abc" * 21)}
    parts["parameters"] = json.dumps([facts["settings"], facts["model_params"]], sort_keys=True)
    parts["batches"] = json.dumps([facts.get("batches"), facts.get("options")], sort_keys=True)
    return {**facts, "fingerprint": parts}


def lines(then, now):
    return [line for part in find_differences(then, now).values() for line in part]


def ledger(folder):
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


# ---- what is said


def test_equal_runs_differ_in_nothing():
    settings = {"lr": {"$float": "nan"}, "betas": {"$tuple": [0.9, 0.99]}}
    assert find_differences(manifest(settings), manifest(settings)) == {}


@pytest.mark.parametrize(
    ("then", "now", "line"),
    [
        ({"a": {"lr": 0.1}}, {"a": {"lr": 0.01}}, "training.a.lr: 0.1 in the run, 0.01 now"),
        ({"a": 1}, {}, "training.a: 1 in the run, not given now"),
        ({}, {"a": None}, "training.a: not given in the run, null now"),
        ({"a": {"b": 1}}, {"a": 3}, 'training.a: {"b": 1} in the run, 3 now'),
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": 1}, {"a": True}, None),
        ({"a": "x"}, {"a": "y"}, 'training.a: "x" in the run, "y" now'),
        ({"a": [1, 2]}, {"a": [1, 3]}, "training.a[1]: 2 in the run, 3 now"),
        ({"a": [1, 2]}, {"a": [1]}, "training.a: [1, 2] in the run, [1] now"),
        ({"a": {"$tuple": [1, 2]}}, {"a": {"$tuple": [1, 3]}}, "training.a: [1, 2] in the run, [1, 3] now"),
        ({"a": {"$float": "inf"}}, {"a": 1.5}, 'training.a: "inf" in the run, 1.5 now'),
        ({"a": {"$object": "m:f"}}, {"a": {"$object": "m:g"}}, "training.a: m:f in the run, m:g now"),
        (
            {"a": {"$call": "m:C", "arguments": {"b": 1}}},
            {"a": {"$call": "m:C", "arguments": {"b": 2}}},
            "training.a: m:C(b=1) in the run, m:C(b=2) now",
        ),
    ],
)
def test_each_entry_that_differs_is_one_line(then, now, line):
    if line is None:  # equal as JSON, though their fingerprints are not
        assert lines(manifest(then), manifest(now)) == ["parameters: not the same; the run did not record more"]
    else:
        assert find_differences(manifest(then), manifest(now)) == {"parameters": [line]}


def test_long_values_are_shown_where_they_differ():
    (line,) = lines(manifest({"a": "x" * 500 + "old" + "y" * 500}), manifest({"a": "x" * 500 + "new" + "y" * 500}))
    assert len(line) < 200
    assert "old" in line
    assert "new" in line
    (line,) = lines(manifest({"a": [1] * 1000}), manifest({"a": 2}))
    assert len(line) < 120


def test_what_changes_no_number_is_not_listed():
    then, now = manifest({"verbose": True, "save_freq": 1, "lr": 1}), manifest({"verbose": False, "lr": 2})
    assert lines(then, now) == ["training.lr: 1 in the run, 2 now"]


def test_an_older_manifest_is_compared_as_far_as_it_goes():
    now, then = manifest({"lr": 1}, {"width": 2}), manifest({"lr": 1}, {"width": 2})
    del then["model"], then["model_params"]
    assert find_differences(then, now) == {}
    then["fingerprint"]["parameters"] = "another"
    assert lines(then, now) == ["parameters: not the same; the run did not record more"]
    assert set(find_differences({}, now)) == {"kind", "fold", "data", "parameters", "batches"}


# ---- in an experiment


def other_class(kit):
    class Other(kit.network):
        pass

    Other.__qualname__ = "Other"
    return Other


CASES = {
    "lr": (r"its parameters differ .*training\.optimizer_params\.lr: 0\.1 in the run, 0\.2 now", {}, {}),
    "two": (r"parameters and data differ.*val_freq: not given in the run, 2 now.*dataset: 10 samples", {}, {"seed": 8}),
    "model": (r"its parameters differ .*model\.dropout: 0\.25 in the run, 0\.5 now", {"model": {"dropout": 0.5}}, {}),
    "data": (r"its data differ .*dataset: 10 samples then, 8 now; fingerprint \w{12}… then, \w{12}… now", {}, {"n": 8}),
    "batch": (r"its batches differ .*data\.batch_size: 4 in the run, 3 now", {}, {"batch_size": 3}),
    "transforms": (r"batches differ .*data\.transforms: null in the run, .*:shifted now", {}, {"transforms": shifted}),
    "network": (r"its network (and code )?differ .*model: .*:\w+ in the run, .*:Other now", {}, {}),
}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("case", CASES)
def test_a_changed_run_is_refused_with_the_difference_and_allowed_on_request(kit, tmp_path, manager, case):
    match, build, data = CASES[case]
    run = {"lr": {"optimizer_params": {"lr": 0.2, "momentum": 0.5}}, "two": {"val_freq": 2}}.get(case, {})
    with pytest.raises(Stop):
        kit.experiment(tmp_path, {"dropout": 0.25}, training={"save_freq": 1}).run(manager(), callbacks=[StopAt(2)])
    (folder,) = (tmp_path / "UnnamedExperiment").iterdir()
    build = {"model": {"dropout": 0.25}, **build, **({"cls": other_class(kit)} if case == "network" else {})}
    changed = kit.experiment(tmp_path, training={"save_freq": 1}, **build)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for call in (changed.resume, lambda path, data, **kw: changed.run(data, resume=path, **kw)):
        with pytest.raises(ConfigError, match=f"(?s){match}.*allow_changes=True"):
            call(folder, manager(**data), **run)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    with pytest.warns(UserWarning, match=r"(?s)is continued with changes:\n  ") as caught:
        changed.run(manager(**data), resume=folder, allow_changes=True, **run)
    said = [warning for warning in caught if "with changes" in str(warning.message)]
    assert [warning.filename for warning in said] == [__file__]
    assert changed.last_trainer.state.epoch == 2
    (entry,) = [entry for entry in ledger(folder) if entry["event"] == "resumed"]
    assert entry["changes"] == str(said[0].message).split("\n  ")[1:]
    assert ledger(folder)[-1]["event"] == "finished"


def test_an_unchanged_run_needs_no_permission_and_warns_of_nothing(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Stop):
        experiment.run(manager(), callbacks=[StopAt(2)])
    (folder,) = experiment.save_path.iterdir()
    experiment.resume(folder, manager(), allow_changes=True)  # warnings are errors
    assert "changes" not in ledger(folder)[-2]


def test_auto_never_takes_a_changed_run_even_if_changes_are_allowed(kit, tmp_path, manager):
    with pytest.raises(Stop):
        kit.experiment(tmp_path, training={"save_freq": 1}).run(manager(), callbacks=[StopAt(2)])
    (folder,) = (tmp_path / "UnnamedExperiment").iterdir()
    other = kit.experiment(tmp_path, training={"save_freq": 1}, cls=other_class(kit))
    other.run(manager(), resume="auto", allow_changes=True)
    assert other.last_trainer.save_path.parent != folder


def test_auto_tells_why_the_newest_run_is_not_continued(kit, tmp_path, manager, caplog):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Stop):
        experiment.run(manager(), callbacks=[StopAt(2)])
    (folder,) = experiment.save_path.iterdir()
    # as if the network had been in the script, and is now in a module
    moved = kit.experiment(tmp_path, training={"save_freq": 1}, cls=other_class(kit))
    with pytest.raises(Stop):
        moved.run(manager(), resume="auto", callbacks=[StopAt(2)])
    (said,) = [record.getMessage() for record in caplog.records if "resume='auto'" in record.getMessage()]
    assert said.startswith(f"resume='auto' begins a new run; {folder} did not end, but is not continued: model: ")
    assert "allow_changes=True" in said
    assert "\n" not in said
    caplog.clear()
    moved.run(manager(), resume="auto")  # continues
    moved.run(manager(), resume="auto")  # the newest has ended
    experiment.run(manager(), fold=1, resume="auto")  # of another fold there is none
    assert not [record for record in caplog.records if "resume='auto'" in record.getMessage()]


def test_a_run_folder_of_an_earlier_version_goes_on(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1, "num_epochs": 3})
    expected = kit.read(experiment.run(manager()))
    known = set(experiment.save_path.iterdir())
    for form in ("path", "auto"):
        with pytest.raises(Stop):
            experiment.run(manager(), callbacks=[StopAt(2)])
        (folder,) = set(experiment.save_path.iterdir()) - known
        known.add(folder)
        path = folder / "manifest.json"
        old = json.loads(path.read_text())
        del old["model_params"], old["model"]
        path.write_text(json.dumps(old))
        resumed = experiment.run(manager(), resume=folder if form == "path" else "auto")
        assert experiment.last_trainer.save_path.parent == folder
        assert kit.same(kit.read(resumed), expected)


def test_another_fold_is_never_continued(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    experiment.run(manager())
    folder = experiment.last_trainer.save_path.parent
    for allow in (False, True):
        with pytest.raises(ConfigError, match=r"(?s)fold: 0 in the run, 1 now.*another fold is another run"):
            experiment.resume(folder, manager(), fold=1, allow_changes=allow)


# ---- in a cross-validation


def cross_validated(kit, tmp_path, data, **options):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1, "val_metrics": {"mae": mae}})
    return experiment.kfold(data, **{"num_splits": 2, **options})


def test_splits_that_differ_are_refused_whatever_is_allowed(kit, tmp_path, manager):
    first = cross_validated(kit, tmp_path, manager())
    for allow in (False, True):
        with pytest.raises(
            ConfigError,
            match=r"(?s)its splits differ .*kfold\.num_splits: 2 in the run, 3 now.*may have been trained on before",
        ):
            cross_validated(kit, tmp_path, manager(), num_splits=3, resume=first.path, allow_changes=allow)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("what", ["train_kwargs", "test_kwargs"])
def test_changes_of_the_managers_are_named(kit, tmp_path, manager, what):
    first = cross_validated(kit, tmp_path, manager())
    line = rf"{what}.batch_size: not given in the run, 3 now"
    with pytest.raises(ConfigError, match=rf"(?s)its batches differ .*{line}"):
        cross_validated(kit, tmp_path, manager(), resume=first.path, **{what: {"batch_size": 3}})


def test_an_allowed_change_leaves_finished_folds_as_they_are(kit, tmp_path, manager):
    class Break:
        def at_epoch_begin(self, trainer, **facts):
            if trainer.fold == 1:
                raise Stop

    unbroken = cross_validated(kit, tmp_path / "a", manager())
    with pytest.raises(Stop):
        cross_validated(kit, tmp_path / "b", manager(), callbacks=[Break()])
    (folder,) = (tmp_path / "b" / "UnnamedExperiment").iterdir()
    with pytest.warns(UserWarning, match=r"training\.optimizer_params\.lr: 0\.1 in the run, 0\.2 now") as caught:
        resumed = cross_validated(
            kit, tmp_path / "b", manager(), optimizer_params={"lr": 0.2}, resume=folder, allow_changes=True
        )
    assert caught[0].filename == __file__
    assert kit.same(resumed.folds[0].predictions, unbroken.folds[0].predictions)
    assert not kit.same(resumed.folds[1].predictions, unbroken.folds[1].predictions)


def test_other_metrics_are_no_change(kit, tmp_path, manager):
    first = cross_validated(kit, tmp_path, manager())
    again = cross_validated(kit, tmp_path, manager(), metrics={"other": mae}, resume=first.path)
    assert again.folds[0].metrics.keys() == {"other"}


def test_data_that_say_nothing_of_themselves_can_be_continued(kit, tmp_path, regression):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    batches = [regression(4), regression(4, seed=2)]
    with pytest.raises(Stop):
        experiment.run(batches, callbacks=[StopAt(2)])
    (folder,) = experiment.save_path.iterdir()
    experiment.resume(folder, batches)
    with pytest.raises(ConfigError, match=r"dataset: None samples then, 4 now; fingerprint none then, \w{12}… now"):
        experiment.resume(folder, BaseDataManager(regression(4), 4))
