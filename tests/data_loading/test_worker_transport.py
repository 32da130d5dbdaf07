"""How batches travel from the workers: through files without a name, whole or not at all, and nothing is left."""

import contextlib
import gc
import mmap
import multiprocessing
import os
import pickle
import resource
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_workers import Everything, arrays, awkward, batches, check_for_leaks, noise, open_files, same

from delira.data_loading import BaseDataManager
from delira.data_loading.workers import process
from delira.data_loading.workers.process import Packed, Unreadable, receive, send

pytestmark = [pytest.mark.forks, pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")]

LARGE = 2**16
DTYPES = ["bool", "int8", "uint16", "<i8", ">i4", "float16", "float32", "complex64", "<U3", "S2", "datetime64[s]", "O"]


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield from check_for_leaks(request)


@pytest.fixture
def ends():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def travel(value, ends, **kw):
    send(ends[0], value)
    return receive(ends[1], **kw)


def mapped():
    """Bytes of anonymous files that this process has in its memory."""
    total = 0
    with open("/proc/self/maps") as file:
        for line in file:
            if "/memfd:delira" in line:
                begin, end = (int(number, 16) for number in line.split()[0].split("-"))
                total += end - begin
    return total


# ---- one message


@pytest.mark.parametrize(
    "value",
    [
        None,
        3.5,
        "text" * 10**5,
        b"raw" * 10**6,
        [1, {"a": (2, None)}],
        {"z": np.arange(3), "a": {"deep": np.float16(1.5)}},
        np.zeros((0, 3)),
        np.array(5),
        np.array(["a", "bcd"]),
        np.array([(1, "x")], dtype=[("n", "<i4"), ("s", "<U2")]),
        np.arange(LARGE * 2).reshape(2, -1)[:, ::-3],
        np.asfortranarray(np.arange(LARGE * 2.0).reshape(8, -1)),
        np.moveaxis(np.arange(LARGE).reshape(4, 8, -1), 0, 2),
        np.broadcast_to(np.float32(3), (1000, 1000)),
        [np.full(LARGE + number, number, np.uint8) for number in range(40)],
        [np.full(LARGE - 1, 1, np.uint8), np.full(LARGE, 2, np.uint8), np.full(LARGE + 1, 3, np.uint8)],
        np.array([None, {"a": np.zeros(LARGE)}, "x"], dtype=object),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_arrives_as_it_was_sent(ends, value):
    for _ in range(2):
        assert same(travel(value, ends), value)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(DTYPES),
            st.lists(st.integers(0, 12), max_size=3),
            st.sampled_from([1, 100]),
            st.sampled_from("CF"),
            st.booleans(),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_arrays_of_any_kind_arrive(descriptions):
    sent = []
    for dtype, shape, times, order, is_reversed, is_fixed in descriptions:
        shape = (*shape, times)
        array = np.asarray((np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype), order=order)
        # numpy forgets a foreign byte order of what is not contiguous; the recipe of a batch makes it so
        array = array[::-1] if is_reversed and array.dtype.isnative else array
        if is_fixed:
            array.flags.writeable = False
        sent.append(array)
    ends = socket.socketpair()
    try:
        got = travel(sent, ends)
    finally:
        for end in ends:
            end.close()
    assert same(got, sent)
    assert all(ours.flags.writeable >= theirs.flags.writeable for ours, theirs in zip(got, sent, strict=True))
    orders = [(array.flags.c_contiguous, array.flags.f_contiguous) for array in sent]
    assert all(
        (array.flags.c_contiguous, array.flags.f_contiguous) == order
        for array, order in zip(got, orders, strict=True)
        if any(order)
    )


def test_messages_arrive_in_order(ends):
    for number in range(20):
        send(ends[0], {"number": number, "data": np.full(LARGE, number, np.uint8)})
    got = [receive(ends[1]) for _ in range(20)]
    assert [message["number"] for message in got] == list(range(20))
    assert all((message["data"] == message["number"]).all() for message in got)


def test_a_closed_end_is_noticed(ends):
    send(ends[0], "last")
    ends[0].close()
    assert receive(ends[1]) == "last"
    with pytest.raises(EOFError, match="the other end is closed"):
        receive(ends[1])
    with pytest.raises(OSError, match="Broken pipe"):
        send(ends[1], "too late")


def test_what_cannot_be_sent_leaves_nothing(ends):
    files = open_files()
    for wrong in (threading.Lock(), [np.zeros(LARGE), lambda: 0]):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            send(ends[0], wrong)
    assert open_files() == files
    assert travel("fine", ends) == "fine"


class RefusesToArrive:
    """Raises where it is received."""

    def __init__(self):
        self.array = np.zeros(LARGE * 2)

    def __setstate__(self, state):
        raise ValueError("not here")


def test_what_cannot_be_received_leaves_nothing(ends):
    files = open_files()
    for _ in range(5):
        with pytest.raises(Unreadable) as caught:
            travel(RefusesToArrive(), ends)
        assert str(caught.value.__cause__) == "not here"
        del caught
    gc.collect()
    assert open_files() == files
    assert travel("fine", ends) == "fine"


def test_a_sender_that_is_killed_leaves_no_half_message():
    context = multiprocessing.get_context("fork")
    value = {"number": 1, "data": [np.full(LARGE, number, np.uint8) for number in range(20)]}

    def send_for_ever(end):
        while True:
            send(end, value)

    for turn in range(10):
        ours, theirs = socket.socketpair()
        sender = context.Process(target=send_for_ever, args=(theirs,))
        sender.start()
        theirs.close()
        assert same(receive(ours), value)
        time.sleep(0.001 * turn)
        sender.kill()
        sender.join()
        sender.close()
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                assert same(receive(ours), value)
        ours.close()


def test_too_many_open_files_are_said_and_do_not_last(ends):
    value = {"data": np.ones(LARGE), "label": np.ones(LARGE)}
    send(ends[0], value)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers[0], *ends_of(ends)) + 2, limits[1]))
        try:
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            os.close(fillers.pop())  # one is left
        with pytest.raises(Unreadable) as caught:
            receive(ends[1])
        assert "too many files are open in this process (ulimit -n)" in str(caught.value.__cause__)
        with pytest.raises(OSError, match="Too many open files"):
            send(ends[0], value)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for file in fillers:
            os.close(file)
    assert same(travel(value, ends), value)


def ends_of(ends):
    return [end.fileno() for end in ends]


def test_files_that_have_a_name_are_not_used(ends, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = mapped_files()
    value = travel({"data": np.ones(LARGE * 4)}, ends)
    assert not [path for path in mapped_files() - before if path.startswith("/dev/shm/")]
    assert list(tmp_path.iterdir()) == []
    assert value["data"].all()


def mapped_files():
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5].strip() for line in lines if len(line.split()) > 5}


def test_it_works_where_there_are_no_files_in_memory(ends, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    value = {"data": np.arange(LARGE), "label": [np.ones(LARGE)] * 30}
    assert same(travel(value, ends), value)
    expected = batches(BaseDataManager(Everything(), 3, transforms=awkward), (0,))
    assert same(batches(BaseDataManager(Everything(), 3, 2, awkward), (0,)), expected)
    assert list(tmp_path.iterdir()) == []


# ---- one object, several receivers


def test_a_packed_object_can_be_sent_several_times(ends):
    value = {"data": [np.full(LARGE, number, np.uint8) for number in range(40)], "label": 3}
    packed = Packed(value, together=True)
    packed.send(ends[0])
    packed.send(ends[0])
    packed.close()
    packed.close()
    first, second = receive(ends[1], private=True), receive(ends[1], private=True)
    assert same(first, value)
    first["data"][0][:] = 99
    assert same(second, value)


def test_receivers_of_one_object_share_its_memory(ends):
    size = 2**26
    packed = Packed(np.ones(size, np.uint8), together=True)
    packed.send(ends[0])
    packed.close()
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1])
    value = receive(ends[1], private=True)
    with open("/proc/self/statm") as file:
        grown = (int(file.read().split()[1]) - before) * mmap.PAGESIZE
    assert grown < size / 4  # read from the file where it is needed
    assert value[::4096].all()


# ---- batches that were received


def grow(batch, rng):
    return {**batch, "image": rng.random((4, 2**14)), "mask": np.zeros(2**17, np.int8), "small": rng.random(3)}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_outlive_everything_that_made_them(method):
    expected = list(BaseDataManager(arrays(), 2, transforms=grow))
    manager = BaseDataManager(arrays(), 2, 2, grow, worker_settings={"start_method": method})
    kept = list(manager)
    manager.close()
    del manager
    gc.collect()
    assert same(kept, expected)
    for batch in kept:
        batch["image"] += 1
    assert all((batch["image"] >= 1).all() for batch in kept)


def test_batches_can_be_written_to_and_are_independent():
    for number in (0, 2):
        manager = BaseDataManager(arrays(), 2, number, grow)
        expected = list(manager.epoch(0, 0, 0))
        kept = []
        for batch in manager.epoch(0, 0, 0):
            kept.append(batch)
            for position, earlier in enumerate(kept):
                for key in ("data", "label", "image", "mask", "small"):
                    assert earlier[key].flags.writeable, key
                    earlier[key][...] = position
        assert same(list(manager.epoch(0, 0, 0)), expected)
        assert [set(batch["mask"].tolist()) for batch in kept] == [{n} for n in range(5)]
        assert [set(batch["image"].ravel().tolist()) for batch in kept] == [{float(n)} for n in range(5)]


def test_arrays_that_share_a_file_are_independent():
    def many(batch):
        return {**batch, **{f"{number}": np.full(LARGE + 1, number, np.uint8) for number in range(30)}}

    (batch,) = BaseDataManager(arrays(2), 2, 1, many)
    for number in range(0, 30, 2):
        batch[f"{number}"][:] = 200
    assert all((batch[f"{number}"] == number).all() for number in range(1, 30, 2))


def test_keeping_the_label_does_not_keep_the_image():
    def image(batch):
        return {**batch, "image": np.zeros(2**22, np.uint8), "large label": np.ones(LARGE, np.uint8)}

    before = mapped()
    kept = [batch["large label"] for batch in BaseDataManager(arrays(20), 2, 2, image)]
    gc.collect()
    assert mapped() - before < 2**22
    assert all(label.all() for label in kept)


def test_memory_is_given_back():
    manager = BaseDataManager(arrays(20), 2, 2, grow)
    before, files = mapped(), len(open_files())
    for epoch in range(3):
        for _ in manager.epoch(0, 0, epoch):
            pass
    manager.close()
    del _
    gc.collect()
    assert mapped() == before
    assert len(open_files()) == files


@pytest.mark.slow
def test_many_kept_batches_do_not_use_up_the_files():
    files = len(open_files())
    kept = list(BaseDataManager(arrays(400), 1, 2, grow))
    assert len(open_files()) - files < 200
    assert same(kept[-3:], list(BaseDataManager(arrays(400), 1, transforms=grow).epoch(1, 0, 0, 397)))
    kept[-1]["image"][...] = 7
    assert not (kept[-2]["image"] == 7).any()
    del kept
    gc.collect()
    assert len(process._mappings) == 0


def test_a_worker_sees_changes_of_its_own_data_alone():
    def scribble(batch):
        return batch

    class Scribbles(type(BaseDataManager(arrays()).dataset)):
        def get_batch(self, indices):
            batch = super().get_batch(indices)
            self.data["data"][...] = -1  # of a careless user
            return batch

    dataset = Scribbles(arrays())
    list(BaseDataManager(dataset, 5, 2, scribble))
    assert same(dataset.data["data"], arrays()["data"])


def test_batches_of_several_epochs_at_once_are_kept_apart():
    manager = BaseDataManager(arrays(), 2, 2, noise)
    every = [list(manager.epoch(0, 0, epoch)) for epoch in range(6)]
    assert same(every, [list(BaseDataManager(arrays(), 2, transforms=noise).epoch(0, 0, epoch)) for epoch in range(6)])
