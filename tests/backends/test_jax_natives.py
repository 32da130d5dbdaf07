"""JAX in a trial in flax' own words: optimizers and metrics of ``nnx``."""

import numpy as np
import pytest

import delira
from delira.callbacks import Callback
from delira.errors import ConfigError
from delira.metrics import MetricList
from delira.state import LOSS, Y_PRED, Y_TRUE, State, X

nnx = pytest.importorskip("flax.nnx", reason="flax, which is not installed")
optax = pytest.importorskip("optax", reason="optax, which is not installed")

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 4)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")


def model():
    return nnx.Linear(4, 2, rngs=nnx.Rngs(0))


def cross_entropy(y_pred, y_true):
    return optax.softmax_cross_entropy_with_integer_labels(y_pred, y_true).mean()


def trial(network, optimizer, *metrics, **settings):
    made = delira.Trial(network, optimizer, cross_entropy, ["loss", *metrics], verbose=0, **{"seed": 0, **settings})
    return made.with_train_data(x[:48], y[:48], batch_size=16).with_val_data(x[48:], y[48:], batch_size=7)


def test_an_optimizer_of_nnx_is_its_transformation():
    network, twin = model(), model()
    by_nnx = trial(network, nnx.Optimizer(network, optax.sgd(0.1), wrt=nnx.Param)).run(2)
    assert by_nnx == trial(twin, optax.sgd(0.1)).run(2)


def test_one_that_has_updated_is_refused():
    network = model()
    optimizer = nnx.Optimizer(network, optax.sgd(0.1), wrt=nnx.Param)
    optimizer.update(network, nnx.grad(lambda net: net(x).sum())(network))
    with pytest.raises(ConfigError, match="has updated 1 times, and what it has gathered would be lost"):
        trial(network, optimizer)


def test_one_that_learns_something_else_is_refused():
    network = model()
    with pytest.raises(ConfigError, match=r"a fit learns nnx\.Param"):
        trial(network, nnx.Optimizer(network, optax.sgd(0.1), wrt=nnx.PathContains("kernel")))


def test_one_of_a_part_of_the_module_or_with_another_state_is_refused():
    class Two(nnx.Module):
        def __init__(self):
            self.a, self.b = nnx.Linear(4, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, 2, rngs=nnx.Rngs(1))

        def __call__(self, x):
            return self.b(self.a(x))

    network = Two()
    with pytest.raises(ConfigError, match=r"not what a new one of the whole Two is: .* made for a part"):
        trial(network, nnx.Optimizer(network.b, optax.adam(0.1), wrt=nnx.Param))
    changed = nnx.Optimizer(network, optax.inject_hyperparams(optax.sgd)(learning_rate=0.1), wrt=nnx.Param)
    changed.opt_state.hyperparams["learning_rate"][...] = 0.5
    with pytest.raises(ConfigError, match="its state was changed"):
        trial(network, changed)


def test_a_metric_that_keeps_variables_of_any_kind_goes_on():
    from delira.backends.jax.natives import NnxMetric

    class Count(nnx.Metric):
        def __init__(self):
            self.number = nnx.Variable(np.zeros(1))

        def reset(self):
            self.number[...] = 0

        def update(self, logits, labels):
            self.number[...] += len(labels)

        def compute(self):
            return self.number[...]

    class Nowhere(Count):
        def __init__(self):
            self.number = {...: 0}

    one, other = NnxMetric(Count()), NnxMetric(Count())
    one.process(State({Y_PRED: np.zeros((3, 2)), Y_TRUE: np.zeros(3), LOSS: 0.0}))
    other.load_state_dict(one.state_dict())
    assert other.process_final().tolist() == [3]
    with pytest.raises(ConfigError, match=r"keeps what it has seen in no nnx\.Variable"):
        NnxMetric(Nowhere()).state_dict()


def test_metrics_of_nnx_are_updated_by_the_names_of_their_arguments():
    class Right(nnx.metrics.Average):
        """Named as the user likes."""

        def update(self, y_hat, y_true):
            super().update(values=y_hat.argmax(axis=-1) == y_true)

    both = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), mean_loss=nnx.metrics.Average("loss"))
    network = model()
    values = trial(network, optax.sgd(0.1), both, Right()).evaluate()
    scores = np.asarray(network(x[48:]))
    right = np.mean(scores.argmax(axis=1) == y[48:])
    parts = [float(cross_entropy(scores[part], y[48:][part])) for part in (slice(7), slice(7, 12))]
    assert values["val_accuracy"] == values["val_Right"] == pytest.approx(right)
    assert values["val_mean_loss"] == pytest.approx(np.mean(parts), rel=1e-5)  # of batches, as flax counts
    assert values["val_loss"] == pytest.approx((7 * parts[0] + 5 * parts[1]) / 12, rel=1e-5)


def test_a_fit_that_is_continued_inside_an_epoch_keeps_them(tmp_path):
    def made(folder, **settings):
        return trial(model(), optax.sgd(0.1), nnx.metrics.Accuracy(), save_path=folder, **settings)

    class Stop(Callback):
        def on_step_training(self, state):
            if state["epoch"] == 1 and state["t"] == 1:
                raise KeyboardInterrupt

    whole = made(None).run(3)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, callbacks=[Stop()], save_freq_steps=1).run(3)
    assert made(tmp_path, save_freq_steps=1).run(3) == whole


def test_two_parts_of_a_metric_are_joined():
    from delira.backends.jax.natives import NnxMetric

    parts = [
        State({Y_PRED: model()(x[part]), Y_TRUE: y[part], X: x[part], LOSS: 0.0}) for part in (slice(20), slice(20, 60))
    ]
    whole, first, second = (MetricList([NnxMetric(nnx.metrics.Accuracy())]) for _ in range(3))
    for one in (whole, first, second):
        one.train()
        one.reset(State())
    for state, part in zip(parts, (first, second), strict=True):
        whole.process(state)
        part.process(state)
    first.merge(second)
    assert first.process_final(State()) == pytest.approx(whole.process_final(State()))
    spread = [NnxMetric(nnx.metrics.Welford()) for _ in range(2)]
    with pytest.raises(ConfigError, match="nobody knows how two of it are joined"):
        spread[0].merge(spread[1])
