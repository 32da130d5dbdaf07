"""Every loss of optax and delira: the number of an epoch does not depend on how it is cut, if it is a mean."""

from typing import Any

import numpy as np
import pytest

jnp = pytest.importorskip("jax.numpy")
nnx = pytest.importorskip("flax.nnx")
optax = pytest.importorskip("optax")

import losses_of_optax  # noqa: E402
from loss_cases import Case, batches, close, in_pairs, keys_of, marked  # noqa: E402

from delira import Trial  # noqa: E402
from delira.errors import NetworkError  # noqa: E402
from delira.models import AbstractJaxNetwork  # noqa: E402
from delira.training import JaxNetworkTrainer  # noqa: E402


def network_of(base: Any, case: Case) -> Any:
    class Net(base):
        def __init__(self):
            super().__init__()
            self.scale = nnx.Param(jnp.ones(()))

        def __call__(self, x):
            outputs = case.split(x * self.scale[...])
            return outputs["pred"] if base is nnx.Module else outputs

    return Net()


def trainer_of(case: Case, loss: Any) -> Any:
    return JaxNetworkTrainer(
        network_of(AbstractJaxNetwork, case), None, losses={"loss": loss}, optimizer_cls=optax.sgd,
        optimizer_params={"learning_rate": 0.0}, logging_type=None, verbose=False, **keys_of(case),
    )  # fmt: skip


FAST = ("squared_error", "softmax_cross_entropy_with_integer_labels")


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", marked(losses_of_optax.CASES, FAST))
def test_losses_of_optax_are_those_of_the_data_set(name):
    case = losses_of_optax.CASES[name]
    n = 19  # no other: every shape is compiled
    x, targets = case.draw(np.random.default_rng(11), n)
    for batch_size in case.batch_sizes(n):
        trainer = trainer_of(case, case.loss())
        data = batches(x, targets, batch_size)
        trainer.train(1, data, data)
        record = trainer.state.history[0]
        expected = close(case.expected(x, targets, batch_size, losses_of_optax.call))
        assert [record["loss"], record["val_loss"]] == [expected, expected]
    if case.keys == ("pred", "label"):
        pairs = in_pairs(case, x, targets, batch_size, np.asarray)
        trial = Trial(network_of(nnx.Module, case), optax.sgd(0.0), case.loss(), metrics=["loss"], verbose=0)
        record = trial.with_train_generator(pairs).with_val_generator(pairs).run(1)[0]
        assert [record["loss"], record["val_loss"]] == [expected, expected]


def test_functions_of_optax_that_give_an_array_are_refused():
    x, targets = losses_of_optax.CASES["squared_error"].draw(np.random.default_rng(5), 16)
    trainer = trainer_of(losses_of_optax.CASES["squared_error"], optax.squared_error)
    with pytest.raises(NetworkError, match=r"has the shape \(7, 3\)"):
        trainer.train(1, batches(x, targets, 7))


def test_every_loss_of_optax_has_a_case():
    assert losses_of_optax.NAMES - losses_of_optax.CASES.keys() == set()
    for name in losses_of_optax.ALIASES:
        assert getattr(optax, name) is getattr(optax.losses, name)
