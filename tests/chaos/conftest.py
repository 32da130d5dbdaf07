"""What the tests of trainings that die share."""

import pytest
from killed_training import HAVE_THREADS


@pytest.fixture
def kit(request, kit):
    """A backend whose trainings can be forked in the middle of the tests; the others are killed by the supervisor."""
    if kit.name in HAVE_THREADS and request.module.__name__ != "test_random_kills":
        pytest.skip(f"{kit.name} has threads, which a child has not; its checkpoints are written as the toy backend's")
    return kit
