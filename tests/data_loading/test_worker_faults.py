"""Workers that are killed, stopped, stuck or raise, bad samples, loops that are left: nothing hangs or stays."""

import contextlib
import ctypes
import errno
import gc
import json
import os
import pickle
import re
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from test_workers import (
    Noisy,
    arrays,
    batches,
    check_for_leaks,
    descendants,
    eventually,
    is_running,
    noise,
    open_files,
    same,
    with_pid,
)

from delira.data_loading import AbstractDataset, BaseDataManager
from delira.data_loading.workers import pool, process
from delira.errors import DataError, WorkerError

pytestmark = [pytest.mark.forks, pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")]

LOG = "delira.data_loading.workers.pool"


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield from check_for_leaks(request)


@contextlib.contextmanager
def within(seconds):
    """Scope that must be left in time."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"took {took:.1f} s"


# ---- what can happen to a worker


def die(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def segfault():
    ctypes.string_at(0)


def loop():
    while True:
        pass


def loop_in_c():
    re.match(r"(a|aa)+$", "a" * 60 + "b")  # 2**60 attempts, without giving way to other threads


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def stop():
    die(signal.SIGSTOP)


def sleep():
    time.sleep(1000)


TROUBLES = {
    "SIGKILL": (lambda: die(signal.SIGKILL), "was ended by SIGKILL"),
    "SIGSEGV": (segfault, "was ended by SIGSEGV"),
    "SIGABRT": (os.abort, "was ended by SIGABRT"),
    "_exit": (lambda: os._exit(3), "ended with exit code 3"),
    "_exit 0": (lambda: os._exit(0), "ended with exit code 0"),
    "SIGSTOP": (stop, r"(was stopped \(SIGSTOP\)|did not answer)"),
    "loop": (loop, r"did not answer for 0\.4 s \(time_limit\)"),
    "loop in C": (loop_in_c, r"did not answer for 0\.4 s \(time_limit\)"),
    "sleep": (sleep, r"did not answer for 0\.4 s \(time_limit\)"),
    "deadlock": (deadlock, r"did not answer for 0\.4 s \(time_limit\)"),
}
STUCK = (stop, loop, loop_in_c, sleep, deadlock)


def troubles(*names, rest_is_slow=()):
    """Parametrize a test by what happens and what is said of it; the rest is for the slow tests."""
    names = names or tuple(TROUBLES)
    cases = [TROUBLES[name] for name in names]
    cases += [pytest.param(*TROUBLES[name], marks=pytest.mark.slow) for name in rest_is_slow]
    return pytest.mark.parametrize(("trouble", "message"), cases, ids=[*names, *rest_is_slow])


class Trouble:
    """Does something to the worker when it comes to a sample, ``times`` times; never in this process.

    It is a transform, or a load function for which each item is its sample.
    """

    def __init__(self, what, folder, times=1, sample=5):
        self.what, self.folder, self.times, self.sample = what, folder, times, sample
        self.main = os.getpid()

    def __call__(self, batch):
        if self.sample in np.atleast_1d(batch["label"]):
            self.strike()
        return batch

    def load(self, item):
        if item == self.sample:
            self.strike()
        return {"data": np.random.rand(2), "label": item}

    def strike(self):
        if os.getpid() == self.main:
            return
        for turn in range(self.times):
            with contextlib.suppress(FileExistsError):
                (self.folder / f"{self.sample}-{turn}").touch(exist_ok=False)
                self.what()
                return


def in_transform(trouble, number, **kw):
    return BaseDataManager(Noisy(12), 2, number, lambda batch: trouble(noise(**batch)), **limited(trouble, kw))


def in_loading(trouble, number, **kw):
    return BaseDataManager(list(range(12)), 2, number, noise, load_fn=trouble.load, **limited(trouble, kw))


def limited(trouble, kw):
    limit = 0.4 if trouble.what in STUCK else 30  # a loaded machine may take its time
    return {"worker_settings": {"time_limit": limit, **kw.pop("worker_settings", {})}, **kw}


everywhere = pytest.mark.parametrize("place", [in_transform, in_loading])


# ---- once: the same batches


@pytest.mark.sampled("half")
@troubles()
def test_a_worker_that_is_lost_is_replaced_and_its_batches_are_the_same(tmp_path, caplog, trouble, message):
    place = in_transform if trouble in (segfault, deadlock) else in_loading
    trouble = Trouble(trouble, tmp_path)
    with within(15):
        got = batches(place(trouble, 2))
    assert len(list(tmp_path.iterdir())) == 1
    assert same(got, batches(place(trouble, 0)))
    (warning,) = [record.getMessage() for record in caplog.records if record.name == LOG]
    assert re.search(rf"worker process \d+ {message}.*; a new one makes its batches again", warning)


@pytest.mark.slow_cases("spawn|loop")
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("name", ["SIGKILL", "loop"])
def test_a_lost_worker_is_replaced_whatever_the_start_method(tmp_path, method, name):
    trouble = Trouble(TROUBLES[name][0], tmp_path)
    manager = in_loading(trouble, 2, worker_settings={"start_method": method})
    manager.transforms = None
    alone = in_loading(trouble, 0)
    alone.transforms = None
    with within(30):
        assert same(batches(manager), batches(alone))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_stopped_worker_is_noticed_long_before_the_time_limit():
    before = descendants()
    manager = BaseDataManager(Noisy(40), 1, 2, with_pid)
    iterator = iter(manager)
    assert len({next(iterator)["pid"] for _ in range(10)}) == 2
    os.kill(min(descendants() - before), signal.SIGSTOP)
    with within(5):
        assert len(list(iterator)) == 30


def test_one_worker_alone_is_replaced_too(tmp_path):
    trouble = Trouble(TROUBLES["SIGKILL"][0], tmp_path)
    assert same(batches(in_transform(trouble, 1)), batches(in_transform(trouble, 0)))


def test_one_loss_in_each_epoch_is_no_error():
    before = descendants()
    manager = BaseDataManager(Noisy(), 1, 2, noise)
    expected = batches(BaseDataManager(Noisy(), 1, transforms=noise), range(4))
    got = []
    for epoch in range(4):
        iterator = manager.epoch(5, 1, epoch, shuffle=True)
        got.append([next(iterator)])
        os.kill(min(descendants() - before), signal.SIGKILL)
        got[-1] += iterator
    assert same(got, expected)


def test_losses_of_a_worker_that_makes_no_batch_ahead_are_counted_over_the_epoch():
    before = descendants()
    manager = BaseDataManager(Noisy(), 1, 1, noise, worker_settings={"prefetch": 1})
    iterator = manager.epoch(5, 1, 0)
    for _ in range(2):
        next(iterator)
        os.kill(max(descendants() - before), signal.SIGKILL)
    with pytest.raises(WorkerError, match="2 workers were lost in this epoch, and replacements=1"):
        next(iterator)


def test_as_many_workers_are_replaced_as_is_asked_for(tmp_path):
    trouble = Trouble(TROUBLES["SIGKILL"][0], tmp_path, times=3)
    manager = in_transform(trouble, 2, worker_settings={"replacements": 3})
    assert same(batches(manager), batches(in_transform(trouble, 0)))
    trouble = Trouble(TROUBLES["SIGKILL"][0], tmp_path, sample=6)
    with pytest.raises(WorkerError, match=r"1 workers? w.* lost in this epoch, and replacements=0"):
        batches(in_transform(trouble, 2, worker_settings={"replacements": 0}))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.timeout(30)
def test_a_worker_may_be_lost_at_any_time(number):
    expected = batches(BaseDataManager(Noisy(40), 2, transforms=noise), (0,))[0]
    for position in (0, 1, 10, 19):
        before = descendants()
        manager = BaseDataManager(Noisy(40), 2, 2, noise, worker_settings={"time_limit": 0.4})
        iterator = manager.epoch(5, 1, 0, shuffle=True)
        got = [next(iterator) for _ in range(position + 1)]
        os.kill(max(descendants() - before), number)
        with within(5):
            got += iterator
        assert same(got, expected)
        manager.close()


def test_a_signal_while_a_batch_is_waited_for_is_noticed_at_once(tmp_path):
    trouble = Trouble(lambda: time.sleep(100), tmp_path)
    manager = in_transform(trouble, 1, worker_settings={"time_limit": 60})
    iterator = manager.epoch(0, 0, 0)
    before = descendants()

    def kill():
        assert eventually(lambda: list(tmp_path.iterdir()))
        os.kill(max(descendants() - before), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with within(5):
        assert len(list(iterator)) == 6
    killer.join()


def test_a_slow_batch_within_the_limit_is_no_loss(caplog):
    def slow(batch):
        time.sleep(0.15)
        return batch

    # not even if the batches ahead of it take longer than the limit together
    assert len(list(BaseDataManager(arrays(12), 2, 1, slow, worker_settings={"time_limit": 0.7, "prefetch": 6}))) == 6
    assert not [record for record in caplog.records if record.name == LOG]


def test_time_spent_between_two_batches_does_not_count(caplog):
    manager = BaseDataManager(arrays(4), 2, 2, worker_settings={"time_limit": 0.5})
    for _ in manager:
        time.sleep(0.7)
    assert not [record for record in caplog.records if record.name == LOG]


# ---- twice: an error


@troubles("SIGKILL", "SIGSTOP", rest_is_slow=("SIGSEGV", "SIGABRT", "_exit", "_exit 0", "loop in C"))
def test_a_second_loss_is_an_error_that_says_where(tmp_path, trouble, message):
    trouble = Trouble(trouble, tmp_path, times=2)
    before = descendants()
    manager = in_loading(trouble, 1, worker_settings={"prefetch": 1})  # else it is raised a batch earlier
    iterator = manager.epoch(7, 2, 3)
    got = [next(iterator), next(iterator)]
    with within(5), pytest.raises(WorkerError) as caught:
        next(iterator)
    text = str(caught.value)
    assert re.search(message, text)
    assert "while it loaded sample 5 for batch 3 of epoch 3 (fold 2, seed 7; samples 4, 5)" in text
    assert "2 workers were lost in this epoch" in text
    assert eventually(lambda: descendants() == before, 1)
    assert iterator.position == 2
    got += iterator  # the trouble is over
    assert same(got, list(in_loading(trouble, 0).epoch(7, 2, 3)))
    assert same(batches(manager), batches(in_loading(trouble, 0)))


@troubles("loop", rest_is_slow=("SIGKILL", "SIGSEGV"))
def test_the_error_names_the_transform_at_work(tmp_path, trouble, message):
    manager = in_transform(Trouble(trouble, tmp_path, times=2), 2)
    with within(5), pytest.raises(WorkerError, match=message) as caught:
        list(manager)
    assert "while the transform worked on batch 3 (fold 0, seed 1; samples 4, 5)" in str(caught.value)


@pytest.mark.slow_cases("SIGABRT|deadlock")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "deadlock"])
def test_the_error_shows_the_line_of_the_users_code(tmp_path, name):
    manager = in_loading(Trouble(TROUBLES[name][0], tmp_path, times=2), 1)
    with pytest.raises(WorkerError) as caught:
        list(manager)
    assert re.search(
        r"most recent call first\)\n(.*\n)*.*test_worker_faults\.py.* in strike\n.* in load", str(caught.value)
    )


def test_an_error_can_be_passed_over(tmp_path):
    trouble = Trouble(TROUBLES["SIGKILL"][0], tmp_path, times=100)
    iterator = in_loading(trouble, 1, worker_settings={"prefetch": 1}).epoch(0, 0, 0)
    got = []
    while iterator.position < len(iterator):
        try:
            got.append(next(iterator))
        except WorkerError:
            iterator.seek(iterator.position + 1)
    expected = list(in_loading(trouble, 0).epoch(0, 0, 0))
    del expected[2]
    assert same(got, expected)


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_all_workers_lost_at_once_are_an_error_in_time(number):
    before = descendants()
    manager = BaseDataManager(Noisy(40), 1, 4, with_pid, worker_settings={"time_limit": 0.5})
    pids = {batch["pid"] for batch in manager}
    assert len(pids) == 4
    iterator = iter(manager)
    next(iterator)
    for pid in pids:
        os.kill(pid, number)
    with within(5), pytest.raises(WorkerError, match="2 workers were lost"):
        list(iterator)
    assert descendants() == before
    assert len(list(manager)) == 40


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_a_worker_that_is_stopped_before_it_is_ready_is_replaced():
    struck = []

    def stop():
        if os.getppid() == main and not struck:
            os.kill(os.getpid(), signal.SIGSTOP)

    main = os.getpid()
    os.register_at_fork(after_in_child=stop, after_in_parent=lambda: struck.append(1))
    try:
        with within(5):
            assert len(list(BaseDataManager(arrays(), 2, 1, worker_settings={"time_limit": 0.5}))) == 5
    finally:
        struck.append(1)


def test_a_worker_that_cannot_even_start_is_an_error(tmp_path):
    class Ends(AbstractDataset):
        def __init__(self):
            super().__init__()
            self.data = range(5)

        def __getitem__(self, index):
            return {"label": index}

        def __reduce__(self):
            return os._exit, (9,)

    manager = BaseDataManager(Ends(), 2, 2, worker_settings={"start_method": "spawn"})
    with within(30), pytest.raises(WorkerError, match="ended with exit code 9"):
        next(iter(manager))


# ---- exceptions


class Needs(Exception):
    """Cannot be made of its message alone."""

    def __init__(self, path, line):
        super().__init__(f"{path} is damaged in line {line}")
        self.path, self.line = path, line


class Rewords(Exception):
    """Makes another message of its argument."""

    def __init__(self, path):
        super().__init__(f"cannot read {path}")


class Holds(Exception):
    """Holds what cannot be pickled."""

    def __init__(self, message):
        super().__init__(message)
        self.lock = threading.Lock()


class Silent(Exception):
    """Cannot even be shown."""

    def __str__(self):
        raise RuntimeError("no words")


class Refuses(Exception):
    """Refuses to be pickled."""

    def __reduce__(self):
        raise pickle.PicklingError("not me")


def local():
    class Local(Exception):
        pass

    return Local("of a function")


def chained():
    error = ValueError("of the user")
    error.__cause__ = KeyError("deeper")
    error.add_note("a note of the user")
    return error


EXCEPTIONS = {
    "ValueError": lambda: ValueError("broken", 3),
    "KeyError": lambda: KeyError("mask"),
    "OSError": lambda: FileNotFoundError(2, "No such file or directory", "/data/a.png"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "JSONDecodeError": lambda: json.JSONDecodeError("Expecting value", "{", 1),
    "group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "chained": chained,
    "required arguments": lambda: Needs("a.png", 3),
    "other words": lambda: Rewords("a.png"),
    "unpicklable": lambda: Holds("with a lock"),
    "refuses": lambda: Refuses("to travel"),
    "local": local,
    "long": lambda: RuntimeError("x" * 10_000_000),
    "array": lambda: RuntimeError("see", np.zeros(100_000)),
    "MemoryError": lambda: MemoryError("of the user"),
    "AssertionError": lambda: AssertionError(),
}
TRAVELS = [name for name in EXCEPTIONS if name not in ("required arguments", "unpicklable", "refuses", "local")]
#: every worker costs a second: those that differ most go with every change, the rest with make full
SOME_TRAVEL = [
    name if name in ("KeyError", "chained", "group") else pytest.param(name, marks=pytest.mark.slow) for name in TRAVELS
]


class Raises:
    """Raises when it comes to sample 5."""

    def __init__(self, make):
        self.make = make

    def __call__(self, batch):
        if 5 in batch["label"]:
            raise self.make()
        return noise(**batch)

    def load(self, item):
        if item == 5:
            raise self.make()
        return {"data": np.random.rand(2), "label": item}


def raised(manager):
    """What an epoch raises at its third batch; everything goes on behind it."""
    iterator = manager.epoch(7, 2, 3)
    got = [next(iterator), next(iterator)]
    with within(5):
        try:
            next(iterator)
        except BaseException as error:
            caught = error
    assert iterator.position == 2
    if isinstance(caught, Exception):
        iterator.seek(3)
        got += iterator
        assert [batch["label"].tolist() for batch in got] == [[0, 1], [2, 3], [6, 7], [8, 9], [10, 11]]
    return caught


def shown(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", SOME_TRAVEL)
@everywhere
def test_an_exception_arrives_as_it_is(name, place):
    problem = Raises(EXCEPTIONS[name])
    alone, ahead = (
        raised(
            BaseDataManager(list(range(12)), 2, number, noise, load_fn=problem.load)
            if place is in_loading
            else BaseDataManager(Noisy(12), 2, number, problem)
        )
        for number in (0, 2)
    )
    assert type(ahead) is type(alone)
    assert str(ahead) == str(alone)
    assert len(ahead.args) == len(alone.args)
    assert ahead.__notes__ == alone.__notes__
    assert "while batch 3 of epoch 3 (fold 2, seed 7; samples 4, 5) was made" in ahead.__notes__
    named = "sample 5" if place is in_loading else "transform Raises"
    assert any(named in note for note in ahead.__notes__)
    cause = str(ahead.__cause__)
    assert "Traceback (most recent call last)" in cause
    assert re.search(rf"in {'load' if place is in_loading else '__call__'}\n[ |]*raise self\.make\(\)", cause)
    if name == "chained":
        assert "deeper" in cause


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXCEPTIONS.keys() - set(TRAVELS)))
def test_an_exception_that_cannot_travel_says_all_that_it_would_have_said(name):
    error = raised(BaseDataManager(list(range(12)), 2, 2, load_fn=Raises(EXCEPTIONS[name]).load))
    assert isinstance(error, (DataError, type(EXCEPTIONS[name]())))
    text = str(error) + "\n".join(error.__notes__)
    original = EXCEPTIONS[name]()
    assert type(original).__name__ in text or type(error) is type(original)
    assert str(original) in text
    assert "sample 5" in text
    assert "while batch 3 of epoch 3 (fold 2, seed 7; samples 4, 5) was made" in text
    assert "raise self.make()" in str(error.__cause__)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_an_exception_arrives_from_processes_that_inherit_nothing(method):
    problem = Raises(EXCEPTIONS["OSError"])
    manager = BaseDataManager(list(range(12)), 2, 2, load_fn=problem.load, worker_settings={"start_method": method})
    error = raised(manager)
    assert type(error) is FileNotFoundError
    assert (error.errno, error.filename) == (2, "/data/a.png")
    assert "raise self.make()" in str(error.__cause__)


def test_an_exception_that_cannot_be_shown_is_no_loss(caplog):
    error = raised(BaseDataManager(list(range(12)), 2, 2, load_fn=Raises(Silent).load))
    assert isinstance(error, (Silent, DataError))
    assert "while batch 3 of epoch 3 (fold 2, seed 7; samples 4, 5) was made" in error.__notes__
    assert not [record for record in caplog.records if record.name == LOG]


@pytest.mark.slow_cases("SystemExit|GeneratorExit")
@pytest.mark.parametrize("cls", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_ends_the_iteration_as_it_does_without_workers(cls):
    before = descendants()
    for number in (0, 2):
        manager = BaseDataManager(list(range(12)), 2, number, load_fn=Raises(lambda: cls(3)).load)
        iterator = manager.epoch(7, 2, 3)
        with pytest.raises(cls) as caught:
            list(iterator)
        assert caught.value.args == (3,)
        assert descendants() == before
        assert list(iterator) == []
        assert iterator.position == 2
        assert len(list(manager.epoch(0, 0, 0, 3))) == 3


@everywhere
def test_stop_iteration_does_not_end_an_epoch(place):
    problem = Raises(StopIteration)
    alone, ahead = (
        raised(
            BaseDataManager(list(range(12)), 2, number, noise, load_fn=problem.load)
            if place is in_loading
            else BaseDataManager(Noisy(12), 2, number, problem)
        )
        for number in (0, 2)
    )
    assert type(ahead) is type(alone) is DataError
    assert str(ahead) == str(alone)
    assert "StopIteration" in str(ahead)


@pytest.mark.parametrize(
    "thing",
    [lambda: threading.Lock(), lambda: (n for n in "ab"), lambda: lambda: 0],
    ids=["lock", "generator", "lambda"],
)
@pytest.mark.slow
def test_a_batch_that_cannot_be_sent_is_named(thing):
    def add(batch):
        return batch | {"extra": thing()}

    iterator = iter(BaseDataManager(arrays(), 5, 2, add))
    for _ in range(2):
        with pytest.raises(Exception, match=type(thing()).__name__) as caught:
            next(iterator)
        text = "\n".join(caught.value.__notes__)
        assert "batch 1 was sent to the main process" in text
        assert "'extra'" in text


def test_an_exception_is_raised_when_its_batch_is_asked_for():
    def late(batch):
        if 9 in batch["label"]:
            raise ValueError("the last one")
        return batch

    iterator = iter(BaseDataManager(arrays(), 2, 2, late, worker_settings={"prefetch": 5}))
    assert [next(iterator)["label"].tolist() for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    with pytest.raises(ValueError, match="the last one"):
        next(iterator)


def test_warnings_of_workers_do_no_harm():
    def warn(batch):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("of a transform", stacklevel=1)
        return batch

    assert len(list(BaseDataManager(arrays(), 2, 2, warn))) == 5


# ---- bad samples


class Bad:
    """A load function that cannot load some samples."""

    def __init__(self, *samples):
        self.samples = samples

    def __call__(self, item):
        if item in self.samples:
            raise OSError(f"image {item} is truncated")
        return {"data": np.random.rand(2), "label": item}


def skipping(bad, number, n=12, **kw):
    return BaseDataManager(list(range(n)), 3, number, noise, load_fn=bad, bad_samples="skip", **kw)


skipped = pytest.mark.filterwarnings("ignore:sample .* is left out:UserWarning")


@skipped
@pytest.mark.parametrize("samples", [(5,), (0, 11), (3, 4, 5), (0, 1, 2, 5), tuple(range(1, 12))])
def test_bad_samples_are_left_out_of_the_same_batches(samples):
    alone, ahead = (skipping(Bad(*samples), number) for number in (0, 2))
    expected = batches(alone)
    assert same(batches(ahead), expected)
    for epoch in expected:
        assert sorted(np.concatenate([batch["label"] for batch in epoch])) == sorted({*range(12)} - {*samples})
    assert ahead.left_out == alone.left_out == {n: f"OSError: image {n} is truncated" for n in samples}


@pytest.mark.parametrize("number", [0, 2])
def test_a_bad_sample_is_announced_once(number):
    manager = skipping(Bad(4, 7), number)
    with pytest.warns(UserWarning, match="is left out") as seen:
        batches(manager, range(3))
    assert sorted(str(warning.message) for warning in seen) == [
        f"sample {n} of BaseLazyDataset is left out, it cannot be loaded: OSError: image {n} is truncated"
        for n in (4, 7)
    ]
    assert {Path(warning.filename).name for warning in seen} == {"test_workers.py"}  # where it iterates


@skipped
@pytest.mark.parametrize("number", [0, 2])
def test_an_epoch_without_one_good_sample_is_an_error(number):
    manager = skipping(Bad(*range(12)), number)
    with pytest.raises(DataError, match=r"no sample of the epoch can be loaded.*OSError: image .* is truncated"):
        list(manager)
    assert len(manager.left_out) == 12


@skipped
@pytest.mark.parametrize("number", [0, 2])
def test_coming_back_to_a_bad_batch_is_no_error(number):
    iterator = skipping(Bad(0, 1, 2), number, n=6).epoch(0, 0, 0)
    for _ in range(4):
        iterator.seek(0)
        assert next(iterator)["label"].tolist() == [3, 4, 5]
        assert iterator.position == 2


@skipped
@pytest.mark.parametrize("number", [0, 2])
def test_what_does_not_fit_together_is_not_left_out(number):
    manager = BaseDataManager(
        [{"data": np.zeros(2)}, {"data": np.zeros(3)}, {"data": np.zeros(2)}], 3, number, bad_samples="skip"
    )
    with pytest.raises(DataError, match=r"entry 'data' of sample 1 has shape \(3,\)"):
        list(manager)
    assert manager.left_out == {}


@skipped
@pytest.mark.parametrize("number", [0, 2])
def test_errors_of_the_transform_are_not_those_of_samples(number):
    def broken(batch):
        raise ZeroDivisionError("always")

    manager = BaseDataManager(arrays(), 3, number, broken, bad_samples="skip")
    with pytest.raises(ZeroDivisionError, match="always"):
        list(manager)
    assert manager.left_out == {}


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "loop"])
def test_a_sample_that_ends_workers_is_left_out(tmp_path, name):
    trouble = Trouble(TROUBLES[name][0], tmp_path, times=100)
    manager = in_loading(trouble, 2, bad_samples="skip")
    with within(10), pytest.warns(UserWarning, match="sample 5 of .* is left out") as seen:
        got = list(manager)
    assert len(seen) == 1
    assert [batch["label"].tolist() for batch in got] == [[0, 1], [2, 3], [4], [6, 7], [8, 9], [10, 11]]
    assert list(manager.left_out) == [5]
    assert same(got[:2] + got[3:], [batch for batch in in_loading(trouble, 0) if 5 not in batch["label"]])
    losses = len(list(tmp_path.iterdir()))
    assert losses == 2
    assert same(list(manager), got)
    assert len(list(tmp_path.iterdir())) == losses  # it is known now


@skipped
@pytest.mark.parametrize("bad", [(2, 9), (2, 3), (0, 5, 11)])
def test_several_samples_that_end_workers_are_left_out(tmp_path, bad):
    troubles = [Trouble(TROUBLES["SIGKILL"][0], tmp_path, times=100, sample=sample) for sample in bad]

    def load(item):
        for trouble in troubles:
            trouble.load(item)
        return {"label": item}

    manager = BaseDataManager(list(range(12)), 2, 2, load_fn=load, bad_samples="skip")
    with within(10):
        got = np.concatenate([batch["label"] for batch in manager])
    assert sorted(got) == sorted({*range(12)} - {*bad})
    assert sorted(manager.left_out) == list(bad)


@skipped
def test_a_sample_that_ended_workers_is_known_to_new_workers(tmp_path):
    trouble = Trouble(TROUBLES["SIGKILL"][0], tmp_path, times=100)
    manager = in_loading(trouble, 2, bad_samples="skip")
    list(manager)
    losses = len(list(tmp_path.iterdir()))
    manager.close()
    assert len(list(manager)) == 6
    assert len(list(tmp_path.iterdir())) == losses


# ---- leaving early


def leave(iterator):
    for _ in iterator:
        break


def fail(iterator):
    with contextlib.suppress(ZeroDivisionError):
        for _ in iterator:
            raise ZeroDivisionError


def close(iterator):
    next(iterator)
    iterator.close()
    assert list(iterator) == []


def drop(iterator):
    next(iterator)


def never(iterator):
    pass


@pytest.mark.parametrize("how", [leave, fail, close, drop, never])
def test_the_workers_of_an_iteration_that_was_left_serve_the_next(how):
    before = descendants()
    manager = BaseDataManager(Noisy(40), 1, 2, noise)
    list(manager)
    workers = descendants() - before
    iterator = manager.epoch(0, 0, 0)
    how(iterator)
    del iterator
    assert descendants() - before == workers
    assert len(list(manager)) == 40
    assert descendants() - before == workers
    manager.close()
    assert eventually(lambda: descendants() == before, 1)


@pytest.mark.parametrize("how", [leave, fail, close, drop])
def test_a_manager_that_is_gone_leaves_nothing(how):
    def use():
        manager = BaseDataManager(Noisy(40), 1, 2, noise)
        how(iter(manager))

    before, files = descendants(), len(open_files())
    gc.disable()  # nothing may wait for it
    try:
        for _ in range(3):
            use()
            assert eventually(lambda: descendants() == before, 1)
        assert len(open_files()) == files
    finally:
        gc.enable()


def test_an_iterator_outlives_its_manager():
    before = descendants()
    expected = batches(BaseDataManager(Noisy(), 2, transforms=noise), (0,))[0]
    manager = BaseDataManager(Noisy(), 2, 2, noise)
    iterator = manager.epoch(5, 1, 0, shuffle=True)
    got = [next(iterator)]
    del manager
    got += iterator
    assert same(got, expected)
    del iterator
    assert eventually(lambda: descendants() == before, 1)


def test_closing_the_manager_does_not_end_a_running_epoch():
    manager = BaseDataManager(Noisy(), 2, 2)
    iterator = iter(manager)
    next(iterator)
    manager.close()
    assert len(list(iterator)) == 4


def test_a_busy_worker_does_not_keep_an_iteration_from_ending():
    def slow(batch):
        if 0 not in batch["label"]:
            time.sleep(1000)
        return batch

    before = descendants()
    manager = BaseDataManager(Noisy(40), 1, 4, slow)
    with within(60):
        leave(manager)
        manager.close()
    assert descendants() == before


def test_work_that_is_no_longer_wanted_is_dropped():
    def slow(batch):
        time.sleep(0.15)
        return batch

    for prefetch in (30, 60):
        manager = BaseDataManager(Noisy(40), 1, 1, slow, worker_settings={"prefetch": prefetch})
        iterator = iter(manager)
        next(iterator)
        iterator.seek(39)
        with within(2):
            next(iterator)


@pytest.mark.parametrize("name", ["send", "receive"])
@pytest.mark.parametrize("again", [False, True])
def test_a_failure_between_this_process_and_a_worker_mixes_no_batches_up(monkeypatch, name, again):
    module = process if name == "send" else pool
    manager = BaseDataManager(Noisy(20), 1, 2, noise)
    expected = batches(BaseDataManager(Noisy(20), 1, transforms=noise), (0,))[0]
    iterator = manager.epoch(5, 1, 0, shuffle=True)
    got = [next(iterator) for _ in range(3)]

    def fails(*args):
        monkeypatch.undo()
        if name == "receive":  # and what came is lost
            pool.receive(*args)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(module, name, fails)
    with pytest.raises(OSError, match="Too many open files"):
        got.extend(iterator)
    if again:
        iterator = manager.epoch(5, 1, 0, start=len(got), shuffle=True)
    assert same(got + list(iterator), expected)
    manager.close()


def test_a_worker_stuck_with_work_of_the_last_iteration_is_replaced(tmp_path):
    trouble = Trouble(TROUBLES["sleep"][0], tmp_path)
    manager = in_transform(trouble, 1)
    iterator = manager.epoch(0, 0, 0)
    next(iterator)  # sample 5 is in the next but one
    next(iterator)
    assert eventually(lambda: list(tmp_path.iterdir()))
    iterator.seek(0)
    with within(5):
        assert len(list(iterator)) == 6


def test_an_interrupt_ends_the_workers(tmp_path):
    def interrupt():
        assert eventually(lambda: list(tmp_path.iterdir()))
        time.sleep(0.2)  # this process waits by then: between two instructions that open a file, one would stay open
        os.kill(os.getpid(), signal.SIGINT)

    before = descendants()
    manager = in_transform(Trouble(lambda: time.sleep(1000), tmp_path), 2, worker_settings={"time_limit": 100})
    iterator = iter(manager)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with within(5), pytest.raises(KeyboardInterrupt):
        list(iterator)
    thread.join()
    assert descendants() == before
    assert list(iterator) == []
    assert len(list(manager)) == 6


# ---- forks of the user's


def test_a_child_that_the_user_forks_does_not_end_the_workers(caplog):
    expected = batches(BaseDataManager(Noisy(), 1, transforms=noise), (0,))[0]
    before = descendants()
    manager = BaseDataManager(Noisy(), 1, 2, noise)
    iterator = manager.epoch(5, 1, 0, shuffle=True)
    got = [next(iterator)]
    workers = descendants() - before
    for leaving in ("os._exit(0)", "close(manager)", "sys.exit(0)"):
        pid = os.fork()
        if pid == 0:
            leave_child(leaving, manager)
        assert os.waitpid(pid, 0)[1] == 0
        time.sleep(0.1)  # for a signal to arrive
        assert all(map(is_running, workers)), leaving
        got.append(next(iterator))
    got += iterator
    assert same(got, expected)
    assert descendants() - before == workers
    assert not caplog.records


def leave_child(how, manager):
    """End a forked child of the tests, the way a program would."""
    import multiprocessing.util

    try:
        if how == "close(manager)":
            manager.close()
        elif how == "sys.exit(0)":
            multiprocessing.util._exit_function()  # what runs at exit, without that of pytest
    finally:
        os._exit(0)


@pytest.mark.parametrize("running", [True, False])
def test_a_child_that_the_user_forks_may_iterate_too(running):
    expected = batches(BaseDataManager(Noisy(), 1, transforms=noise), (0,))[0]
    manager = BaseDataManager(Noisy(), 1, 2, noise, worker_settings={"time_limit": 20})
    iterator = manager.epoch(5, 1, 0, shuffle=True)
    got = [next(iterator)]
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # the child may hang, its parent may not
        try:
            theirs = [*got, *iterator] if running else batches(manager, (0,))[0]
            os._exit(0 if same(theirs, expected) else 2)
        except Exception:  # it may be refused
            os._exit(0 if running else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with within(5):
        got += iterator
    assert same(got, expected)
    assert status == 0


def test_processes_that_are_forked_at_the_same_time_do_not_hide_a_death():
    # a process forked by another thread may inherit what tells of the end of a worker
    original = os.fork
    children = []

    def fork_twice():
        child = original()
        if child:
            stranger = original()
            if stranger == 0:
                time.sleep(8)
                os._exit(0)
            children.append(stranger)
        return child

    before = descendants()
    expected = batches(BaseDataManager(Noisy(), 1, transforms=noise), (0,))[0]
    os.fork = fork_twice
    try:
        manager = BaseDataManager(Noisy(), 1, 2, noise)
        iterator = manager.epoch(5, 1, 0, shuffle=True)
        got = [next(iterator)]
    finally:
        os.fork = original
    try:
        workers = descendants() - before - set(children)
        os.kill(min(workers), signal.SIGKILL)
        with within(5):
            got += iterator
        assert same(got, expected)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# ---- many epochs


def test_many_epochs_leave_nothing_behind():
    manager = BaseDataManager(arrays(4), 2, 2, noise)
    list(manager)
    files = len(open_files())
    for epoch in range(300):
        for _ in manager.epoch(0, 0, epoch):
            if epoch % 3 == 0:
                break
    gc.collect()
    assert len(open_files()) <= files


def test_many_losses_leave_nothing_behind():
    before = descendants()
    manager = BaseDataManager(Noisy(), 1, 2, noise)
    list(manager)
    files = open_files()
    for epoch in range(10):
        os.kill(max(descendants() - before), signal.SIGKILL)
        assert len(list(manager.epoch(0, 0, epoch))) == 10
    gc.collect()
    assert len(open_files()) <= len(files)
