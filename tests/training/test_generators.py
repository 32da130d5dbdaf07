"""Generators of the frameworks, Python and numpy: lent, kept in checkpoints, and given back."""

import random

import numpy as np
import pytest
from stored_trees import through_a_file

from delira.training.run import generators_state, own_generators, set_generators


def draw(kit):
    """Some numbers of every generator; an odd number of normal ones leaves one in the cache."""
    return (
        kit.draw(), random.random(), random.gauss(0, 1), random.getrandbits(70), random.sample(range(99), 5),
        np.random.random(), np.random.normal(), np.random.randint(99), np.random.permutation(9).tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("before", [0, 1, 2, 700])
def test_generators_go_on_where_they_were(kit, tmp_path, before):
    with own_generators(kit.backend):
        random.seed(1)
        np.random.seed(2)
        kit.backend.generators.seed(3)
        for _ in range(before):
            draw(kit)
        state = through_a_file(kit, generators_state(kit.backend), tmp_path / "state")
        expected = [draw(kit) for _ in range(3)]
        draw(kit)
        set_generators(kit.backend, state)
        assert [draw(kit) for _ in range(3)] == expected
        set_generators(kit.backend, state)
        assert [draw(kit) for _ in range(3)] == expected, "drawing has changed the state"


def test_half_used_pairs_of_normal_numbers_go_on(kit, tmp_path):
    """Python and numpy draw two at once and keep the second."""
    with own_generators(kit.backend):
        random.seed(1)
        np.random.seed(2)
        random.gauss(0, 1)
        np.random.normal()
        state = through_a_file(kit, generators_state(kit.backend), tmp_path / "state")
        expected = (random.gauss(0, 1), np.random.normal())
        random.seed(5)
        np.random.seed(6)
        set_generators(kit.backend, state)
        assert (random.gauss(0, 1), np.random.normal()) == expected


def test_a_state_of_generators_is_a_copy(kit):
    with own_generators(kit.backend):
        state = generators_state(kit.backend)
        first = [draw(kit) for _ in range(700)]
        set_generators(kit.backend, state)
        assert [draw(kit) for _ in range(700)] == first


def test_lent_generators_are_given_back_after_an_error(kit):
    def fail():
        with own_generators(kit.backend):
            draw(kit)
            raise ZeroDivisionError

    with kit.undisturbed(), pytest.raises(ZeroDivisionError):
        fail()
