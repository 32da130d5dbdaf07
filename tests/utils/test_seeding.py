"""Randomness as a pure function of one seed and counters."""

import itertools
import os
import random
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delira
from delira.errors import ConfigError
from delira.utils.seeding import check_seed, derive, derive_int, restored_globals, seed_globals, seeded_globals

SEEDS = st.integers(0, 2**70)
COUNTERS = st.lists(st.integers(0, 2**40), max_size=4)


def words(*args, **kwargs):
    return tuple(derive(*args, **kwargs).generate_state(4).tolist())


# ---- derive


@given(seed=SEEDS, counters=COUNTERS, stream=st.text(max_size=5))
def test_the_same_arguments_give_the_same_sequence(seed, counters, stream):
    assert words(seed, *counters, stream=stream) == words(seed, *counters, stream=stream)


def test_other_seeds_counters_and_streams_give_other_sequences():
    arguments = [
        (seed, *counters, stream)
        for seed in (0, 1, 2**40)
        for counters in ((), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (2**33,))
        for stream in ("order", "loading", "transform", "framework")
    ]
    found = {words(*counters, stream=stream) for *counters, stream in arguments}
    assert len(found) == len(arguments)


def test_streams_do_not_lean_on_each_other():
    """The numbers of two streams, and of neighbouring counters, are not correlated."""
    columns = [
        np.random.default_rng(derive(0, counter, stream=stream)).normal(size=20_000)
        for counter, stream in itertools.product((0, 1), ("order", "loading"))
    ]
    correlation = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(correlation).max() < 0.03  # four standard deviations


def test_a_sequence_is_the_same_in_another_process():
    """Whatever Python's own hashing does there."""
    code = (
        "from delira.utils.seeding import derive, derive_int\n"
        "print(derive(7, 3, 1, stream='order').generate_state(4).tolist(), derive_int(7, 3, stream='framework'))"
    )
    expected = f"{list(words(7, 3, 1, stream='order'))} {derive_int(7, 3, stream='framework')}"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == expected


@given(seed=SEEDS, counters=COUNTERS)
def test_an_integer_fits_every_generator(seed, counters):
    number = derive_int(seed, *counters, stream="framework")
    assert isinstance(number, int)
    assert 0 <= number < 2**63


# ---- global generators


def drawn():
    return random.random(), np.random.rand()


def test_global_generators_are_seeded_and_given_back():
    random.seed(1)
    np.random.seed(1)
    expected = drawn()
    random.seed(1)
    np.random.seed(1)
    with seeded_globals(derive(0, stream="loading")):
        inside = drawn()
    assert drawn() == expected
    with seeded_globals(derive(0, stream="loading")):
        assert drawn() == inside
    with seeded_globals(derive(1, stream="loading")):
        assert all(ours != theirs for ours, theirs in zip(drawn(), inside, strict=True))


def test_global_generators_are_given_back_after_an_error():
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()

    def fail():
        with seeded_globals(derive(0, stream="loading")):
            drawn()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_scopes_may_be_nested():
    with seeded_globals(derive(0, stream="outer")):
        first = drawn()
        with seeded_globals(derive(0, stream="inner")):
            drawn()
        second = drawn()
    with seeded_globals(derive(0, stream="outer")):
        assert (drawn(), drawn()) == (first, second)


def test_restoring_without_seeding_gives_the_state_back():
    random.seed(4)
    np.random.seed(4)
    with restored_globals():
        inside = drawn()
        seed_globals(derive(0, stream="anything"))
    assert drawn() == inside


# ---- torch's generator


def test_torch_is_seeded_and_given_back():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    with seeded_globals(derive(0, stream="loading")):
        inside = torch.randn(3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    moved = torch.get_rng_state()
    try:
        with seeded_globals(derive(0, stream="loading")):
            assert torch.equal(torch.randn(3), inside)
            with seeded_globals(derive(1, stream="loading")):
                assert not torch.equal(torch.randn(3), inside)
        assert torch.equal(torch.get_rng_state(), moved)
    finally:
        torch.set_rng_state(before)


def test_torch_is_given_back_after_an_error():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()

    def fail():
        with seeded_globals(derive(0, stream="loading")):
            torch.rand(1)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_trainers_scopes_leave_torch_to_its_backend():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    with restored_globals():
        seed_globals(derive(0, stream="framework globals"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("torch", [None, types.ModuleType("torch")], ids=["blocked", "half imported"])
def test_a_torch_without_generator_is_no_obstacle(torch, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        with seeded_globals(derive(0, stream="loading")):
            inside = drawn()
    with seeded_globals(derive(0, stream="loading")):
        assert drawn() == inside


def test_seeding_imports_no_torch():
    code = (
        "import sys\nfrom delira.utils.seeding import derive, seeded_globals\n"
        "with seeded_globals(derive(0, stream='loading')): sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- seeds


@pytest.mark.parametrize("seed", [0, 7, 2**80, np.int64(3), np.uint8(200)])
def test_non_negative_integers_are_seeds(seed):
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True, np.float64(2)])
def test_nothing_else_is_a_seed(seed):
    with pytest.raises(ConfigError, match="seed must be a non-negative integer, got"):
        check_seed(seed)


# ---- seed_all


def test_seed_all_seeds_python_and_numpy():
    with restored_globals():
        delira.seed_all(5)
        first = drawn()
        delira.seed_all(5)
        assert drawn() == first
        delira.seed_all(6)
        assert drawn() != first


def test_seed_all_seeds_the_frameworks_that_are_imported():
    torch = pytest.importorskip("torch")
    state = torch.get_rng_state()
    try:
        with restored_globals():
            delira.seed_all(5)
            first = torch.rand(3)
            delira.seed_all(5)
            assert torch.equal(torch.rand(3), first)
    finally:
        torch.set_rng_state(state)


def test_seed_all_imports_no_framework():
    code = "import sys, delira; delira.seed_all(3); sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True])
def test_seed_all_refuses_what_numpy_cannot_take(seed):
    with pytest.raises(ConfigError, match=r"seed must be a non-negative integer|needs a seed below 2\*\*32, got"):
        delira.seed_all(seed)


# ---- seed_all, deterministic


def run(code, **environment):
    """Run a script that leaves global settings behind."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr


def test_deterministic_algorithms_are_switched_on_for_good():
    pytest.importorskip("torch")
    code = (
        "import os, torch, delira\n"
        "torch.backends.cudnn.benchmark = True\n"
        "delira.seed_all(3, deterministic=True)\n"
        "print(torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic,\n"
        "      torch.backends.cudnn.benchmark, os.environ['CUBLAS_WORKSPACE_CONFIG'], torch.initial_seed())\n"
        "torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))\n"
    )
    returncode, out, err = run(code, CUBLAS_WORKSPACE_CONFIG="")
    assert returncode == 1
    assert out == "True True False :4096:8 3"
    assert "RuntimeError: put_ does not have a deterministic implementation" in err


def test_without_deterministic_nothing_is_switched():
    torch = pytest.importorskip("torch")
    state, before = torch.get_rng_state(), os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    try:
        with restored_globals():
            delira.seed_all(5)
    finally:
        torch.set_rng_state(state)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == before


def test_deterministic_without_a_framework_says_that_it_changed_nothing():
    code = "import logging, sys, delira; delira.seed_all(3, deterministic=True); sys.exit('torch' in sys.modules)"
    returncode, _, err = run(code)
    assert returncode == 0
    assert err.strip() == "deterministic=True changed nothing: import the framework before seed_all"


def test_tensorflow_is_seeded_and_made_deterministic(monkeypatch):
    """A stand-in: TensorFlow is not installed everywhere."""
    calls = []
    tensorflow = types.ModuleType("tensorflow")
    tensorflow.random = types.SimpleNamespace(set_seed=lambda seed: calls.append(seed))
    experimental = types.SimpleNamespace(enable_op_determinism=lambda: calls.append("deterministic"))
    tensorflow.config = types.SimpleNamespace(experimental=experimental)
    with monkeypatch.context() as patch, restored_globals():
        patch.setitem(sys.modules, "tensorflow", tensorflow)
        patch.setitem(sys.modules, "torch", None)
        delira.seed_all(5)
        delira.seed_all(6, deterministic=True)
    assert calls == [5, 6, "deterministic"]
