"""Random numbers of callbacks: a function of the place in the run."""

from mixing_batches import a_step

from delira.callbacks.mixing.mixed import step_generator
from delira.training.callbacks import (
    Cutout,
    Mixup,
    SamplePairing,
)


def draw(callback=None, callbacks=None, **place):
    callback = callback or Mixup()
    return step_generator(a_step(callbacks or [callback], None, None, **place), callback).random(4).tolist()


def test_numbers_are_a_function_of_the_place_in_the_run():
    twins = [Mixup(), SamplePairing(), Mixup()]
    places = [{}, {"seed": 4}, {"fold": 1}, {"epoch": 2}, {"batch": 3}]
    drawn = [draw(**place) for place in places]
    drawn += [draw(SamplePairing()), draw(twins[2], twins)]
    assert len({tuple(numbers) for numbers in drawn}) == len(drawn)
    assert draw(twins[0], twins) == draw(twins[0], [twins[0], Cutout(1, 1)]) == drawn[0]
