"""Any mixture of what makes a run random or gives it a state: broken off and continued, it ends in the same bits."""

import dataclasses
import functools
import itertools
import os
import tempfile
import zlib
from pathlib import Path

import everything
import numpy as np
import pytest
from everything import BATCH_SIZE, EPOCHS, FEATURES, N_SAMPLES, SAMPLERS, STEPS, outcome, train
from small_backends import NORMAL_KITS

pytestmark = [pytest.mark.forks, pytest.mark.turns]

WORKERS = (0, 1, 3)
#: where a run is broken off: after a step; after two steps of one epoch; between the last step of an epoch and its
#: checkpoint; right after that checkpoint
KINDS = ("inside", "twice", "before the end", "at the end")
FILES = ("history.csv", "history.jsonl")


@pytest.fixture(autouse=True)
def compiled_once(request, tmp_path_factory):
    """Trainers of JAX, of which there are more than a hundred, share what XLA has compiled."""
    if "kit" not in request.fixturenames or request.getfixturevalue("kit").name != "jax":
        yield
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    chosen = {
        "jax_compilation_cache_dir": str(tmp_path_factory.getbasetemp() / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in chosen}
    for settings in (chosen, before):
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        if settings is chosen:
            yield


class Interrupted(BaseException):
    """The process ends here."""


class BreakOff:
    """Ends the process at a moment of an epoch; steps and epochs count from 1."""

    def __init__(self, moment, epoch, step=None):
        self.moment, self.epoch, self.step = moment, epoch, step

    def _at(self, moment, epoch, step=None):
        if (moment, epoch, step) == (self.moment, self.epoch, self.step):
            raise Interrupted

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        self._at("step", curr_epoch, iter_num + 1)

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self._at("epoch end", curr_epoch)

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        self._at("epoch begin", curr_epoch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One run that is broken off."""

    workers: int
    sampler: str
    features: frozenset
    kind: str
    changes_workers: bool
    """Whether it is continued with another number of workers."""

    def __str__(self):
        change = ", then another number" if self.changes_workers else ""
        return f"{self.workers} workers{change}; {self.sampler}; {sorted(self.features)}; broken off {self.kind}"

    @property
    def rng(self):
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def plan(self):
        """``(settings, [(where it is broken off, (epoch, step) of the checkpoint before)])``."""
        rng = self.rng
        epoch = int(rng.integers(1, 3))  # 1 or 2: early stopping ends after the third
        every = int(rng.integers(1, 3))
        if self.kind == "inside":
            step = int(rng.integers(every + 1, STEPS + 1))
            return {"save_freq_steps": every}, [
                (BreakOff("step", epoch, step), (epoch - 1, (step - 1) // every * every))
            ]
        if self.kind == "twice":
            return {"save_freq_steps": 1}, [
                (BreakOff("step", epoch, 2), (epoch - 1, 1)),
                (BreakOff("step", epoch, step := int(rng.integers(3, STEPS + 1))), (epoch - 1, step - 1)),
            ]
        if self.kind == "before the end":
            return {"save_freq_steps": every}, [(BreakOff("epoch end", epoch), (epoch - 1, STEPS))]
        return {"save_freq": 1}, [(BreakOff("epoch begin", epoch + 1), (epoch, 0))]

    def continued_with(self):
        """Workers of each later session."""
        others = [number for number in WORKERS if number != self.workers]
        while True:
            yield others[int(self.rng.integers(len(others)))] if self.changes_workers else self.workers


def ended(trainer, path):
    return outcome(trainer), [(path / name).read_bytes() for name in FILES]


@functools.cache
def unbroken(kit, features, sampler):
    """What the run ends with that was never broken off, and had no workers."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = everything.build(kit, Path(folder), features)
        train(trainer, features, sampler)
        tree, files = ended(trainer, Path(folder))
    return kit.backend.arrays.snapshot(tree, None), files


def check(kit, folder, case):
    """Break the run off, continue it, and compare."""
    settings, breaks = case.plan()
    workers, later = case.workers, case.continued_with()
    for break_off, place in breaks:
        with pytest.raises(Interrupted):
            train(
                everything.build(kit, folder, case.features, break_off, **settings),
                case.features, case.sampler, workers,
            )  # fmt: skip
        trainer = everything.build(kit, folder, case.features, **settings)
        assert (trainer.state.epoch, trainer.state.step_in_epoch) == place, f"continues elsewhere: {case}"
        workers = next(later)
    train(trainer, case.features, case.sampler, workers)
    tree, files = ended(trainer, folder)
    expected, expected_files = unbroken(kit, case.features, case.sampler)
    assert kit.same(tree, expected), f"ends in other bits: {case}"
    assert files == expected_files, f"another history: {case}"


# ---- every pair, in the normal run


def factors(backend_name):
    return {
        "workers": WORKERS,
        "sampler": tuple(SAMPLERS),
        "kind": KINDS,
        "changes_workers": (False, True),
        **dict.fromkeys(FEATURES[backend_name], (False, True)),
    }


def pairs(row):
    return set(itertools.combinations(row.items(), 2))


def all_pairs(table):
    return {
        ((left, a), (right, b)) for left, right in itertools.combinations(table, 2) for a in table[left]
        for b in table[right]
    }  # fmt: skip


@functools.cache
def pairwise(backend_name):
    """Few rows in which every value of a factor meets every value of every other one; greedy, always the same."""
    table, rng = factors(backend_name), np.random.default_rng(0)
    missing, rows = all_pairs(table), []
    while missing:
        candidates = [
            {name: values[rng.integers(len(values))] for name, values in table.items()} for _ in range(200)
        ]  # fmt: skip
        best = max(candidates, key=lambda row: len(pairs(row) & missing))
        rows.append(best)
        missing -= pairs(best)
    return rows


def case_of(row):
    row = dict(row)
    own = {name: row.pop(name) for name in ("workers", "sampler", "kind", "changes_workers")}
    return Case(features=frozenset(name for name, is_on in row.items() if is_on), **own)


@pytest.mark.parametrize("backend_name", NORMAL_KITS)
def test_the_short_form_has_every_pair(backend_name):
    rows = pairwise(backend_name)
    assert set.union(*map(pairs, rows)) == all_pairs(factors(backend_name))
    assert len(rows) <= 20


@pytest.mark.timeout(900)
def test_a_pair_of_mixtures(kit, tmp_path):
    for number, row in enumerate(pairwise(kit.name)):
        check(kit, tmp_path / str(number), case_of(row))


@pytest.mark.slow
def test_pairs_of_mixtures_of_an_estimator(tmp_path):
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    kit = everything.kit_of("sklearn")
    for number, row in enumerate(pairwise("sklearn")):
        check(kit, tmp_path / str(number), case_of(row))
    plain, _ = unbroken(kit, frozenset(), "shuffle")
    for feature in FEATURES["sklearn"]:
        assert not kit.same(unbroken(kit, frozenset([feature]), "shuffle")[0], plain), feature


@pytest.mark.timeout(900)
def test_every_part_changes_the_outcome(kit):
    """Else it would not be tested."""
    plain, _ = unbroken(kit, frozenset(), "shuffle")
    for feature in FEATURES[kit.name]:
        assert not kit.same(unbroken(kit, frozenset([feature]), "shuffle")[0], plain), feature
    for sampler in ("weighted", "balanced"):
        assert not kit.same(unbroken(kit, frozenset(), sampler)[0], plain), sampler
    assert -(-N_SAMPLES // BATCH_SIZE) == STEPS


def test_the_last_checkpoint_is_the_last_though_the_process_died_before_it_got_its_name(kit, tmp_path):
    trainer = everything.build(kit, tmp_path, (), save_freq=1)
    train(trainer, ())
    last = trainer.checkpoints.path("last")
    last.unlink()
    os.link(trainer.checkpoints.path("epoch_2"), last)  # as it was until the name moved on
    resumed = everything.build(kit, tmp_path, (), save_freq=1)
    assert resumed.state.epoch == EPOCHS
    train(resumed, ())
    assert trainer.load_state(last)["epoch"] == EPOCHS


# ---- everything


def mixtures(backend_name):
    """Nothing, every part alone, every two, and all together."""
    names = FEATURES[backend_name]
    return [frozenset(some) for n in (0, 1, 2, len(names)) for some in itertools.combinations(names, n)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("workers", WORKERS)
def test_every_mixture(kit, tmp_path, workers, sampler):
    kinds = itertools.cycle(itertools.product(KINDS, (False, True)))
    for number, features in enumerate(mixtures(kit.name)):
        kind, changes = next(kinds)
        check(
            kit, tmp_path / str(number),
            Case(workers=workers, sampler=sampler, features=features, kind=kind, changes_workers=changes),
        )  # fmt: skip
