"""Donated memory: nobody loses an array because a step reuses it, and nothing that a step changes is forgotten."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError

pytest.importorskip("flax")
pytest.importorskip("optax")

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from delira.models import AbstractJaxNetwork, named_weights
from delira.training import JaxNetworkTrainer

N_SAMPLES, N_FEATURES, N_CLASSES = 22, 5, 3


def make_data() -> BaseDataManager:
    rng = np.random.default_rng(0)
    arrays = {
        "data": rng.normal(size=(N_SAMPLES, N_FEATURES)).astype("float32"),
        "label": rng.integers(0, N_CLASSES, N_SAMPLES),
    }
    return BaseDataManager(arrays, batch_size=8)


def cross_entropy(pred: Any, label: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(pred, label).mean()


def make_trainer(network: Any, folder: Path, **settings: Any) -> JaxNetworkTrainer:
    return JaxNetworkTrainer(
        network, folder, losses={"ce": cross_entropy}, optimizer_cls=optax.adam, optimizer_params={"lr": 1e-2},
        logging_type=None, **settings,
    )  # fmt: skip


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


class Plain(AbstractJaxNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nnx.Linear(N_FEATURES, N_CLASSES, rngs=self.rngs)

    def __call__(self, x: Any) -> dict[str, Any]:
        return {"pred": self.linear(x)}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "loss",
    [
        lambda pred, label: cross_entropy(jax.lax.stop_gradient(pred), label),
        lambda pred, label: label.astype("f4").mean(),
    ],
    ids=["stopped", "of_the_target_alone"],
)
def test_a_loss_that_no_weight_goes_into_is_refused(tmp_path: Path, loss: Any, compiled: bool) -> None:
    trainer = JaxNetworkTrainer(
        Plain(), tmp_path, losses={"ce": loss}, optimizer_cls=optax.adam, optimizer_params={"lr": 1e-2},
        logging_type=None, compiled=compiled,
    )  # fmt: skip
    with pytest.raises(NetworkError, match=r"the loss \(ce\) depends on no weight that is learned"):
        trainer.train(1, make_data(), verbose=False)


class NotMade(AbstractJaxNetwork):
    def __init__(self, rngs: Any = None) -> None:
        self.linear = nnx.Linear(N_FEATURES, N_CLASSES, rngs=rngs or self.rngs)


@pytest.mark.parametrize("rngs", [None, 0])
def test_a_network_that_was_not_initialised_is_refused(tmp_path: Path, rngs: int | None) -> None:
    with pytest.raises(NetworkError, match=r"NotMade.__init__ must call super\(\).__init__\(\) first"):
        make_trainer(NotMade(None if rngs is None else nnx.Rngs(rngs)), tmp_path)


@pytest.mark.parametrize("dtype", [str, object])
@pytest.mark.parametrize("compiled", [None, False])
def test_texts_as_data_are_called_texts(tmp_path: Path, dtype: type, compiled: bool | None) -> None:
    texts = BaseDataManager({"data": np.array(["word"] * 8, dtype), "label": np.zeros(8, int)}, batch_size=4)
    with pytest.raises(DataError, match="the argument 'x' of the network holds text"):
        make_trainer(Plain(), tmp_path, compiled=compiled).train(1, texts, verbose=False)


class TakesItsMode(Plain):
    def __call__(self, x: Any, train: bool) -> dict[str, Any]:  # type: ignore[override]
        return super().__call__(x)


class Forward(AbstractJaxNetwork):
    def forward(self, x: Any) -> dict[str, Any]:
        return {"pred": x}


class NoStreams(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nnx.Dropout(0.5)

    def __call__(self, x: Any) -> dict[str, Any]:
        return super().__call__(self.dropout(x))


def test_habits_of_other_frameworks_are_answered(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give train a default"):
        make_trainer(TakesItsMode(), tmp_path / "mode")
    with pytest.raises(NetworkError, match="Forward has no __call__"):
        make_trainer(Forward(), tmp_path / "forward")
    with pytest.raises(ValueError, match="rngs") as caught:
        make_trainer(NoStreams(), tmp_path / "rngs").train(1, make_data(), verbose=False)
    assert any("pass rngs=self.rngs" in note for note in caught.value.__notes__)


def test_a_network_that_fails_at_once_is_told_what_it_was_called_with(tmp_path: Path) -> None:
    images = BaseDataManager({"data": np.zeros((8, 4, 6, 2)), "label": np.zeros(8, int)}, batch_size=4)
    with pytest.raises(TypeError) as caught:
        make_trainer(Plain(), tmp_path).train(1, images, verbose=False)
    assert any(
        "'data' of shape (4, 4, 6, 2); images have the channels first" in note for note in caught.value.__notes__
    )
