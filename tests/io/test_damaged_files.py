"""Checkpoints of a real training that were damaged: noticed every time, never loaded in part."""

import io
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest

from delira.errors import CheckpointError

POSIX = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


def trainer_of(kit, path, **settings):
    return kit.trainer(path, kit.build(dropout=0.2), save_freq=1, **settings)


def everything(backend, trainer):
    """What a trainer would write now."""
    return trainer.load_state(trainer.save_state(trainer.save_path / "now"))


@pytest.fixture
def run(kit, manager, tmp_path):
    """Folder of a training of three epochs."""
    trainer_of(kit, tmp_path / "run").train(3, manager(), manager(seed=8))
    return tmp_path / "run"


@pytest.fixture
def newest(kit, run):
    """Names of the newest checkpoint; those before it are left alone."""
    folder = run / "checkpoints"
    paths = [folder / f"checkpoint_{name}{kit.backend.checkpoint_suffix}" for name in ("last", "epoch_3")]
    assert all(path.samefile(paths[0]) for path in paths)
    assert not (folder / f"checkpoint_best{kit.backend.checkpoint_suffix}").exists()
    return paths


# ---- every kind of damage to one file


@pytest.fixture
def victim(kit, run, newest, tmp_path):
    """A trainer that has weights of its own, and a way to let it take bytes over."""
    trainer = trainer_of(kit, tmp_path / "other")
    path = tmp_path / f"victim{kit.backend.checkpoint_suffix}"
    before = everything(kit, trainer)

    class Victim:
        content = newest[0].read_bytes()
        good = trainer.load_state(newest[0])

        def assert_refused(self, content):
            path.write_bytes(content)
            with pytest.raises(CheckpointError, match=path.stem):
                trainer.update_state(path)

        def refuses(self, content):
            """Whether the bytes are refused; if not, all that is loaded must be what was written."""
            path.write_bytes(content)
            try:
                loaded = trainer.load_state(path)
            except CheckpointError:
                return True
            assert kit.same(loaded, self.good)
            return False

        def assert_untouched(self):
            assert kit.same(everything(kit, trainer), before)

    assert not kit.same(before, Victim.good)
    assert not Victim().refuses(Victim.content)
    return Victim()


def test_a_file_cut_short_anywhere_is_refused(victim):
    for percent in range(100):
        victim.assert_refused(victim.content[: len(victim.content) * percent // 100])
    for missing in range(1, 40):
        victim.assert_refused(victim.content[:-missing])
    victim.assert_untouched()


def _flip_bits(victim, number):
    rng = np.random.default_rng(5)
    found = 0
    for bit in rng.integers(8 * len(victim.content), size=number):
        damaged = bytearray(victim.content)
        damaged[bit // 8] ^= 1 << bit % 8
        found += victim.refuses(damaged)
    # the rest are dates, versions and padding
    assert found > 0.5 * number
    victim.assert_untouched()


def test_a_flipped_bit_is_found_or_changes_nothing(victim):
    _flip_bits(victim, 150)


@pytest.mark.slow
def test_a_thousand_flipped_bits_are_found_or_change_nothing(victim):
    _flip_bits(victim, 1000)


@pytest.mark.slow
def test_a_changed_byte_is_found_or_changes_nothing_wherever_it_is(victim):
    for position in range(len(victim.content)):
        damaged = bytearray(victim.content)
        damaged[position] ^= 0xFF
        victim.refuses(damaged)
    victim.assert_untouched()


def test_a_bit_of_what_the_records_hold_is_always_found(victim):
    """Weights, counters and history: not one bit may change unseen."""
    rng = np.random.default_rng(6)
    with zipfile.ZipFile(io.BytesIO(victim.content)) as archive:
        for entry in archive.infolist():
            record = archive.read(entry)
            start = victim.content.index(record, entry.header_offset)
            for bit in rng.integers(8 * len(record), size=4 if record else 0):
                damaged = bytearray(victim.content)
                damaged[start + bit // 8] ^= 1 << bit % 8
                assert victim.refuses(damaged), f"{entry.filename}, bit {bit}"


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
@pytest.mark.parametrize("size", [1, 64, 512])
def test_a_block_that_was_overwritten_is_found_or_changes_nothing(size, fill, victim):
    for start in range(0, len(victim.content), max(64, size)):
        block = victim.content[start : start + size]
        victim.refuses(victim.content[:start] + fill * len(block) + victim.content[start + len(block) :])
    victim.assert_untouched()


def test_a_file_whose_end_was_not_written_is_refused(victim):
    """As after a power loss: the length is right, and the last blocks are zeros."""
    for kept in range(0, len(victim.content), 256):
        victim.assert_refused(victim.content[:kept].ljust(len(victim.content), b"\0"))
    victim.assert_untouched()


def test_blocks_of_two_checkpoints_are_refused(victim, run, kit):
    earlier = (run / "checkpoints" / f"checkpoint_epoch_2{kit.backend.checkpoint_suffix}").read_bytes()
    for cut in range(64, min(len(earlier), len(victim.content)), 64):
        for mixed in (victim.content[:cut] + earlier[cut:], earlier[:cut] + victim.content[cut:]):
            if mixed not in (earlier, victim.content):
                victim.assert_refused(mixed)
    victim.assert_refused(victim.content + earlier[-100:])
    victim.assert_untouched()


def test_bytes_before_and_behind_a_checkpoint_are_refused(victim):
    for more in (b"\0", b"more", bytes(5000), victim.content):
        victim.assert_refused(victim.content + more if more != victim.content else victim.content[1:] + more)
        victim.assert_refused(more + victim.content)
    victim.assert_untouched()


# ---- in the place of a checkpoint that a trainer looks for


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def _folder(path):
    path.mkdir()
    (path / "mine").touch()


#: what stands there instead, and how it gets there
BAD = {
    "nothing in it": lambda path, content: path.write_bytes(b""),
    "text": lambda path, content: path.write_text("epoch,loss\n1,0.5\n"),
    "a picture": lambda path, content: path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100)),
    "HDF5": lambda path, content: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000)),
    "zeros": lambda path, content: path.write_bytes(bytes(len(content))),
    "half of it": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "one byte less": lambda path, content: path.write_bytes(content[:-1]),
    "a pickle": lambda path, content: path.write_bytes(pickle.dumps(Malicious(path.parent / "executed"), 2)),
    "an empty folder": lambda path, content: path.mkdir(),
    "a folder": lambda path, content: _folder(path),
    "a pipe": lambda path, content: os.mkfifo(path),
    "a device": lambda path, content: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path, content: path.symlink_to("nowhere"),
    "a link to itself": lambda path, content: path.symlink_to(path.name),
}


def replace(path, what):
    content = path.read_bytes()
    path.unlink()
    BAD[what](path, content)


@pytest.mark.sampled("values")
@POSIX
@pytest.mark.parametrize("what", BAD)
def test_a_trainer_falls_back_to_the_checkpoint_before_and_says_so(what, kit, run, newest, manager):
    for path in newest:
        replace(path, what)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        again = trainer_of(kit, run)
    texts = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
    assert all(any(str(path) in text for text in texts) for path in newest), texts
    assert not (run / "checkpoints" / "executed").exists()
    assert again.state.epoch == 2
    assert kit.same(
        again.backend.checkpoints.state_tree(again.network, again.optimizers),
        {
            name: again.load_state(again.checkpoints.path("epoch_2"))[name]
            for name in again.backend.checkpoints.state_tree(again.network, again.optimizers)
        },
    )
    again.train(4, manager(), manager(seed=8))  # and what stands there is in nobody's way
    assert again.load_state(again.checkpoints.path("last"))["epoch"] == 4
    assert again.load_state(again.checkpoints.path("epoch_3"))["epoch"] == 3


@pytest.mark.sampled("pairs")
@POSIX
@pytest.mark.parametrize("what", ["half of it", "an empty folder", "a pipe", "a link to itself"])
@pytest.mark.parametrize("name", ["last", "epoch_3", "best"])
def test_one_bad_name_of_many_does_no_harm(name, what, kit, manager, tmp_path):
    trainer = trainer_of(kit, tmp_path / "run", val_score_key="mse")
    trainer.train(3, manager(), manager(seed=8))
    before = everything(kit, trainer_of(kit, tmp_path / "run"))
    replace(trainer.checkpoints.path(name), what)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        again = trainer_of(kit, tmp_path / "run", val_score_key="mse")
    assert again.state.epoch == 3
    assert kit.same(everything(kit, again), before)
    again.train(4, manager(), manager(seed=8))
    assert again.load_state(again.checkpoints.path("last"))["epoch"] == 4


@pytest.mark.sampled("values")
@POSIX
@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_that_is_named_is_refused_and_changes_nothing(what, kit, run, newest, tmp_path):
    replace(newest[0], what)
    trainer = trainer_of(kit, tmp_path / "other")
    before = everything(kit, trainer)
    for load in (trainer.update_state, trainer.load_state):
        with pytest.raises(CheckpointError, match="checkpoint_last"):
            load(newest[0])
    assert kit.same(everything(kit, trainer), before)


# ---- whole files that are no checkpoints


def _npz(backend, path):
    with open(path, "wb") as file:
        np.savez(file, weight=np.ones(3))


def _tree(**changes):
    """A checkpoint that is well written, and wrong in an entry; ``None``: without it."""

    def write(kit, path):
        good = kit.trainer_cls.load_state(path.with_name(path.name.replace("last", "epoch_2")))
        tree = {name: value for name, value in {**good, "epoch": 9, **changes}.items() if value is not None}
        with open(path, "wb") as file:
            kit.backend.checkpoints.write(file, tree)

    return write


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "write",
    [
        _npz,
        _tree(model=None),
        _tree(model=3),
        _tree(model={}),
        _tree(model={"x": {"y": "z"}}),
        _tree(optimizer=None),
        _tree(optimizer=[1]),
        _tree(optimizer={"default": 3}),
        _tree(optimizer={"default": {"state": 1, "param_groups": "x"}}),
        _tree(state=3),
        _tree(state={}),
        _tree(state={"epoch": "x"}),
        _tree(epoch="x"),
        _tree(epoch=[1]),
        _tree(step="x"),
    ],
    ids=[
        "an npz file", "no model", "model is a number", "empty model", "model of text", "no optimizer",
        "optimizer is a list", "optimizer is a number", "optimizer of nonsense", "state is a number", "empty state",
        "state of text", "epoch is text", "epoch is a list", "step is text",
    ],
)  # fmt: skip
def test_a_whole_file_that_is_no_checkpoint_of_this_training_is_refused_by_name(write, kit, run, newest):
    newest[0].unlink()
    write(kit, newest[0])
    network = kit.build(dropout=0.2)
    before = kit.read(network)
    with pytest.raises(CheckpointError, match="checkpoint_last"):
        kit.trainer(run, network, save_freq=1)
    assert np.array_equal(kit.read(network), before)
