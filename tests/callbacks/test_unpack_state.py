"""Networks whose input is a dict of entries of the state."""

import numpy as np
import pytest
from small_backends import build_kit

import delira
from delira.callbacks.decorators import add_to_loss, on_step_training, traceable
from delira.errors import ConfigError, MissingKeyError
from delira.state import TEST_DATA, Y_PRED, Y_TRUE, X, state_key
from delira.training.callbacks import UnpackState

BACKENDS = ["torch", "tensorflow", "jax"]
HIDDEN = state_key("hidden_size")
rng = np.random.default_rng(0)
DATA, TARGET = rng.normal(size=(8, 3)).astype("f4"), rng.normal(size=(8, 1)).astype("f4")


def parts(backend):
    """A network of entries of the state that returns some, an optimizer and a criterion."""
    if backend == "torch":
        torch = pytest.importorskip(
            "torch", reason="the torch backend needs the package 'torch', which is not installed"
        )

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 1)

            def forward(self, entries):
                prediction = self.linear(entries[X])
                return {Y_PRED: prediction, HIDDEN: ((prediction - entries[Y_TRUE]) ** 2).sum()}

        net = Net()
        return net, torch.optim.SGD(net.parameters(), 0.01), torch.nn.MSELoss()
    if backend == "tensorflow":
        tf = pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
        import keras

        class KerasNet(keras.Model):
            def __init__(self):
                super().__init__()
                self.linear = keras.layers.Dense(1)
                self.linear.build((None, 3))

            def call(self, entries):
                prediction = self.linear(entries[X])
                return {Y_PRED: prediction, HIDDEN: tf.reduce_sum((prediction - entries[Y_TRUE]) ** 2)}

        return KerasNet(), keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError()
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    class FlaxNet(nnx.Module):
        def __init__(self):
            self.linear = nnx.Linear(3, 1, rngs=nnx.Rngs(0))

        def __call__(self, entries):
            prediction = self.linear(entries[X])
            return {Y_PRED: prediction, HIDDEN: ((prediction - entries[Y_TRUE]) ** 2).sum()}

    return FlaxNet(), optax.sgd(0.01), lambda prediction, target: ((prediction - target) ** 2).mean()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_network_gets_entries_and_its_outputs_are_entries(backend, caplog):
    net, optimizer, criterion = parts(backend)
    kept = []

    @traceable
    @add_to_loss
    def add(state):
        return state[HIDDEN] / 8.0

    @on_step_training
    def look(state):
        kept.append((float(np.asarray(state["loss"])), np.asarray(state[Y_PRED]), float(np.asarray(state[HIDDEN]))))

    trial = delira.Trial(net, optimizer, criterion, ["loss"], [UnpackState([X, Y_TRUE]), add, look], seed=0, verbose=0)
    trial.with_train_data(DATA, TARGET, 8, shuffle=False).with_val_data(DATA, TARGET, 8)
    record = trial.run(1)[0]
    loss, prediction, hidden = kept[0]
    error = ((prediction - TARGET) ** 2).sum()
    assert hidden == pytest.approx(error, rel=1e-5)
    assert loss == pytest.approx(2 * error / 8, rel=1e-5)
    assert 0 < record["val_loss"] < loss  # the mean, and the callback's part of it
    assert trial.evaluate()["val_loss"] == pytest.approx(record["val_loss"], rel=1e-5)
    assert not caplog.records  # the steps are compiled


def test_a_prediction_needs_no_targets():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    class Net(torch.nn.Module):
        def forward(self, entries):
            return {Y_PRED: 2 * entries[X]}

    trial = delira.Trial(Net(), callbacks=[UnpackState(X)], seed=0, verbose=0).with_test_data(DATA, 3)
    np.testing.assert_array_equal(trial.predict(data_key=TEST_DATA), 2 * DATA)


def test_the_output_may_stay_a_prediction():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    class Net(torch.nn.Module):
        def forward(self, entries):
            return {"doubled": 2 * entries[X]}

    trial = delira.Trial(Net(), callbacks=[UnpackState([X], output_to_state=False)], seed=0, verbose=0).with_test_data(
        DATA, 8
    )
    found = trial.predict()
    assert found.keys() == {"doubled"}
    assert "doubled" not in trial.state


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_experiment_s_network_gets_entries_too(backend, tmp_path, manager):
    backend = build_kit(backend)

    class Net(backend.network):
        pass

    method = {"torch": "forward", "tensorflow": "call", "jax": "__call__"}[backend.name]
    base = getattr(backend.network, method)
    setattr(Net, method, lambda self, x: base(self, x["x"]))
    network = backend.build(cls=Net)
    trainer = backend.trainer(tmp_path, network, callbacks=[UnpackState([X])])
    plain = backend.trainer(tmp_path / "plain")
    for one in (trainer, plain):
        one.train(1, manager(), manager())
    np.testing.assert_allclose(backend.read(trainer.module), backend.read(plain.module), rtol=1e-6)
    assert trainer.state.history == plain.state.history


def test_what_cannot_be_is_refused(torch_fit):
    with pytest.raises(ConfigError, match="UnpackState: name the entries of the state that the network gets"):
        UnpackState([])
    with pytest.raises(MissingKeyError, match="the state has no 'xx'"):
        torch_fit.trial(UnpackState(["xx"])).run(1)


def test_what_a_subclass_does_to_a_batch_it_does_in_a_validation_too():
    class Counted(UnpackState):
        n_samples = n_forwards = 0

        def on_sample(self, state):
            super().on_sample(state)
            self.n_samples += 1

        def on_forward(self, state):
            super().on_forward(state)
            self.n_forwards += 1

    counted = Counted([X])
    counted.on_sample_validation({X: 1})
    counted.on_forward_validation({Y_PRED: 2})
    assert (counted.n_samples, counted.n_forwards) == (1, 1)
