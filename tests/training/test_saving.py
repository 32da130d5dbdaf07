"""Which checkpoints a training writes, which of them stay, and what happens when one cannot be written."""

import contextlib
import dataclasses
import itertools
import math
import resource
import shutil
import subprocess
import threading
import time

import pytest
from scripted import scripted
from small_backends import checkpoint_names

from delira.errors import CheckpointError, ConfigError, NonFiniteLossError
from delira.training import saving

pytestmark = pytest.mark.turns

NAN = math.nan


class Broken(BaseException):
    """The process ends here."""


class At:
    """Does something after a step, counted over all epochs from 1."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            self.step = None  # once
            self.action()


def break_off():
    raise Broken


def names(trainer):
    """Names of all checkpoints of a trainer's folder; other files than those beside them are not expected there."""
    return set(checkpoint_names(trainer))


def epochs_kept(trainer):
    return sorted(place[0] for place, _ in trainer.checkpoints.numbered())


def train_with_scores(kit, path, manager, scores, mode="lowest", **settings):
    trainer = kit.trainer(
        path,
        save_freq=settings.pop("save_freq", 1),
        val_metrics={"score": scripted(*scores)},
        val_score_key="score",
        val_score_mode=mode,
        **settings,
    )
    trainer.train(len(scores) * settings.get("val_freq", 1), manager(), manager(4))
    return trainer


# ---- when


class Clock:
    """Time that goes on only when it is told to."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def tick(self, seconds):
        self.seconds += seconds


@pytest.mark.parametrize("background", [False, True])
def test_every_n_minutes_the_last_checkpoint_is_written_inside_the_epoch(
    kit, tmp_path, manager, monkeypatch, background
):
    """Steps of one minute: 1 2 3 | 4 5 6; with an interval of 2 minutes, checkpoints after 2, 4 and 6."""
    clock, seen = Clock(), []

    class Minutes:
        def at_iter_begin(self, trainer, **facts):
            trainer.saver.finish()
            path = trainer.checkpoints.path("last")
            seen.append(trainer.load_state(path)["state"]["global_step"] if path.exists() else None)

        def at_iter_end(self, trainer, **facts):
            clock.tick(60)

    monkeypatch.setattr(saving, "time", clock)
    trainer = kit.trainer(tmp_path, callbacks=[Minutes()], save_freq_minutes=2, save_in_background=background)
    trainer.train(2, manager())
    assert seen == [None, None, 2, 2, 4, 4]
    assert names(trainer) == {"last"}


def test_minutes_are_counted_from_the_last_checkpoint_of_any_kind(kit, tmp_path, manager, monkeypatch):
    clock, seen = Clock(), []

    class Minutes:
        def at_iter_begin(self, trainer, **facts):
            path = trainer.checkpoints.path("last")
            seen.append(trainer.load_state(path)["state"]["global_step"] if path.exists() else None)

        def at_iter_end(self, trainer, **facts):
            clock.tick(60)

    monkeypatch.setattr(saving, "time", clock)
    trainer = kit.trainer(tmp_path, callbacks=[Minutes()], save_freq_minutes=2, save_freq_steps=3)
    clock.tick(3600)  # before the training begins: does not count
    trainer.train(3, manager())
    assert seen == [None, None, 2, 3, 3, 5, 6, 6, 8]


def test_an_epoch_s_end_is_a_time_to_save_too(kit, tmp_path, regression, monkeypatch):
    """Data that cannot be entered in the middle of an epoch."""
    clock, seen = Clock(), []

    class Minutes:
        def at_epoch_begin(self, trainer, **facts):
            path = trainer.checkpoints.path("last")
            seen.append(trainer.load_state(path)["epoch"] if path.exists() else None)
            clock.tick(60)

    class Stream:
        def __iter__(self):
            yield from [regression(4)] * 3

    monkeypatch.setattr(saving, "time", clock)
    kit.trainer(tmp_path, callbacks=[Minutes()], save_freq_minutes=2).train(5, Stream())
    assert seen == [None, None, 2, 2, 4]


def test_steps_are_counted_over_a_restart(kit, tmp_path, manager):
    settings = {"save_freq_steps": 2, "save_freq": 2}
    unbroken = kit.trainer(tmp_path / "unbroken", **settings)
    unbroken.train(3, manager())
    with pytest.raises(Broken):
        kit.trainer(tmp_path / "broken", callbacks=[At(6, break_off)], **settings).train(3, manager())
    resumed = kit.trainer(tmp_path / "broken", **settings)
    resumed.train(3, manager())
    assert names(resumed) == names(unbroken) == {
        "epoch_0_step_2", "epoch_1_step_1", "epoch_1_step_3", "epoch_2", "epoch_2_step_2", "last",
    }  # fmt: skip


# ---- which stay


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"keep_last_checkpoints": 1}, {"epoch_5"}),
        ({"keep_last_checkpoints": 3}, {"epoch_3", "epoch_4", "epoch_5"}),
        ({"keep_last_checkpoints": 99}, {f"epoch_{n}" for n in range(1, 6)}),
        ({"keep_best_checkpoints": 1}, {"epoch_2"}),
        ({"keep_best_checkpoints": 3}, {"epoch_2", "epoch_3", "epoch_4"}),
        ({"keep_best_checkpoints": 2, "keep_last_checkpoints": 1}, {"epoch_2", "epoch_4", "epoch_5"}),
        ({"keep_best_checkpoints": 1, "keep_last_checkpoints": 4}, {f"epoch_{n}" for n in range(2, 6)}),
    ],
)
@pytest.mark.parametrize("background", [False, True])
def test_which_checkpoints_stay(kit, tmp_path, manager, settings, kept, background):
    scores = (5, 1, 3, 2, 4)
    trainer = train_with_scores(kit, tmp_path, manager, scores, save_in_background=background, **settings)
    assert names(trainer) == {*kept, "best", "last"}
    assert trainer.load_state(trainer.checkpoints.path("best"))["epoch"] == 2
    assert trainer.load_state(trainer.checkpoints.path("last"))["epoch"] == 5


@pytest.mark.sampled("values")
@pytest.mark.parametrize("scores", list(itertools.permutations((1.0, 2.0, 3.0, NAN))))
@pytest.mark.parametrize("mode", ["lowest", "highest"])
def test_a_score_that_is_not_a_number_is_worse_than_any_other_wherever_it_comes(tmp_path, manager, scores, mode):
    from small_backends import toy_kit

    trainer = train_with_scores(toy_kit(), tmp_path, manager, scores, mode, keep_best_checkpoints=2)
    wanted = (1.0, 2.0) if mode == "lowest" else (3.0, 2.0)
    assert epochs_kept(trainer) == sorted(scores.index(score) + 1 for score in wanted)


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ((NAN, NAN, NAN), []),  # checkpoint_last is there
        ((2, 1, 1, 1, 3), [2, 3]),  # the earlier of equals
        ((1, 1, 1), [1, 2]),
        ((math.inf, 5, -math.inf, 7), [2, 3]),
        ((NAN, math.inf, NAN), [2]),
        ((-0.0, 0.0, 0.0), [1, 2]),
    ],
)
def test_ties_and_infinities(kit, tmp_path, manager, scores, kept):
    trainer = train_with_scores(kit, tmp_path, manager, scores, keep_best_checkpoints=2)
    assert epochs_kept(trainer) == kept
    assert trainer.load_state(trainer.checkpoints.path("last"))["epoch"] == len(scores)


def test_the_best_of_those_that_are_kept_at_all(kit, tmp_path, manager):
    """Of every second epoch only; the best epochs of all, 1 and 3, have no numbered checkpoint."""
    trainer = train_with_scores(kit, tmp_path, manager, (1, 6, 2, 5, 3, 4, 3, 7), save_freq=2, keep_best_checkpoints=2)
    assert epochs_kept(trainer) == [4, 6]


def test_epochs_that_were_not_validated_are_none_of_the_best(kit, tmp_path, manager):
    trainer = train_with_scores(kit, tmp_path, manager, (3, 1, 2), val_freq=2, keep_best_checkpoints=2)
    assert epochs_kept(trainer) == [4, 6]


def test_checkpoints_inside_epochs_count_as_the_last_and_never_as_the_best(kit, tmp_path, manager):
    settings = {"save_freq_steps": 2, "keep_best_checkpoints": 1}
    trainer = train_with_scores(kit, tmp_path / "best", manager, (1, 2, 3), **settings)
    assert names(trainer) == {"epoch_1", "best", "last"}
    trainer = train_with_scores(kit, tmp_path / "both", manager, (1, 2, 3), keep_last_checkpoints=2, **settings)
    assert names(trainer) == {"epoch_1", "epoch_2_step_2", "epoch_3", "best", "last"}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("stop", [2, 5, 7, 11])
def test_a_resumed_run_keeps_what_an_unbroken_one_keeps(kit, tmp_path, manager, stop):
    class Score:
        """Distance of the mean prediction from a number: no state, so the same after a restart."""

        def __call__(self, y_true, y_pred):
            return float(abs(y_pred.mean() - 0.1))

    def build(path, *callbacks):
        return kit.trainer(
            path, callbacks=callbacks, val_metrics={"score": Score()}, val_score_key="score", val_score_mode="min",
            save_freq=1, save_freq_steps=1, keep_best_checkpoints=2, keep_last_checkpoints=2,
        )  # fmt: skip

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(4, manager(), manager(7))
    with pytest.raises(Broken):
        build(tmp_path / "broken", At(stop, break_off)).train(4, manager(), manager(7))
    resumed = build(tmp_path / "broken")
    resumed.train(4, manager(), manager(7))
    assert names(resumed) == names(unbroken)


@pytest.mark.parametrize(("last", "kept"), [(None, [1, 2, 3]), (1, [3])])
def test_where_no_score_is_watched_none_is_deleted_as_not_the_best(kit, tmp_path, manager, last, kept):
    settings = {"keep_best_checkpoints": 1, "keep_last_checkpoints": last}
    trainer = kit.trainer(tmp_path, save_freq=1, **settings)
    trainer.train(3, manager(), manager(7))
    assert epochs_kept(trainer) == kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("save_freq", 0), ("save_freq_steps", 0), ("save_freq_steps", 2.5), ("save_freq_steps", True),
        ("save_freq_minutes", 0), ("save_freq_minutes", -1), ("save_freq_minutes", NAN),
        ("save_freq_minutes", math.inf), ("save_freq_minutes", "5"), ("keep_last_checkpoints", 0),
        ("keep_best_checkpoints", -1), ("on_save_error", "ignore"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(kit, tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        kit.trainer(tmp_path, **{name: value})


# ---- in the background


class Writer:
    """Stands between the saver and the real writer of the backend, in the thread that writes."""

    def __init__(self, trainer, before=None):
        self._write, self.before = trainer.checkpoints.write, before
        self.places, self.threads, self.at_once, self.most_at_once = [], [], 0, 0
        self.trees = []
        trainer.saver.folder = dataclasses.replace(trainer.checkpoints, write=self)

    def __call__(self, file, tree):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.places.append((tree["epoch"], tree["step"]))
            self.threads.append(threading.current_thread())
            self.trees.append(tree)
            if self.before is not None:
                self.before(tree)
            self._write(file, tree)
        finally:
            self.at_once -= 1


def no_writer_is_left():
    return not [thread for thread in threading.enumerate() if thread.name == "delira checkpoint"]


def test_the_training_goes_on_while_a_checkpoint_is_written_and_the_file_has_the_state_of_its_moment(
    kit, tmp_path, manager
):
    blocking = kit.trainer(tmp_path / "blocking", kit.build(dropout=0.5), save_freq=1, val_score_key="mse")
    blocking.train(2, manager(), manager(7))
    gate = threading.Event()
    trainer = kit.trainer(
        tmp_path / "background", kit.build(dropout=0.5), save_freq=1, val_score_key="mse",
        save_in_background=True, callbacks=[At(6, gate.set)],
    )  # fmt: skip
    # the checkpoint of epoch 1 cannot be written before the last step of epoch 2
    writer = Writer(trainer, lambda tree: gate.wait(30) or pytest.fail("the training waits for the writer"))
    trainer.train(2, manager(), manager(7))
    assert threading.main_thread() not in writer.threads
    for name in ("epoch_1", "epoch_2", "best", "last"):
        trees = [each.load_state(each.checkpoints.path(name)) for each in (blocking, trainer)]
        assert kit.same(*trees), name


def test_two_checkpoints_are_never_written_at_once_and_none_is_left_out(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq=1, save_freq_steps=1, save_in_background=True)
    writer = Writer(trainer, lambda tree: time.sleep(0.02))
    trainer.train(2, manager())
    assert writer.places == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]
    assert writer.most_at_once == 1


def test_train_returns_only_when_all_is_on_disk(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_in_background=True)
    Writer(trainer, lambda tree: time.sleep(0.3))
    trainer.train(2, manager())
    assert no_writer_is_left()
    assert trainer.load_state(trainer.checkpoints.path("last"))["epoch"] == 2


def test_an_error_of_the_training_waits_for_the_writer_too(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, save_freq_steps=4, save_in_background=True, callbacks=[At(5, break_off)])
    Writer(trainer, lambda tree: time.sleep(0.3))
    with pytest.raises(Broken):
        trainer.train(2, manager())
    assert no_writer_is_left()
    assert trainer.load_state(trainer.checkpoints.path("last"))["state"]["global_step"] == 4


def fail(error, place):
    def look(tree):
        if (tree["epoch"], tree["step"]) == place:
            raise error

    return look


def wait_for_writer():
    deadline = time.monotonic() + 30
    while not no_writer_is_left():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda: OSError(5, "Input/output error"), CheckpointError), (lambda: ValueError("no such thing"), ValueError)],
)
def test_an_error_in_the_background_is_raised_after_the_next_step(kit, tmp_path, manager, make, kind):
    error = make()
    trainer = kit.trainer(tmp_path, save_freq_steps=4, save_in_background=True, callbacks=[At(5, wait_for_writer)])
    Writer(trainer, fail(error, (1, 1)))
    with pytest.raises(kind) as caught:
        trainer.train(3, manager())
    assert trainer.state.global_step == 5
    assert caught.value is error or caught.value.__cause__ is error
    if kind is CheckpointError:
        assert str(trainer.checkpoints.path("epoch_1_step_1")) in str(caught.value)
        assert "Checkpoints written before are intact" in str(caught.value)


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda: OSError(5, "Input/output error"), CheckpointError), (lambda: ValueError("no such thing"), ValueError)],
)
def test_an_error_of_the_last_checkpoint_is_raised_and_the_one_before_is_there(
    kit, tmp_path, manager, make, kind, background
):
    trainer = kit.trainer(tmp_path, save_freq=1, save_in_background=background)
    Writer(trainer, fail(make(), (3, 0)))
    with pytest.raises(kind):
        trainer.train(3, manager())
    assert names(trainer) == {"epoch_1", "epoch_2", "last"}
    resumed = kit.trainer(tmp_path, save_freq=1)
    assert resumed.state.epoch == 2
    resumed.train(3, manager())
    unbroken = kit.trainer(tmp_path / "unbroken", save_freq=1)
    unbroken.train(3, manager())
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


@pytest.mark.parametrize("background", [False, True])
def test_an_error_of_saving_does_not_hide_the_error_of_the_training(kit, tmp_path, manager, background, caplog):
    def wait_and_break_off():
        wait_for_writer()
        break_off()

    trainer = kit.trainer(
        tmp_path, save_freq=1, save_in_background=background, on_save_error="warn",
        callbacks=[At(4, wait_and_break_off)],
    )  # fmt: skip
    Writer(trainer, fail(OSError(28, "No space left on device"), (1, 0)))
    expected = pytest.warns(RuntimeWarning, match="No space left") if not background else contextlib.nullcontext()
    with expected, pytest.raises(Broken):
        trainer.train(3, manager())
    assert "No space left on device" in caplog.text


@pytest.mark.parametrize("background", [False, True])
def test_only_errors_of_the_disk_are_warned_about(kit, tmp_path, manager, background):
    trainer = kit.trainer(tmp_path, save_freq=1, save_in_background=background, on_save_error="warn")
    Writer(trainer, fail(TypeError("this cannot be stored"), (2, 0)))
    with pytest.raises(TypeError, match="this cannot be stored"):
        trainer.train(3, manager())


@pytest.mark.parametrize("background", [False, True])
def test_weights_that_are_not_finite_are_never_written_and_keep_their_error(kit, tmp_path, manager, background):
    import numpy as np

    trainer = kit.trainer(tmp_path, save_freq=1, save_in_background=background, on_save_error="warn")
    weights = np.full((3, 1), np.nan)
    trainer.register_callback(At(6, lambda: kit.write(trainer.module, weights)))
    with pytest.raises(NonFiniteLossError, match="the weights are not finite any more after epoch 2"):
        trainer.train(2, manager())
    assert names(trainer) == {"epoch_1", "last"}


def test_the_memory_of_the_copies_is_used_again(tmp_path, manager):
    pytest.importorskip("torch")
    from small_backends import torch_kit

    kit = torch_kit()
    trainer = kit.trainer(tmp_path, save_freq_steps=1, save_in_background=True)
    writer = Writer(trainer)
    trainer.train(3, manager())
    own = trainer.module.linear.weight.data_ptr()
    places = [tree["model"]["linear.weight"].data_ptr() for tree in writer.trees]
    assert len(writer.trees) == 10
    assert len(set(places)) == 1
    assert own not in places


def test_a_trainer_that_saves_in_the_background_can_be_used_again(kit, tmp_path, manager):
    settings = {"save_freq": 1, "save_freq_steps": 1, "val_score_key": "mse", "save_in_background": True}
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(dropout=0.5), **settings)
    unbroken.train(4, manager(), manager(7))
    trainer = kit.trainer(tmp_path / "twice", kit.build(dropout=0.5), **settings)
    trainer.train(2, manager(), manager(7))
    trainer.train(4, manager(), manager(7))
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())
    assert names(trainer) == names(unbroken)


# ---- a disk that is full, a folder that is gone


@contextlib.contextmanager
def no_file_larger_than(n_bytes):
    """What the system itself answers then is EFBIG; Python leaves its signal out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Limited:
    """Files may not become large between two steps."""

    def __init__(self, first, last):
        self.first, self.last, self.scope = first, last, contextlib.ExitStack()

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.first:
            trainer.saver.finish()
            self.scope.enter_context(no_file_larger_than(100_000))
        if global_iter_num + 1 == self.last:
            wait_for_writer()
            self.scope.close()

    def at_training_end(self, trainer, **facts):
        self.scope.close()


WIDE = 30_000


@pytest.mark.sampled("values")
@pytest.mark.parametrize("background", [False, True])
def test_a_file_that_cannot_grow_stops_the_training_with_the_checkpoint_before_it(kit, tmp_path, manager, background):
    settings = {"save_freq": 1, "save_in_background": background, "optimizer_params": {"lr": 1e-6, "momentum": 0.5}}
    data = {"n_features": WIDE}
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(WIDE), **settings)
    unbroken.train(3, manager(**data))
    trainer = kit.trainer(tmp_path / "full", kit.build(WIDE), callbacks=[Limited(5, 99)], **settings)
    with pytest.raises(CheckpointError, match=r"checkpoint_epoch_2.* could not be written: .*File too large") as caught:
        trainer.train(3, manager(**data))
    assert isinstance(caught.value.__cause__, OSError)
    assert names(trainer) == {"epoch_1", "last"}
    resumed = kit.trainer(tmp_path / "full", kit.build(WIDE), **settings)
    assert resumed.state.epoch == 1
    resumed.train(3, manager(**data))
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


@pytest.mark.sampled("values")
@pytest.mark.parametrize("background", [False, True])
def test_a_training_that_only_warns_goes_on_and_saves_again_when_it_can(kit, tmp_path, manager, background):
    settings = {"save_freq": 1, "save_in_background": background, "optimizer_params": {"lr": 1e-6, "momentum": 0.5}}
    data = {"n_features": WIDE}
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(WIDE), **settings)
    unbroken.train(4, manager(**data))
    trainer = kit.trainer(
        tmp_path / "full", kit.build(WIDE), callbacks=[Limited(5, 8)], on_save_error="warn", **settings
    )
    with pytest.warns(RuntimeWarning, match="File too large.*The training goes on") as caught:
        trainer.train(4, manager(**data))
    assert len(caught) == 1
    assert names(trainer) == {"epoch_1", "epoch_3", "epoch_4", "last"}
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB, which only the system's administrator can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


class Fill:
    """Fills the disk after one step, and removes the filling after another."""

    def __init__(self, folder, first, last):
        self.filling, self.first, self.last = folder / "filling", first, last

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.first:
            wait_for_writer()
            with contextlib.suppress(OSError), open(self.filling, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        if global_iter_num + 1 == self.last:
            wait_for_writer()
            self.filling.unlink()


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("on_error", ["raise", "warn"])
@pytest.mark.parametrize("background", [False, True])
def test_a_disk_that_is_full_for_a_while(kit, small_disk, tmp_path, manager, on_error, background):
    """Nothing at all can be written from step 5 to step 8, the history neither."""
    settings = {"save_freq": 1, "save_in_background": background, "on_save_error": on_error}
    unbroken = kit.trainer(tmp_path / "unbroken", **settings)
    unbroken.train(4, manager())
    run = small_disk / "run"
    trainer = kit.trainer(run, callbacks=[Fill(small_disk, 5, 8)], **settings)
    if on_error == "raise":
        with pytest.raises((CheckpointError, OSError), match="No space left on device"):
            trainer.train(4, manager())
        (small_disk / "filling").unlink(missing_ok=True)
        trainer = kit.trainer(run, **settings)
        assert trainer.state.epoch == 1
        trainer.train(4, manager())
    else:
        with pytest.warns(RuntimeWarning, match="No space left on device"):
            trainer.train(4, manager())
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())
    for name in ("history.csv", "history.jsonl"):
        assert (run / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()
    resumed = kit.trainer(run)
    assert resumed.state.epoch == 4


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("what", ["run", "run/checkpoints"])
def test_a_folder_that_is_deleted_inside_an_epoch_is_made_again(kit, tmp_path, manager, what, background, caplog):
    settings = {"save_freq": 1, "save_freq_steps": 1, "save_in_background": background}
    unbroken = kit.trainer(tmp_path / "unbroken", **settings)
    unbroken.train(3, manager())
    trainer = kit.trainer(tmp_path / "run", **settings)

    def delete():
        wait_for_writer()
        shutil.rmtree(tmp_path / what)

    trainer.register_callback(At(5, delete))
    trainer.train(3, manager())
    assert "was deleted under the training; it is made again" in caplog.text
    assert names(trainer) >= {"epoch_1_step_2", "epoch_2", "epoch_3", "last"}
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())
    assert kit.trainer(tmp_path / "run", **settings).state.epoch == 3


def test_if_the_best_checkpoint_was_deleted_the_last_weights_are_kept_and_that_is_said(kit, tmp_path, manager, caplog):
    trainer = kit.trainer(
        tmp_path, val_metrics={"score": scripted(1, 2, 3)}, val_score_key="score", val_score_mode="min", save_freq=1
    )
    trainer.register_callback(At(5, lambda: shutil.rmtree(tmp_path / "checkpoints")))
    trainer.train(3, manager(), manager(4))
    assert "the checkpoint of the best epoch, 1, is not in" in caplog.text
    last = trainer.load_state(trainer.checkpoints.path("last"))
    assert kit.same(trainer.checkpoint_tree()["model"], last["model"])


@pytest.mark.parametrize("background", [False, True])
def test_after_old_checkpoints_could_not_be_deleted_the_trainer_knows_its_own_file(kit, tmp_path, manager, background):
    """The new checkpoint was written by then: it is nobody else's."""
    trainer = kit.trainer(
        tmp_path, save_freq=1, keep_last_checkpoints=1, on_save_error="warn", save_in_background=background
    )
    stubborn = trainer.checkpoints.path("epoch_0_step_1")  # a folder cannot be deleted like a file
    trainer.register_callback(At(1, lambda: stubborn.mkdir(parents=True)))
    with pytest.warns(RuntimeWarning, match="epoch_0_step_1"):
        trainer.train(2, manager())
    stubborn.rmdir()
    trainer.train(3, manager())
    assert names(trainer) == {"epoch_3", "last"}


@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_a_file_in_place_of_the_folder_is_told(kit, tmp_path, manager, on_error):
    def replace():
        shutil.rmtree(tmp_path / "checkpoints")
        (tmp_path / "checkpoints").write_text("")

    trainer = kit.trainer(tmp_path, save_freq=1, on_save_error=on_error, callbacks=[At(4, replace)])
    text = r"checkpoint_epoch_2.* could not be written: .*"
    if on_error == "raise":
        with pytest.raises(CheckpointError, match=text):
            trainer.train(3, manager())
    else:
        with pytest.warns(RuntimeWarning, match=r"could not be written: "):
            trainer.train(3, manager())
        assert trainer.state.epoch == 3


def test_a_file_system_that_becomes_read_only(kit, small_disk, tmp_path, manager):
    def remount(mode):
        subprocess.run(["mount", "-o", f"remount,{mode}", small_disk], check=True)

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(small_disk)  # not the lock of the run, which is open
    trainer = kit.trainer(tmp_path / "run", save_freq_steps=1, callbacks=[At(4, lambda: remount("ro"))])
    with pytest.raises(CheckpointError, match=r"could not be written: .*Read-only file system"):
        trainer.train(3, manager())
    remount("rw")
    resumed = kit.trainer(tmp_path / "run", save_freq_steps=1)
    assert resumed.state.global_step == 3
    resumed.train(3, manager())
