"""An attribute of a whole is that of one of its parts."""

from types import SimpleNamespace

import pytest

from delira.training.predictor import part_of


class Whole:
    speed = part_of("engine.speed")
    consumption = part_of("engine.tank.used")

    def __init__(self):
        self.engine = SimpleNamespace(speed=3, tank=SimpleNamespace(used=5))


def test_it_is_read_and_set_at_the_part():
    whole = Whole()
    whole.speed, whole.consumption = 4, 6
    assert (whole.engine.speed, whole.engine.tank.used) == (4, 6)
    assert "speed" not in vars(whole)


def test_another_part_in_its_place_is_the_one_that_is_read():
    whole = Whole()
    whole.engine = SimpleNamespace(speed=9)
    assert whole.speed == 9


def test_of_the_class_it_is_the_property_and_what_a_part_lacks_is_missing():
    assert isinstance(Whole.speed, property)
    assert not Whole.speed.__doc__
    whole = Whole()
    del whole.engine.speed
    with pytest.raises(AttributeError, match="speed"):
        _ = whole.speed
