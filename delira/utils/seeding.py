"""Randomness as a pure function of one seed and counters.

Every random decision names its *stream* ("order", "loading", "framework", ...) and its counters
(fold, epoch, batch). ``numpy.random.SeedSequence`` turns these into independent seeds, so nothing
has to be replayed to know what batch 17 of epoch 3 looks like.
"""

import contextlib
import contextvars
import logging
import numbers
import os
import random
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from delira.errors import ConfigError, check_flags

#: environment variable that makes cuBLAS deterministic; it reads it only once
CUBLAS_SETTING = "CUBLAS_WORKSPACE_CONFIG"

_log = logging.getLogger(__name__)
_counters = contextvars.ContextVar("_counters", default=(0, 0, 0))


def check_seed(seed: int, name: str = "seed") -> int:
    """Refuse anything but a non-negative integer; ``name`` is that of the setting."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ConfigError(f"{name} must be a non-negative integer, got {seed!r}")
    return int(seed)


def derive(seed: int, *counters: int, stream: str) -> np.random.SeedSequence:
    """Seed sequence of one random decision.

    Parameters
    ----------
    seed
        The seed of the run.
    *counters
        Where in the run the decision is made, e.g. ``fold, epoch, batch``.
    stream
        What is decided; decisions of different streams are independent.
    """
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(stream.encode()), *counters))


def derive_int(seed: int, *counters: int, stream: str) -> int:
    """Like :func:`derive`, as one integer below 2**63 for generators that want a number."""
    return int(derive(seed, *counters, stream=stream).generate_state(1, np.uint64)[0] >> 1)


@contextlib.contextmanager
def counted(counters: tuple[int, int, int]) -> Iterator[None]:
    """Say, for as long as the scope lasts, of which ``(seed, fold, epoch)`` the samples are that are loaded in it."""
    token = _counters.set(counters)
    try:
        yield
    finally:
        _counters.reset(token)


def current_counters() -> tuple[int, int, int]:
    """Return the ``(seed, fold, epoch)`` that a sample is loaded for; zeros where nobody has said.

    A dataset that draws with :func:`derive` from these and the number of the sample gives the same sample whatever the
    size of the batch and the number of workers, and draws from no global generator.
    """
    return _counters.get()


@contextlib.contextmanager
def seeded_globals(sequence: np.random.SeedSequence) -> Iterator[None]:
    """Seed Python's and numpy's global generators, and give the caller's state back afterwards.

    The same for torch's CPU generator if torch is already imported: transforms of several libraries draw from it.
    """
    with restored_globals(), _seeded_torch(sequence):
        seed_globals(sequence)
        yield


def can_seed_torch() -> bool:
    """Return True if torch has been imported, so that :func:`seeded_globals` reaches its generator."""
    return "torch" in sys.modules


@contextlib.contextmanager
def restored_globals() -> Iterator[None]:
    """Give the state of Python's and numpy's global generators back on exit."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def seed_globals(sequence: np.random.SeedSequence) -> None:
    """Seed Python's and numpy's global generators."""
    words = sequence.generate_state(5)
    random.seed(int(words[4]))
    np.random.seed(words[:4])  # noqa: NPY002


@contextlib.contextmanager
def _seeded_torch(sequence: np.random.SeedSequence) -> Iterator[None]:
    # not torch.manual_seed, which reaches for every GPU; a half-imported torch has no generator yet
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is None:
        yield
        return
    state = generator.get_state()
    try:
        generator.manual_seed(int(sequence.generate_state(6)[5]))  # the words before are those of seed_globals
        yield
    finally:
        generator.set_state(state)


def seed_all(seed: int, deterministic: bool = False) -> None:
    """Seed Python, numpy and every framework that is already imported.

    Parameters
    ----------
    seed
        Non-negative integer below 2**32.
    deterministic
        Whether to switch the deterministic algorithms of these frameworks on, for as long as the process lives; an
        operation that has none then raises an error of the framework, which names it. ``False`` changes nothing.
    """
    seed = check_seed(seed)
    check_flags("seed_all", deterministic=deterministic)
    if seed >= 2**32:
        raise ConfigError(f"seed_all needs a seed below 2**32, got {seed}")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
        if deterministic:
            make_torch_deterministic(torch)
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(seed)
        if deterministic:
            tensorflow.config.experimental.enable_op_determinism()
    if deterministic and torch is None and tensorflow is None:
        _log.warning("deterministic=True changed nothing: import the framework before seed_all")


def make_torch_deterministic(torch: Any) -> None:
    """Switch PyTorch's deterministic algorithms on; ``torch`` is the module, which is not imported here."""
    choose_cublas_workspace(torch)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def choose_cublas_workspace(torch: Any) -> None:
    """Set the environment variable that makes cuBLAS deterministic, or say that it is too late."""
    if os.environ.get(CUBLAS_SETTING) in (":4096:8", ":16:8"):
        return
    if not torch.cuda.is_initialized():
        os.environ[CUBLAS_SETTING] = ":4096:8"
        return
    _log.warning(
        "CUDA is in use already, so it is too late for %s=:4096:8, without which PyTorch refuses to multiply matrices "
        "deterministically on the GPU; set it in the environment before Python starts",
        CUBLAS_SETTING,
    )


def fix_random_states(estimator: Any, seed: int, fold: int, stream: str = "") -> None:
    """Give every ``random_state`` that is ``None`` in a scikit-learn estimator a number made from seed and fold.

    Parameters
    ----------
    estimator
        Anything with ``get_params`` and ``set_params``.
    seed, fold
        Of the run.
    stream
        Goes before the names of the parameters: estimators of different streams draw independently.
    """
    parameters = estimator.get_params(deep=True).items()
    unset = sorted(name for name, value in parameters if value is None and name.rpartition("__")[2] == "random_state")
    drawn = {name: int(derive(seed, fold, stream=stream + name).generate_state(1)[0]) for name in unset}
    estimator.set_params(**drawn)
