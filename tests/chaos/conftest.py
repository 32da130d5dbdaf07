"""What the tests of trainings that die share."""

import pytest
from killed_training import HAVE_THREADS

from delira.experiments import folds
from delira.runs import leases


@pytest.fixture
def kit(request, kit):
    """A backend whose trainings can be forked in the middle of the tests; the others are killed by the supervisor."""
    if kit.name in HAVE_THREADS and request.module.__name__ != "test_random_kills":
        pytest.skip(f"{kit.name} has threads, which a child has not; its checkpoints are written as the toy backend's")
    return kit


@pytest.fixture
def quick_takeover(monkeypatch):
    """A lease that cannot be read any more is waited for, and looked at a dozen times, without half seconds between."""
    monkeypatch.setattr(leases, "TAKEN_OVER_AFTER", 0.05)
    monkeypatch.setattr(leases.Leases.__init__, "__defaults__", (0.05,))  # of the study of a search
    for module, pause in ((leases, "_LOOK"), (folds, "_LOOK"), (folds, "_FOLLOW")):
        monkeypatch.setattr(module, pause, 0.002)
