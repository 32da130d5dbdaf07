"""Runs with mixed samples: their losses by hand, compiled, broken off and continued, and in experiments."""

import numpy as np
import pytest
from small_backends import build_kit

import delira
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import on_forward, on_step_training, traceable
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.state import EPOCH, LOSS, METRICS, MIXUP_LAMBDA, MIXUP_PERMUTATION, TRAIN_DATA, Y_TRUE, State, X
from delira.training import callbacks as cb
from delira.training.callbacks import (
    BCPlus,
    CutMix,
    Cutout,
    LabelSmoothingRegularisation,
    MixedTargets,
    Mixup,
    RandomErase,
    SamplePairing,
    bc_loss,
    mixup_loss,
)
from delira.utils.arrays import ops_of

BACKENDS = ["torch", "tensorflow", "jax"]
rng = np.random.default_rng(0)
LABELS = np.tile([0, 1, 2], 8)[:22]
IMAGES = (rng.normal(size=(22, 6, 5, 3)) + LABELS[:, None, None, None]).astype("f4")


class Watch(Callback):
    """Keeps what a step was computed of, and with."""

    traceable = True

    def __init__(self):
        self.steps = []

    def on_step_training(self, state):
        first, second = state[Y_TRUE]["label"] if isinstance(state[Y_TRUE], dict) else state[Y_TRUE]
        kept = {"x": state[X], "first": first, "second": second, "share": state[MIXUP_LAMBDA], "loss": state[LOSS]}
        self.steps.append({name: np.asarray(value).copy() for name, value in kept.items()})


def parts(backend, is_soft=False):
    """A network for the images, an optimizer and a cross entropy."""
    if backend == "torch":
        torch = pytest.importorskip(
            "torch", reason="the torch backend needs the package 'torch', which is not installed"
        )
        torch.manual_seed(0)
        layers = torch.nn.Flatten(), torch.nn.Linear(90, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3)
        net = torch.nn.Sequential(*layers)
        return net, torch.optim.Adam(net.parameters(), 0.02), torch.nn.CrossEntropyLoss()
    if backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
        import keras

        keras.utils.set_random_seed(0)
        layers = keras.layers
        net = [layers.Input((6, 5, 3)), layers.Flatten(), layers.Dense(4), layers.Dropout(0.5), layers.Dense(3)]
        loss = keras.losses.CategoricalCrossentropy if is_soft else keras.losses.SparseCategoricalCrossentropy
        return keras.Sequential(net), keras.optimizers.Adam(0.02), loss(from_logits=True)
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    rngs = nnx.Rngs(0)
    layers = nnx.Linear(90, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)
    entropy = optax.softmax_cross_entropy if is_soft else optax.softmax_cross_entropy_with_integer_labels
    net = nnx.Sequential(lambda x: x.reshape(x.shape[0], -1), *layers)
    return net, optax.adam(0.02), lambda prediction, target: entropy(prediction, target).mean()


def build(backend, callbacks, criterion=None, path=None, metrics=("loss", "acc"), n=22, **settings):
    net, optimizer, loss = parts(backend, is_soft=criterion is None)
    criterion = loss if criterion is None else criterion(loss)
    trial = delira.Trial(net, optimizer, criterion, [*metrics], callbacks, 0, save_path=path, seed=3, **settings)
    images = np.moveaxis(IMAGES, -1, 1) if backend == "torch" else IMAGES
    manager = BaseDataManager({"data": images[:n], "label": LABELS[:n]}, 4)
    return trial.with_train_generator(manager).with_val_generator(manager)


def weights(trial):
    found = trial.trainer.backend.weights.named(trial.trainer.module)
    return [found[name] for name in sorted(found)]


# ------------------------------------------------------------------ by hand


@pytest.mark.slow_cases("jax")
def test_every_step_is_that_of_the_mixed_samples(fit, by_hand):
    watch = Watch()
    fit.criterion = mixup_loss(fit.criterion)
    trial = fit.trial(Mixup(), watch, seed=3)
    kernel, bias = fit.weights(trial)
    record = trial.run(1)[0]
    for (x, y), step in zip(fit.batches(), watch.steps, strict=True):
        share = float(step["share"])
        rows = [int(np.flatnonzero((y == one).all(1))[0]) for one in step["second"]]
        np.testing.assert_allclose(step["x"], share * x + (1 - share) * x[rows], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(step["first"], y)
        two = [by_hand(kernel, bias, step["x"], target) for target in (step["first"], step["second"])]
        loss, by_kernel, by_bias = (share * one + (1 - share) * other for one, other in zip(*two, strict=True))
        assert float(step["loss"]) == pytest.approx(loss, rel=1e-5)
        kernel, bias = kernel - 0.1 * by_kernel, bias - 0.1 * by_bias
    for found, wanted in zip(fit.weights(trial), (kernel, bias), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    plain = np.average([by_hand(kernel, bias, x, y)[0] for x, y in fit.batches()], weights=[4, 4, 2])
    assert record["val_loss"] == pytest.approx(plain, rel=1e-4)
    assert trial.evaluate(data_key=TRAIN_DATA)["train_loss"] == pytest.approx(plain, rel=1e-4)


def test_the_seed_of_a_trial_decides(torch_fit):
    torch_fit.criterion = mixup_loss(torch_fit.criterion)
    drawn = []
    for seed in (3, 3, 4):
        watch = Watch()
        torch_fit.trial(Mixup(), watch, seed=seed).run(1)
        drawn.append([float(step["share"]) for step in watch.steps])
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_accuracy_weighs_both_labels(backend):
    rights = []

    @on_step_training
    def look(state):
        best = np.asarray(state["y_pred"]).argmax(1)
        share = float(state[MIXUP_LAMBDA])
        first, second = (np.asarray(one) for one in state[Y_TRUE])
        rights.append(share * (best == first) + (1 - share) * (best == second))

    trial = build(backend, [Mixup(), look], mixup_loss)
    record = trial.run(1)[0]
    assert record["mixup_acc"] == pytest.approx(np.concatenate(rights).mean(), rel=1e-5)
    plain = np.mean([np.asarray(trial.predict(data_key=TRAIN_DATA)).argmax(1) == LABELS])
    assert trial.evaluate(data_key=TRAIN_DATA)["train_mixup_acc"] == pytest.approx(plain, rel=1e-6)


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("callback", "criterion"),
    [
        pytest.param(lambda: CutMix(1.0, 3), None, marks=pytest.mark.slow),
        (lambda: CutMix(1.0, mixup_loss=True), mixup_loss),
        (lambda: BCPlus(classes=3), lambda loss: bc_loss),
        pytest.param(lambda: LabelSmoothingRegularisation(0.1, 3), None, marks=pytest.mark.slow),
    ],
)
def test_targets_are_as_the_criterion_needs_them_in_every_pass(backend, callback, criterion):
    trial = build(backend, [callback()], criterion, metrics=["loss", "acc" if criterion else "cat_acc"])
    history = trial.run(6)
    accuracy = "val_mixup_acc" if criterion is mixup_loss else "val_acc"
    assert history[-1][accuracy] > 0.8
    assert history[-1]["val_loss"] < history[0]["val_loss"]
    values = trial.evaluate(data_key=TRAIN_DATA)
    assert values["train_loss"] == pytest.approx(history[-1]["val_loss"], rel=1e-5)


def test_parts_of_a_batch_are_mixed_as_the_whole():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    whole, in_parts = ([], [])
    trials = []
    for kept, settings in ((whole, {}), (in_parts, {"micro_batches": 2})):
        torch.manual_seed(0)
        net = torch.nn.Linear(2, 3)

        @on_step_training
        def look(state, kept=kept):
            kept.append((state[X], state[Y_TRUE].second, float(state[LOSS]), float(state[METRICS]["running_loss"])))

        criterion = mixup_loss(torch.nn.CrossEntropyLoss())
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        trial = delira.Trial(
            net, optimizer, criterion, ["loss", "acc"], [Mixup(), look], verbose=0, **{"seed": 0, **settings}
        )
        trials.append(trial.with_train_data(rng.normal(size=(8, 2)).astype("f4") * 0 + 1.0, np.arange(8) % 3, 4))
        trial.run(1)
    for one, other in zip(whole, in_parts, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
        assert one[2:] == pytest.approx(other[2:], rel=1e-5)
    assert trials[0].history[0]["mixup_acc"] == pytest.approx(trials[1].history[0]["mixup_acc"], rel=1e-5)


def test_the_weights_of_a_loss_inside_are_brought_to_the_device():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from delira.contract import Devices

    inside = torch.nn.CrossEntropyLoss(weight=torch.ones(3))
    devices = Devices(torch.device("cpu"), torch.device("meta"))
    build_kit("torch").backend.devices.place(torch.nn.Linear(2, 3), {"loss": mixup_loss(inside)}, devices)
    assert inside.weight.device.type == "meta"


# ------------------------------------------------------------------ compiled


def all_callbacks():
    return [Cutout(1, 3, 0.5), RandomErase(1, 2), SamplePairing(lambda state: state[EPOCH] == 1), Mixup()]


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_compiled_run_equals_one_that_is_not(backend, caplog):
    traced = []

    @traceable
    @on_forward
    def count(state):
        traced.append(state[MIXUP_LAMBDA])

    compiled = build(backend, [*all_callbacks(), count], mixup_loss, n=12)
    compiled.run(2)
    assert len(traced) <= 2  # not once for each lambda
    assert not caplog.records
    eager = build(backend, all_callbacks(), mixup_loss, n=12, compiled=False)
    eager.run(2)
    for one, other in zip(weights(compiled), weights(eager), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    for one, other in zip(compiled.history, eager.history, strict=True):
        assert one == pytest.approx(other, rel=1e-3)


# ------------------------------------------------------------------ continued


class Broken(Exception):
    pass


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("broken_at", [(1, 2), (2, 0)])
def test_a_run_that_was_continued_is_the_unbroken_one(backend, broken_at, tmp_path):
    @on_step_training
    def break_off(state):
        if broken_at == (state[EPOCH], state["t"]):
            raise Broken

    whole = build(backend, all_callbacks(), mixup_loss, tmp_path / "whole")
    whole.run(3)
    first = build(backend, [*all_callbacks(), break_off], mixup_loss, tmp_path / "broken", save_freq_steps=1)
    with pytest.raises(Broken):
        first.run(3)
    continued = build(backend, all_callbacks(), mixup_loss, tmp_path / "broken")
    assert continued.trainer.state.global_step == 6 * broken_at[0] + broken_at[1]
    continued.run(3)
    assert continued.history == whole.history
    for one, other in zip(weights(whole), weights(continued), strict=True):
        np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------ experiments


def test_an_experiment_mixes_its_network_s_input_and_the_label(backend_of_experiment, tmp_path, manager):
    kit, watch = build_kit(backend_of_experiment), Watch()
    losses = {"mse": mixup_loss(kit.loss)}
    trainer = kit.trainer(tmp_path, losses=losses, callbacks=[Mixup(), watch], seed=3)
    weight = kit.read(trainer.module).astype("f8")
    trainer.train(1, manager(), manager())
    step, batch = watch.steps[0], next(iter(manager().epoch(3, 0, 1, shuffle=True)))
    share = float(step["share"])
    np.testing.assert_allclose(step["first"], batch["label"], rtol=1e-6)
    rows = [int(np.isclose(batch["label"], one).all(1).argmax()) for one in step["second"]]
    np.testing.assert_allclose(step["x"], share * batch["data"] + (1 - share) * batch["data"][rows], rtol=1e-4)
    errors = [((step["x"] @ weight - step[name]) ** 2).mean() for name in ("first", "second")]
    assert float(step["loss"]) == pytest.approx(share * errors[0] + (1 - share) * errors[1], rel=1e-4)
    assert len({float(one["share"]) for one in watch.steps}) == len(watch.steps)
    weight = kit.read(trainer.module).astype("f8")
    whole = [((one["data"] @ weight - one["label"]) ** 2).sum() for one in manager()]
    n_samples = sum(len(one["data"]) for one in manager())
    assert trainer.state.history[0]["val_mse"] == pytest.approx(sum(whole) / n_samples, rel=1e-3)
    assert losses["mse"].state is None  # it holds nothing of a fit that is over


@pytest.fixture(params=BACKENDS)
def backend_of_experiment(request):
    return request.param


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it copies a model
@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trial_with_mixup_becomes_an_experiment(backend, tmp_path):
    trial = build(backend, [Mixup()], mixup_loss, metrics=["cat_acc"])
    images = np.moveaxis(IMAGES, -1, 1) if backend == "torch" else IMAGES
    data = BaseDataManager({"data": images, "label": LABELS}, 4)
    result = trial.to_experiment("mixed", tmp_path, num_epochs=1, verbose=False).kfold(data, num_splits=2)
    hits = result.oof.predictions["pred"].argmax(axis=1) == result.oof.targets["label"]
    assert result.summary()["cat_acc"]["oof"] == pytest.approx(hits.mean())


def test_a_copy_of_the_loss_belongs_to_no_fit():
    import copy
    import pickle

    loss = mixup_loss(bc_loss)
    loss.state = {"of": "a fit"}
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert (twin.state, twin.loss) == (None, bc_loss)
    assert repr(loss).startswith("mixup_loss(<function bc_loss")


def test_a_pair_and_where_it_came_from_are_told(fit):
    seen = {}

    @on_step_training
    def look(state):
        seen.update(pair=state[Y_TRUE], rows=np.asarray(state[MIXUP_PERMUTATION]))

    fit.criterion = mixup_loss(fit.criterion)
    fit.trial(Mixup(), look).run(1)
    assert isinstance(seen["pair"], MixedTargets)
    np.testing.assert_array_equal(np.asarray(seen["pair"].first)[seen["rows"]], np.asarray(seen["pair"].second))


def test_the_metric_of_mixed_samples_is_named():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Linear(3, 2)
    criterion = cb.mixup_loss(torch.nn.CrossEntropyLoss())
    trial = delira.Trial(
        net, torch.optim.SGD(net.parameters(), 0.1), criterion, ["cat_acc"], [cb.Mixup()], seed=0, verbose=0
    )
    with pytest.raises(DataError, match=r"the metric 'acc' .* samples are mixed; use 'mixup_acc'"):
        trial.with_train_data(torch.rand(4, 3), torch.tensor([0, 1, 0, 1]), 4).run(1)


def losses(backend):
    """Losses that take one target each."""
    if backend == "torch":
        torch = pytest.importorskip(
            "torch", reason="the torch backend needs the package 'torch', which is not installed"
        )
        return [torch.nn.MSELoss(), torch.nn.functional.mse_loss, lambda prediction, target: (prediction - target) ** 2]
    if backend == "tensorflow":
        keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package 'tensorflow'")
        return [keras.losses.MeanSquaredError(), keras.losses.mean_squared_error]
    return [lambda prediction, target: ((prediction - target) ** 2).mean()]


def test_pairs_of_targets_need_a_criterion_for_them(fit):
    """Keras would take the second target for weights of the samples, and say nothing."""
    for loss in losses(fit.backend):
        fit.criterion = loss
        with pytest.raises(
            ConfigError, match=r"Mixup makes a pair of each target, which .* does not take; make it mixup"
        ):
            fit.trial(cb.Mixup()).run(1)


def test_a_criterion_of_ones_own_may_take_the_pair(torch_fit):
    seen = []

    def of_both(prediction, first, second=None):  # one target in a validation
        seen.append(second is not None)
        return ((prediction - first) ** 2).mean()

    torch_fit.criterion = of_both
    torch_fit.trial(cb.Mixup(lam=0.5)).run(1)
    assert seen == [True] * 3 + [False] * 3


def test_the_loss_weighs_those_of_both_targets(convert):
    def loss(prediction, target):
        return ops_of(prediction).sum(prediction * target)

    prediction, one, other = convert(np.arange(3.0)), convert(np.ones(3)), convert(np.array([0.0, 2.0, 5.0]))
    state = State({"y_pred": prediction, Y_TRUE: MixedTargets(one, other), MIXUP_LAMBDA: convert(np.float32(0.25))})
    criterion = mixup_loss(loss)
    assert float(criterion(state)) == pytest.approx(0.25 * 3 + 0.75 * 12)
    state[Y_TRUE] = other
    assert float(criterion(state)) == float(criterion(prediction, other)) == 12
    with pytest.raises(ConfigError, match="mixed targets, but no callback that mixes is at work"):
        criterion(prediction, MixedTargets(one, other))
    with pytest.raises(ConfigError, match="mixup_loss takes a loss of predictions and targets, got 3"):
        mixup_loss(3)


def test_without_a_target_the_loss_gets_the_prediction_alone():
    state = State({"y_pred": np.arange(3.0), Y_TRUE: None})
    assert mixup_loss(lambda prediction: prediction.sum())(state) == 3
