"""Every loss of Keras and delira: the number of an epoch does not depend on how it is cut, if it is a mean."""

import functools
import inspect
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import losses_of_keras  # noqa: E402
from hypothesis import given  # noqa: E402
from loss_cases import SEEDS, SIZES, Case, batches, by_batches, can_train, close, few, in_pairs, marked  # noqa: E402

from delira import Trial  # noqa: E402
from delira.errors import ConfigError, NetworkError  # noqa: E402
from delira.models import AbstractTfNetwork  # noqa: E402
from delira.training import TfNetworkTrainer  # noqa: E402


def trainer_of(case: Case, loss: Any, **more: Any) -> Any:
    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x):
            return case.split(x * self.scale)

    return TfNetworkTrainer(
        Net(), None, losses={"loss": loss}, optimizer_cls=keras.optimizers.SGD,
        optimizer_params={"learning_rate": 0.0}, logging_type=None, verbose=False, **more,
    )  # fmt: skip


def trial_of(loss: Any, pairs: Any, val_pairs: Any) -> Any:
    class Scale(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x):
            return x * self.scale

    net = keras.Sequential([keras.Input(pairs[0][0].shape[1:]), Scale()])
    trial = Trial(net, keras.optimizers.SGD(0.0), loss, metrics=["loss"], verbose=0)
    return trial.with_train_generator(pairs).with_val_generator(val_pairs)


FAST = ("MeanSquaredError", "SparseCategoricalCrossentropy ignoring", "Dice")


@pytest.mark.parametrize("name", marked(losses_of_keras.CASES, FAST))
@few
@given(seed=SEEDS, n=SIZES)
def test_losses_of_keras_are_those_of_the_data_set(name, seed, n):
    check(name, seed, n, compiled=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", losses_of_keras.CASES)
def test_losses_of_compiled_keras_are_those_of_the_data_set(name):
    check(name, 11, 16, compiled=None)


def check(name: str, seed: int, n: int, compiled: bool | None) -> None:
    case = losses_of_keras.CASES[name]
    x, targets = case.draw(np.random.default_rng(seed), n)
    for batch_size in case.batch_sizes(n):
        trainer = trainer_of(case, case.loss(), compiled=compiled)
        learned = batch_size if can_train(case, n, batch_size) else 7
        trainer.train(1, batches(x, targets, learned), batches(x, targets, batch_size))
        record = trainer.state.history[0]
        assert record["loss"] == close(case.expected(x, targets, learned, losses_of_keras.call))
        assert record["val_loss"] == close(case.expected(x, targets, batch_size, losses_of_keras.call))
    record = trial_of(case.loss(), *(in_pairs(case, x, targets, size, np.asarray) for size in (7, n))).run(1)[0]
    assert record["loss"] == close(case.expected(x, targets, 7, losses_of_keras.call))
    assert record["val_loss"] == close(case.expected(x, targets, n, losses_of_keras.call))


@pytest.mark.slow
@pytest.mark.parametrize("name", losses_of_keras.CASES)
def test_sums_of_keras_are_of_batches_and_what_is_no_number_is_refused(name):
    case = losses_of_keras.CASES[name]
    x, targets = case.draw(np.random.default_rng(5), 16)
    data = batches(x, targets, 7)
    for reduction in case.reductions:
        loss = case.loss(reduction=reduction)
        trainer = trainer_of(case, loss, compiled=False)
        if reduction == "none" and losses_of_keras.is_array(loss, x, targets["label"]):
            with pytest.raises(NetworkError, match=r"has the shape \("):
                trainer.train(1, data, data)
            continue
        trainer.train(1, data, data)
        sums, sizes = by_batches(case, loss, x, targets, losses_of_keras.call)
        record = trainer.state.history[0]
        assert [record["loss"], record["val_loss"]] == [close(np.average(sums, weights=sizes))] * 2


@pytest.mark.slow
def test_functions_of_keras_are_refused_or_right():
    n_right = 0
    for name in losses_of_keras.FUNCTIONS:
        function = getattr(keras.losses, name)
        if "q" in inspect.signature(function).parameters:  # which has no default
            function = functools.partial(function, q=0.5)
        (case,) = (one for key, one in losses_of_keras.CASES.items() if key.lower() == name.replace("_", ""))
        x, targets = case.draw(np.random.default_rng(5), 16)
        with pytest.raises(ConfigError, match=rf"keras\.losses\.{name},.*target first.*{case.make.__name__}"):
            trainer_of(case, function).train(1, batches(x, targets, 7))
        pairs = in_pairs(case, x, targets, 7, np.asarray)
        trial = trial_of(lambda y_pred, y_true, function=function: function(y_true, y_pred), pairs, pairs)
        if losses_of_keras.is_array(function, x, targets["label"]):
            with pytest.raises(NetworkError, match=r"has the shape \("):
                trial.run(1)
            continue
        n_right += 1
        assert trial.run(1)[0]["val_loss"] == close(case.expected(x, targets, 7, losses_of_keras.call))
    assert n_right < 3


def test_every_loss_of_keras_has_a_case():
    assert losses_of_keras.NAMES - losses_of_keras.CASES.keys() == set()
