"""Networks of JAX that cannot be trained: each is told why, and what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError

pytest.importorskip("flax")
pytest.importorskip("optax")
import jax
import optax
from flax import nnx
from jax_trainings import N_CLASSES, N_FEATURES, cross_entropy, make_data, make_trainer

from delira.models import AbstractJaxNetwork
from delira.training import JaxNetworkTrainer


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
