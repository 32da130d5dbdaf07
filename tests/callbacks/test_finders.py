"""Learning rates that are found by steps which leave no trace; of those of batch sizes, that they do not either."""

import random

import numpy as np
import pytest
from small_backends import build_kit

import delira
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import add_to_loss, on_criterion, once
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.state import BATCH, LOSS
from delira.training.callbacks import CSVLogger, ExponentialLR, L2WeightDecay
from delira.training.finders import RateSearch, find_batch_size, find_learning_rate

REASON = "the {} backend needs the package {!r}, which is not installed"
BACKENDS = ("torch", "tensorflow", "jax")

rng = np.random.default_rng(0)
DATA = rng.normal(size=(22, 3)).astype(np.float32)
TARGETS = (DATA @ rng.normal(size=(3, 2)) + 0.3).astype(np.float32)


def torch_parts():
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)
    )
    return net, torch.optim.Adam(net.parameters(), 0.05), torch.nn.MSELoss()


def keras_parts():
    """Without a shape: the weights come with the first batch."""
    pytest.importorskip("tensorflow", reason=REASON.format("tensorflow", "tensorflow"))
    import keras

    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(4),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(2),
    ]
    return keras.Sequential(layers), keras.optimizers.Adam(0.05), keras.losses.MeanSquaredError()


def jax_parts():
    nnx = pytest.importorskip("flax.nnx", reason=REASON.format("jax", "flax"))
    import optax

    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(3, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)]
    net = nnx.Sequential(*layers, nnx.Linear(4, 2, rngs=rngs))
    return net, optax.inject_hyperparams(optax.adam)(learning_rate=0.05), lambda p, t: ((p - t) ** 2).mean()


PARTS = {"torch": torch_parts, "tensorflow": keras_parts, "jax": jax_parts}


def build(backend, *callbacks, metrics=("loss",), **settings):
    trial = delira.Trial(*PARTS[backend](), metrics, callbacks, verbose=0, **{"seed": 3, **settings})
    return trial.with_train_generator(BaseDataManager({"data": DATA, "label": TARGETS}, 4)).with_val_data(
        DATA, TARGETS, 8
    )


def leaves_of(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree, key=str) for leaf in leaves_of(tree[key])]
    return [leaf for part in tree for leaf in leaves_of(part)] if isinstance(tree, (list, tuple)) else [tree]


def everything(trial):
    """Arrays of network and optimizers, and what the rest of the trial shows."""
    trainer = trial.trainer
    tree = trainer.backend.arrays.snapshot(trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers))
    for pending in tree.get("pending", {}).values():
        # JAX: as it was set, if it ever was; without the rounding of the device
        assert trial.learning_rates() == [pending.pop("rate", *trial.learning_rates())]
    return [np.asarray(leaf) for leaf in leaves_of(trainer.backend.arrays.to_numpy(tree))]


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------ what they leave behind


def search(kind, trial):
    if kind == "rate":
        return find_learning_rate(trial, end=1e3, steps=8)
    return find_batch_size(trial, max_batch_size=32)


@pytest.mark.slow_cases("jax|tensorflow")
@pytest.mark.parametrize(("backend", "kind"), [*((backend, "rate") for backend in BACKENDS), ("torch", "size")])
def test_everything_is_put_back(backend, kind):
    """Before the first epoch, when some weights have no shape yet, and between two: the run goes on as without it."""
    plain, searched = build(backend), build(backend)
    for epochs in (1, 3):
        np.random.seed(1)
        random.seed(1)
        before = None if epochs == 1 else everything(searched)
        generators = searched.trainer.backend.generators.state()
        history, state = list(searched.history), dict(searched.state)
        search(kind, searched)
        assert_equal(leaves_of(generators), leaves_of(searched.trainer.backend.generators.state()))
        assert (np.random.random(), random.random()) == (0.417022004702574, 0.13436424411240122)
        assert searched.history == history
        assert searched.state.keys() == state.keys()
        assert all(searched.state[key] is value for key, value in state.items())
        if before is not None:
            assert_equal(before, everything(searched))
        assert plain.learning_rates() == searched.learning_rates()
        assert plain.run(epochs) == searched.run(epochs)
        assert_equal(everything(plain), everything(searched))
    assert len({record["loss"] for record in plain.history}) == 3


@pytest.mark.parametrize("backend", ["torch", "tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_a_trainer_is_put_back(backend, tmp_path):
    backend = build_kit(backend)
    data = BaseDataManager({"data": DATA, "label": TARGETS[:, :1]}, 4)
    plain, searched = (backend.trainer(tmp_path / name, backend.build(dropout=0.3)) for name in ("plain", "searched"))
    for epochs in (1, 2):
        search = find_learning_rate(searched, data, end=1.0, steps=20)
        assert search.losses.shape == (20,)
        assert find_batch_size(searched, data, max_batch_size=8) == 8
        files = sorted(path.name for path in (tmp_path / "searched").rglob("*"))
        assert not any("checkpoint_" in name for name in files) or epochs == 2
        plain.train(epochs, data)
        searched.train(epochs, data)
        np.testing.assert_array_equal(backend.read(plain.module), backend.read(searched.module))
    assert plain.state.history == searched.state.history


def test_what_fails_inside_is_put_back_too():
    class Wrong(Exception):
        pass

    @add_to_loss
    def fail(state):
        if state[BATCH] == 3:
            raise Wrong
        return 0.0

    trial = build("torch", fail)
    callbacks, before = trial.trainer.callbacks, everything(trial)
    with pytest.raises(Wrong):
        find_learning_rate(trial, steps=10)
    assert_equal(before, everything(trial))
    assert trial.trainer.callbacks is callbacks
    assert trial.trainer.state.step_in_epoch == trial.trainer.state.global_step == 0


def test_callbacks_take_part_in_the_step_and_nothing_else(tmp_path):
    log = []

    class Everywhere(Callback):
        def __init__(self):
            self.count = 0

        def on_criterion(self, state):
            self.count += 1
            state[LOSS] = state[LOSS] + 1000

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    for name in ("on_start", "on_start_training", "on_step_training", "on_end_training", "on_checkpoint", "on_end"):
        setattr(Everywhere, name, lambda self, state, name=name: log.append(name))

    class Outside(Callback):
        def on_start(self, state):
            log.append("outside")

    @once
    @on_criterion
    def first(state):
        log.append("once")

    everywhere = Everywhere()
    callbacks = [everywhere, Outside(), CSVLogger(tmp_path / "log.csv"), ExponentialLR(0.5, step_on_batch=True), first]
    trial = build("torch", *callbacks)
    search = find_learning_rate(trial, start=1e-9, end=1e-8, steps=5)
    assert (search.losses > 1000).all()
    assert log == ["on_start", "on_start_training", "once", "on_end"]
    assert everywhere.count == 0
    assert list(tmp_path.iterdir()) == []
    trial.run(1)
    assert log.count("once") == 2
    assert trial.learning_rates() == pytest.approx([0.05 * 0.5**6])


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_schedule_of_updates_counts_its_own(accumulated):
    """Updates of the search are none of its: it looks at how many the optimizer has made."""
    plain, searched = (
        build("torch", ExponentialLR(0.5, step_on_batch=True), gradient_accumulation_steps=accumulated)
        for _ in range(2)
    )
    find_learning_rate(searched, steps=7)
    plain.run(1)
    searched.run(1)
    assert plain.learning_rates() == searched.learning_rates()
    assert_equal(everything(plain), everything(searched))


# ------------------------------------------------------------------ the learning rate


def sweep(kernel, bias, batches, rates, decay=0.0):
    """Losses of gradient descent on the mean squared error, by hand in float64; one update for each list of batches."""
    kernel, bias, losses = kernel.astype("f8"), bias.astype("f8"), []
    for rate, group in zip(rates, batches, strict=False):
        norms = np.linalg.norm(kernel), np.linalg.norm(bias)
        sizes = [len(x) for x, _ in group]
        errors = [x.astype("f8") @ kernel + bias - y for x, y in group]
        losses.append(np.mean([(error**2).mean() for error in errors]) + decay * sum(norms))
        slopes = [2 * x.T @ error / error.size for (x, _), error in zip(group, errors, strict=True)]
        shifts = [2 * error.mean(axis=0) for error in errors]
        kernel, bias = (
            kernel - rate * (np.average(slopes, axis=0, weights=sizes) + decay * kernel / norms[0]),
            bias - rate * (np.average(shifts, axis=0, weights=sizes) + decay * bias / norms[1]),
        )
    return np.array(losses)


def smooth(losses, smoothing):
    """As a weighted mean, written out."""
    weights = [smoothing ** np.arange(n, -1, -1.0) for n in range(len(losses))]
    return np.array([np.average(losses[: len(weight)], weights=weight) for weight in weights])


def again(batches, size=1):
    while True:
        for start in range(0, len(batches), size):
            yield batches[start : start + size]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("smoothing", [0.0, 0.9])
def test_losses_are_those_of_growing_rates(fit, smoothing):
    trial = fit.trial()
    kernel, bias = fit.weights(trial)
    search = find_learning_rate(trial, None, 1e-4, 50.0, 40, smoothing)
    rates = np.geomspace(1e-4, 50.0, 40)
    losses = sweep(kernel, bias, again(fit.batches()), rates)
    smoothed = smooth(losses, smoothing)
    lowest = np.minimum.accumulate(smoothed)
    ends = np.flatnonzero(smoothed > lowest + 3 * np.maximum(lowest, smoothed[0] - lowest))
    n = ends[0] + 1
    assert n < 40
    np.testing.assert_allclose(search.rates, rates[:n], rtol=1e-12)
    np.testing.assert_allclose(search.losses, losses[:n], rtol=2e-3)
    np.testing.assert_allclose(search.smoothed, smoothed[:n], rtol=2e-3)


def test_weight_decay_and_accumulation_are_part_of_it(torch_fit):
    trial = torch_fit.trial(L2WeightDecay(0.3), gradient_accumulation_steps=2)
    kernel, bias = torch_fit.weights(trial)
    search = find_learning_rate(trial, None, 1e-3, 1e-1, 9, 0.0)
    groups = again([torch_fit.batches()[at] for at in (0, 1, 2, 0, 1, 2)], 2)
    wanted = sweep(kernel, bias, groups, np.geomspace(1e-3, 1e-1, 9), 0.3)
    np.testing.assert_allclose(search.losses, wanted, rtol=1e-4)


def test_the_suggestion_is_where_the_loss_falls_the_fastest():
    rates = np.geomspace(1e-5, 1e1, 61)
    exponent = np.log10(rates)
    smoothed = 2 - np.tanh(2 * (exponent + 2)) + np.where(exponent > 0, 10 * exponent, 0)
    found = RateSearch(rates, smoothed, smoothed)
    assert found.suggestion == pytest.approx(1e-2)
    assert isinstance(found.suggestion, float)


def test_means_of_a_few_losses_are_not_looked_at():
    rates = np.geomspace(1e-5, 1e1, 61)
    smoothed = 2 - np.tanh(2 * (np.log10(rates) + 2))
    smoothed[:5] += np.arange(5, 0, -1)
    assert RateSearch(rates, smoothed, smoothed).suggestion < 1e-4
    assert RateSearch(rates, smoothed, smoothed, 9).suggestion == pytest.approx(1e-2)
    assert find_learning_rate(build("torch"), steps=5, smoothing=0.9).n_unsettled == 9


@pytest.mark.parametrize("losses", [[1.0, 2.0, 3.0], [1.0, 0.9], [np.nan], [1.0, np.inf, 2.0]])
def test_without_a_fall_there_is_no_suggestion(losses):
    search = RateSearch(np.geomspace(1e-3, 1, len(losses)), np.array(losses), np.array(losses))
    assert search.suggestion is None
    search.plot().savefig  # noqa: B018 - it can be drawn all the same


def test_the_suggestion_trains_and_a_far_larger_rate_does_not(torch_fit):
    import torch

    search = find_learning_rate(torch_fit.trial(), start=1e-5, end=100.0)
    highest = 2 / np.linalg.eigvalsh(2 * torch_fit.x.T @ torch_fit.x / len(torch_fit.x)).max()
    assert highest / 100 < search.suggestion < highest

    def loss_with(rate):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 1)
        trial = delira.Trial(
            net, torch.optim.SGD(net.parameters(), rate), torch.nn.MSELoss(), ["loss"], seed=0, verbose=0
        )
        return trial.with_train_data(torch_fit.x, torch_fit.y, 4).run(30)[-1]["loss"]

    assert loss_with(search.suggestion) < 1e-3 * loss_with(1e-5)


def test_it_ends_where_the_loss_is_no_number():
    @add_to_loss
    def odd(state):
        return float("nan") if state[BATCH] == 4 else 0.0

    search = find_learning_rate(build("torch", odd), steps=20)
    assert len(search.losses) == 5
    assert np.isnan(search.losses[-1])


def test_losses_below_zero_end_it_where_they_rise_too():
    """Where four times the lowest is lower still."""
    values = iter([-1.0, -2.0, -3.0, -3.0, 0.0, 4.9, 6.1, 7.0])

    @on_criterion
    def given(state):
        state[LOSS] = state[LOSS] * 0 + next(values)

    search = find_learning_rate(build("torch", given), steps=8, smoothing=0.0)
    assert search.losses.tolist() == pytest.approx([-1.0, -2.0, -3.0, -3.0, 0.0, 4.9, 6.1])


def test_the_plot_shows_the_search():
    rates = np.geomspace(1e-3, 1.0, 20)
    smoothed = 2 - np.tanh(np.log10(rates) + 1.5)
    losses = smoothed + np.where(np.arange(20) == 19, np.inf, 0.1)
    search = RateSearch(rates, losses, smoothed)
    [axes] = search.plot().axes
    assert axes.get_xscale() == "log"
    raw, mean, suggestion = axes.lines
    np.testing.assert_array_equal(raw.get_ydata(), losses)
    np.testing.assert_array_equal(mean.get_xdata(), rates)
    np.testing.assert_array_equal(mean.get_ydata(), smoothed)
    assert suggestion.get_xdata()[0] == search.suggestion
    assert np.isfinite(axes.get_ylim()).all()
    assert search.plot()._repr_png_().startswith(b"\x89PNG")


def test_rates_that_are_tensors_are_set():
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))

    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), torch.tensor(0.05), capturable=False, foreach=False)
    trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), seed=0, verbose=0).with_train_data(DATA, TARGETS, 4)
    find_learning_rate(trial, steps=np.int64(5))
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.05)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"start": 0.0}, "start is a number above 0"), ({"start": 1.0, "end": 0.1}, "from start up to end"),
    ({"steps": 2}, "steps is a whole number of at least 3, got 2"), ({"steps": 1.5}, "steps"),
    ({"smoothing": 1.0}, "smoothing"), ({"divergence": 1.0}, "divergence"),
    ({"data": [1]}, "a trial has its data already"),
])  # fmt: skip
def test_impossible_searches_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        find_learning_rate(build("torch"), **arguments)


def test_what_cannot_be_searched_is_refused(tmp_path):
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))

    net = torch.nn.Linear(3, 2)
    trial = delira.Trial(net, None, torch.nn.MSELoss(), seed=0, verbose=0)
    with pytest.raises(ConfigError, match="there are no data to train on"):
        find_learning_rate(trial)
    with pytest.raises(ConfigError, match="no optimizer"):
        find_learning_rate(trial.with_train_data(DATA, TARGETS))
    kit = build_kit("torch")
    with pytest.raises(ConfigError, match="pass data="):
        find_learning_rate(kit.trainer(tmp_path / "one"))
    with pytest.raises(ConfigError, match="taken from a generator would be missing"):
        find_learning_rate(kit.trainer(tmp_path / "two"), (batch for batch in [{}]))
    with pytest.raises(DataError, match="gave no batch"):
        find_learning_rate(kit.trainer(tmp_path / "three"), [])
    toy = build_kit("toy")
    with pytest.raises(ConfigError, match="no learning rates to change"):
        find_learning_rate(toy.trainer(tmp_path / "four"), BaseDataManager({"data": DATA, "label": TARGETS[:, :1]}, 4))


def test_an_estimator_has_nothing_to_find():
    from sklearn.linear_model import SGDClassifier

    trial = delira.Trial(SGDClassifier(), seed=0, verbose=0).with_train_data(DATA, TARGETS[:, 0] > 0, 4)
    with pytest.raises(ConfigError, match="trains without optimizers"):
        find_learning_rate(trial)
    with pytest.raises(ConfigError, match="trains without optimizers"):
        find_batch_size(trial, max_batch_size=4)


def test_an_optimizer_that_hides_its_rate_says_so():
    nnx = pytest.importorskip("flax.nnx", reason=REASON.format("jax", "flax"))
    import optax

    net = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    trial = delira.Trial(net, optax.sgd(0.1), lambda p, t: ((p - t) ** 2).mean(), seed=0, verbose=0)
    with pytest.raises(ConfigError, match="inject_hyperparams"):
        find_learning_rate(trial.with_train_data(DATA, TARGETS, 4))


def test_without_data_and_with_a_loader_it_works_too():
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))

    net = torch.nn.Linear(3, 2)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), seed=0, verbose=0)
    taken = []

    def load(state):
        batch = next(state["iterator"])
        taken.append(len(batch[0]))
        state["x"], state["y_true"] = batch

    batches = [(torch.from_numpy(DATA[at : at + 2]), torch.from_numpy(TARGETS[at : at + 2])) for at in (0, 2)]
    trial.with_train_generator(batches).with_loader(load).with_inf_train_loader()
    assert len(find_learning_rate(trial, steps=5).losses) == 5
    assert len(taken) == 5
    trial.run(1)
    assert trial.history[0]["train_steps"] == 2
