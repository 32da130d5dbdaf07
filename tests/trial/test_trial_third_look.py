"""What a third look at the Trial found: each test is a fault that was there."""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest
from kits import DIFFERENTIABLE, WEIGHT, build_kit, quiet

import delira
from delira import state as keys
from delira.errors import ConfigError, NonFiniteLossError
from delira.state import EPOCH, GRADIENTS, LOSS, METRICS, MODEL, PHASE, Y_PRED, Y_TRUE, state_key
from delira.training.callbacks import Profiler
from delira.training.callbacks.decorators import (
    add_to_loss,
    on_backward,
    on_end_epoch,
    on_end_training,
    on_end_validation,
    on_sample,
    on_step_training,
)
from delira.trial import base_closure, standard_closure

ROOMS = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
TORCH = pytest.mark.parametrize("kit", ["torch"], indirect=True)
NOTE = state_key("note_of_the_third_look")


def linear_trial(kit, *callbacks, criterion=None, **settings):
    net = kit.linear(WEIGHT)
    return quiet(net, kit.sgd(net, 0.05), criterion or kit.mse, ["loss"], callbacks, **settings)


def regression():
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("f4")
    return delira.data_loading.BaseDataManager({"data": x, "label": x[:, :2]}, 4)


def torch_network():
    torch = pytest.importorskip("torch")

    class Net(delira.models.AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            return {"pred": self.layer(x)}

    return Net()


def keras_network():
    keras = pytest.importorskip("keras")

    class Net(delira.models.AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.layer = keras.layers.Dense(2)

        def call(self, x):
            return {"pred": self.layer(x)}

    return Net()


def flax_network():
    nnx = pytest.importorskip("flax.nnx")

    class Net(delira.models.AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return {"pred": self.layer(x)}

    return Net()


OWN_NETWORKS = {"torch": torch_network, "tensorflow": keras_network, "jax": flax_network}


@pytest.mark.parametrize("room", DIFFERENTIABLE)
def test_a_network_of_ours_fits_in_a_trial(room, line, tmp_path):
    kit, net = build_kit(room), OWN_NETWORKS[room]()
    trial = quiet(net, kit.adam(net, 0.1), kit.mse, ["loss", "mae"]).with_train_data(*line, 6).with_val_data(*line, 6)
    history = trial.run(8)
    assert history[-1]["loss"] < history[0]["loss"]
    assert trial.predict(data_key=keys.VALIDATION_DATA).shape == (12, 2)
    fresh = OWN_NETWORKS[room]()
    again = quiet(fresh, kit.adam(fresh, 0.1), kit.mse)
    if room == "tensorflow":
        with pytest.raises(ConfigError, match="it cannot be copied: Could not locate class 'Net'"):
            again.to_experiment()
        return
    outputs, _ = again.to_experiment(save_path=tmp_path, num_epochs=1).kfold(regression(), num_splits=2)
    assert sum(len(fold["pred"]) for fold in outputs.values()) == 12


# ---- criteria


class Losses:
    """Criteria as methods: of the state, and of a prediction and a target."""

    def __init__(self, mse):
        self.mse = mse

    def of_state(self, state):
        return self.mse(state[Y_PRED], state[Y_TRUE])

    def of_pair(self, prediction, target):
        return self.mse(prediction, target)

    def weighted(self, state, weight):
        return weight * self.of_state(state)


@pytest.mark.sampled("values")
@ROOMS
@pytest.mark.parametrize("kind", ["method of the state", "method of a pair", "partial of the state", "compiled pair"])
def test_a_criterion_may_be_a_method_a_partial_or_a_compiled_function(kit, line, kind):
    losses = Losses(kit.mse)
    criterion = {
        "method of the state": losses.of_state,
        "method of a pair": losses.of_pair,
        "partial of the state": functools.partial(losses.weighted, weight=1.0),
    }.get(kind)
    if criterion is None:
        room = type(kit).__name__
        if room == "TorchKit":
            pytest.skip("torch.compile needs a compiler of C++")
        compile_ = sys.modules["jax"].jit if room == "JaxKit" else sys.modules["tensorflow"].function
        criterion = compile_(losses.of_pair)
    found, wanted = (linear_trial(kit, criterion=one).with_train_data(*line, 6).run(1) for one in (criterion, kit.mse))
    assert found[0]["loss"] == pytest.approx(wanted[0]["loss"], rel=1e-6)


@pytest.mark.parametrize("kit", ["jax"], indirect=True)
def test_a_learning_rate_that_nobody_tells_is_no_metric(kit, line):
    import optax

    for optimizer, is_told in ((optax.sgd(0.1), False), (optax.inject_hyperparams(optax.sgd)(learning_rate=0.1), True)):
        trial = quiet(kit.linear(WEIGHT), optimizer, kit.mse, ["lr"]).with_train_data(*line, 6)
        if is_told:
            assert trial.run(1)[0]["lr"] == pytest.approx(0.1)
            continue
        with pytest.raises(ConfigError, match=r"does not know the learning rate of .*optax\.inject_hyperparams"):
            trial.run(1)


# ---- what callbacks set, and the user


@ROOMS
def test_what_the_user_sets_between_two_calls_is_in_use_in_the_next(kit, line):
    trial = linear_trial(kit).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(1)
    trial.state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))
    np.testing.assert_array_equal(kit.numpy(trial.predict(data_key=keys.VALIDATION_DATA)), 0)
    assert trial.evaluate()["val_loss"] == pytest.approx((line[1] ** 2).mean(), rel=1e-5)
    trial.state[keys.OPTIMIZER] = kit.sgd(trial.state[MODEL], 0.25)
    rates = []
    trial.callbacks.append(on_step_training(lambda state: rates.extend(trial.trainer.learning_rates())))
    trial.run(2)
    assert kit.weight(trial.state[MODEL]).any()


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_another_network_without_an_optimizer_of_its_weights_is_refused(kit, line):
    @on_end_epoch
    def swap(state):
        state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))

    trial = linear_trial(kit, swap).with_train_data(*line, 6)
    with pytest.raises(ConfigError, match="none of them is one of the"):
        trial.run(2)
    trial = linear_trial(kit).with_train_data(*line, 6).with_test_data(line[0], 6)
    trial.run(1)
    trial.state[MODEL] = kit.linear(np.zeros((3, 2), "f4"))
    np.testing.assert_array_equal(kit.numpy(trial.predict()), 0)
    with pytest.raises(ConfigError, match="none of them is one of the"):
        trial.run(2)


def test_an_unknown_setting_is_refused_at_once(line):
    kit = build_kit("torch")
    with pytest.raises(ConfigError, match=r"unknown training setting 'sede'.*'seed'"):
        linear_trial(kit, sede=3)


@ROOMS
def test_a_trial_that_learns_nothing_measures(kit, line):
    net = kit.linear(WEIGHT)
    trial = quiet(net, None, None, ["loss", "mae"]).with_train_data(*line, 6)
    assert trial.run(1)[0]["mae"] == pytest.approx(np.abs(line[0] @ WEIGHT - line[1]).mean(), rel=1e-5)
    np.testing.assert_allclose(kit.weight(net), WEIGHT, rtol=1e-6)


@pytest.mark.parametrize("what", ["two inputs", "the state", "float64"])
def test_what_no_experiment_can_do_is_refused(what):
    kit = build_kit("torch")
    two = sys.modules["torch"].nn.Bilinear(3, 3, 2)
    net = {"two inputs": two, "the state": kit.state_module({"w": 1.0}, lambda net, x, state: net.w * x)}.get(what)
    trial = linear_trial(kit) if net is None else quiet(net, kit.sgd(net, 0.1), kit.mse)
    if what == "float64":
        trial.to(sys.modules["torch"].float64)
    with pytest.raises(ConfigError, match=r"write a network of delira\.models"):
        trial.to_experiment()


@ROOMS
def test_a_metric_that_a_callback_sets_is_recorded_as_a_number(kit, line, tmp_path):
    @on_end_training
    @on_end_validation
    @on_end_epoch
    def set_mine(state):
        state[METRICS]["mine"] = kit.array(np.float32(2.5))
        state[METRICS]["one"] = kit.array(np.full(1, 1.5, "f4"))
        state[METRICS]["two"] = kit.array(np.arange(2, dtype="f4"))

    trial = linear_trial(kit, set_mine, save_path=tmp_path).with_train_data(*line, 6).with_val_data(*line, 6)
    record = trial.run(1)[0]
    assert (record["mine"], record["one"], record["two"]) == (2.5, 1.5, [0.0, 1.0])


@ROOMS
def test_gradients_that_a_callback_leaves_out_are_applied(kit, blobs):
    def weights(callbacks, closure):
        net = kit.mlp()
        trial = quiet(net, kit.sgd(net, 0.1), kit.cross_entropy, [], callbacks, seed=1, compiled=False)
        (trial.with_closure(closure()) if closure else trial).with_train_data(*blobs, 8).run(1)
        return kit.weights(net)

    @on_backward
    def keep_one(state):
        name = sorted(state[GRADIENTS])[0]
        state[GRADIENTS] = {name: state[GRADIENTS][name]}

    for closure in (None, base_closure):
        for one, other in zip(weights([keep_one], closure).values(), weights([], closure).values(), strict=True):
            np.testing.assert_array_equal(one, other)


@TORCH
def test_a_new_key_keeps_no_graph_though_another_one_went(kit, line):
    seen, notes = [], (NOTE, state_key("other_note_of_the_third_look"))

    @on_sample
    def take(state):
        for key in notes:
            state.pop(key, None)

    @on_step_training
    def look(state):
        seen.append(state[notes[state[keys.BATCH]]].requires_grad)

    def note(state):
        loss = state[notes[state[keys.BATCH]]] = kit.mse(state[Y_PRED], state[Y_TRUE])
        return loss

    linear_trial(kit, take, look, criterion=note).with_train_data(*line, 6).run(2)
    assert seen == [False] * 4


# ---- what stays


@TORCH
def test_a_closure_of_a_trial_that_is_gone_holds_no_network(kit, line):
    trial = linear_trial(kit).with_closure(standard_closure).with_train_data(*line, 6)
    trial.run(1)
    network = weakref.ref(trial.state[MODEL])
    del trial
    gc.collect()
    assert network() is None


@ROOMS
def test_a_profiler_measures_a_trial_that_was_moved(kit, line):
    profiler = Profiler()
    trial = linear_trial(kit, profiler).with_train_data(*line, 6)
    trial.run(1)
    before = set(profiler.epochs[-1])
    trial.to("cpu")
    trial.run(2)
    assert set(profiler.epochs[-1]) == before
    assert "prepare" in before


# ---- closures written by hand


@TORCH
def test_a_closure_by_hand_calls_the_hooks_and_is_told_what_it_left_out(kit, line, caplog):
    @add_to_loss
    def penalty(state):
        return 5.0

    def forgets(state):
        optimizer = state[keys.OPTIMIZER]
        optimizer.zero_grad()
        state[Y_PRED] = state[MODEL](state[keys.X])
        state[LOSS] = kit.mse(state[Y_PRED], state[Y_TRUE])
        state[LOSS].backward()

    def calls(state):
        state[keys.OPTIMIZER].zero_grad()
        state[Y_PRED] = state[MODEL](state[keys.X])
        state[keys.CALLBACK_LIST].on_forward(state)
        state[LOSS] = kit.mse(state[Y_PRED], state[Y_TRUE])
        state[keys.CALLBACK_LIST].on_criterion(state)
        state[LOSS].backward()

    losses = {}
    for closure in (forgets, calls, None):
        caplog.clear()
        trial = linear_trial(kit, penalty).with_train_data(*line, 6)
        losses[closure] = (trial.with_closure(closure) if closure else trial).run(1)[0]["loss"]
        told = "does not call on_criterion, so what FunctionCallback does there is left out" in caplog.text
        assert told is (closure is forgets)
        assert caplog.text.count("does not call") == told
    assert losses[calls] == pytest.approx(losses[None])
    assert losses[forgets] == pytest.approx(losses[None] - 5)
    with pytest.raises(AttributeError, match="no attribute 'on_nothing'"):
        _ = trial.callbacks.on_nothing


@ROOMS
def test_a_standard_closure_is_also_made(kit, line):
    found, wanted = (
        trial.with_train_data(*line, 6).run(1)
        for trial in (linear_trial(kit).with_closure(standard_closure()), linear_trial(kit))
    )
    assert found[0]["loss"] == pytest.approx(wanted[0]["loss"], rel=1e-6)


@TORCH
def test_what_is_loaded_is_told_if_it_is_not_what_was_meant(kit, line):
    trial = linear_trial(kit).with_train_data(*line, 6)
    trial.run(1)
    state = trial.state_dict()
    with pytest.warns(UserWarning, match=r"written by delira 0\.1, and this is"):
        linear_trial(kit).load_state_dict({**state, "version": "0.1"})
    with pytest.warns(UserWarning, match="no state of a trial, so it is taken for weights"):
        other = linear_trial(kit).load_state_dict(trial.state[MODEL].state_dict())
    np.testing.assert_array_equal(kit.weight(other.state[MODEL]), kit.weight(trial.state[MODEL]))
    linear_trial(kit).load_state_dict(state).load_state_dict(state["model"], resume=False)


# ---- replay


@ROOMS
def test_a_replay_shows_the_metrics_of_the_fit_and_nothing_else(kit, line):
    seen = {"fit": [], "replay": []}

    @on_end_training
    @on_end_validation
    @on_end_epoch
    def look(state):
        seen[state[PHASE]].append(dict(state[METRICS]))

    trial = linear_trial(kit, look).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(2)
    kept = {}
    trial.replay([look, on_step_training(kept.update)], verbose=0)
    assert not kept.keys() & {keys.X, Y_TRUE, Y_PRED, LOSS}
    for shown, there in zip(seen["replay"], seen["fit"], strict=True):
        assert {**shown, "lr": 0} == {**there, "lr": 0}  # which is recorded, and no metric


def test_the_history_of_an_experiment_is_replayed(tmp_path, capsys):
    kit = build_kit("torch")
    passes = []

    @on_end_training
    @on_end_validation
    def look(state):
        passes.append((state[EPOCH], sorted(state[METRICS].keys() - {"lr"})))

    torch, data = sys.modules["torch"], regression()
    net = OWN_NETWORKS["torch"]()
    experiment = delira.training.PyTorchExperiment(
        {"training": {"num_epochs": 2, "losses": {"loss": kit.mse}, "optimizer_cls": torch.optim.Adam}}, type(net),
        name="replayed", save_path=tmp_path,
    )  # fmt: skip
    experiment.run(data, data)
    [last] = tmp_path.rglob("checkpoint_last.*")
    trial = quiet(net, torch.optim.Adam(net.parameters()), kit.mse, ["loss"])
    trial.load(last)
    trial.replay([look], verbose=-1)
    assert passes == [(0, ["loss"]), (0, ["val_loss"]), (1, ["loss"]), (1, ["val_loss"])]
    assert capsys.readouterr().out == ""


# ---- without a folder


@pytest.mark.parametrize("kit", ["sklearn"], indirect=True)
def test_an_estimator_learns_without_the_package_of_its_checkpoints(kit, blobs, monkeypatch):
    from sklearn.naive_bayes import GaussianNB

    monkeypatch.setitem(sys.modules, "skops.io", None)
    trial = delira.Trial(GaussianNB(), metrics=["acc"], verbose=0).with_train_data(*blobs, 8)
    assert trial.run(2)[-1]["acc"] > 0.9
    with pytest.raises(delira.errors.MissingBackendError, match="skops"):
        trial.state_dict()


@ROOMS
def test_weights_that_are_not_finite_at_the_end_are_told_without_a_folder_too(kit, line):
    @on_step_training
    def spoil(state):
        if state[keys.BATCH] == 1 and state[EPOCH] == 1:
            kit.set_linear(state[MODEL], np.full((3, 2), np.nan, "f4"))

    trial = linear_trial(kit, spoil).with_train_data(*line, 6)
    with pytest.raises(NonFiniteLossError, match="the weights are not finite any more after epoch 2"):
        trial.run(2)


@TORCH
def test_nothing_is_collected_for_checkpoints_that_nobody_writes(kit, line, monkeypatch):
    trial = linear_trial(kit).with_train_data(*line, 6)
    trial.run(1)
    checkpoints = trial.trainer.backend.checkpoints
    collected, collect = [], checkpoints.state_tree
    monkeypatch.setattr(checkpoints, "state_tree", lambda *args: (collected.append(args[1]), collect(*args))[1])
    trial.run(4)
    assert collected == [{}]  # of the weights alone, at the end
