"""Cases of a test that ``make full`` runs alone, beside those that ``make test`` runs, too."""

from typing import Any

import pytest


def later(*values: Any) -> list[Any]:
    """Values of a parameter, each marked as slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def compiled_later(names: Any) -> list[Any]:
    """Names of frameworks; those whose steps are compiled, which takes seconds, marked as slow."""
    return [later(name)[0] if name.lower() in ("tensorflow", "jax") else name for name in names]
