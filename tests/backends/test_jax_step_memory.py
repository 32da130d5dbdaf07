"""Donated memory: nobody loses an array because a step reuses it, and nothing that a step changes is forgotten."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from delira.errors import NetworkError

pytest.importorskip("flax")
pytest.importorskip("optax")
import jax.numpy as jnp
from flax import nnx
from jax_trainings import N_CLASSES, N_FEATURES, make_data, make_trainer

from delira.models import AbstractJaxNetwork, named_weights


class Pair(AbstractJaxNetwork):
    """Two layers that begin with the same arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nnx.Linear(N_FEATURES, N_CLASSES, rngs=self.rngs)
        self.teacher = nnx.clone(self.student)

    def __call__(self, x: Any) -> dict[str, Any]:
        return {"pred": self.student(x), "wanted": self.teacher(x)}


class TeachesEveryStep:
    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        trainer.module.teacher.kernel.set_value(trainer.module.student.kernel.get_value())


@pytest.mark.slow
def test_two_variables_may_have_one_array(tmp_path: Path) -> None:
    network = Pair()
    make_trainer(network, tmp_path, callbacks=[TeachesEveryStep()]).train(2, make_data(), verbose=False)
    weights = named_weights(network)
    np.testing.assert_array_equal(weights["teacher.kernel"], weights["student.kernel"])


class KeepsEveryEpoch:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        self.kept.append((nnx.clone(trainer.module), named_weights(trainer.module)))


def test_what_is_kept_between_epochs_stays_as_it_was(tmp_path: Path) -> None:
    network, keeps = Pair(), KeepsEveryEpoch()
    before = (nnx.clone(network), named_weights(network))
    make_trainer(network, tmp_path, callbacks=[keeps]).train(3, make_data(), verbose=False)
    for clone, weights in (before, *keeps.kept):
        for name, weight in named_weights(clone).items():
            np.testing.assert_array_equal(weight, weights[name], err_msg=name)


class WithArray(Pair):
    """An array that is no variable, of the shape of a weight, whose memory could be taken for it."""

    counts = False

    def __init__(self) -> None:
        super().__init__()
        self.shift = nnx.data(jnp.ones(N_CLASSES))

    def __call__(self, x: Any) -> dict[str, Any]:
        if self.counts:
            self.shift = self.shift + 1
        return {"pred": self.student(x) + self.shift}


@pytest.mark.slow
def test_an_array_that_is_no_variable_outlives_the_steps(tmp_path: Path) -> None:
    network = WithArray()
    make_trainer(network, tmp_path).train(2, make_data(), verbose=False)
    np.testing.assert_array_equal(network.shift, np.ones(N_CLASSES))


def test_an_array_that_a_step_changes_without_anybody_keeping_it_is_refused(tmp_path: Path) -> None:
    network = WithArray()
    network.counts = True
    with pytest.raises(NetworkError, match=r"WithArray\.shift"):
        make_trainer(network, tmp_path).train(1, make_data(), verbose=False)


class Both(NamedTuple):
    left: Any
    right: Any


class TakesBoth(Pair):
    @staticmethod
    def prepare_batch(batch: Any, input_device: Any, output_device: Any) -> dict[str, Any]:
        prepared = AbstractJaxNetwork.prepare_batch(batch, input_device, output_device)
        return {**prepared, "both": Both(prepared["data"], {"label": prepared["label"]})}

    def __call__(self, x: Any) -> dict[str, Any]:
        predictions = super().__call__(x)
        return {**predictions, "both": Both(predictions["pred"], 2 * predictions["pred"])}


class LooksAtBoth:
    def __init__(self) -> None:
        self.n_steps = 0

    def at_iter_end(self, trainer: Any, predictions: Any, **facts: Any) -> None:
        both, self.n_steps = predictions["both"], self.n_steps + 1
        np.testing.assert_array_equal(np.asarray(both.right), 2 * np.asarray(predictions["pred"]))


@pytest.mark.slow
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_named_tuples_pass_through_a_step_whole_or_in_parts(tmp_path: Path, micro_batches: int) -> None:
    looks = LooksAtBoth()
    trainer = make_trainer(TakesBoth(), tmp_path, callbacks=[looks], micro_batches=micro_batches)
    trainer.train(1, make_data(), verbose=False)
    assert looks.n_steps == 3
