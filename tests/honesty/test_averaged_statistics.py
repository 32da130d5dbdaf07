"""Averaged weights have running statistics of their own, computed by a pass over the training data, or it is said."""

import importlib
import logging
import os
import signal
import warnings

import numpy as np
import pytest
from trial_makers import INPUTS, TARGETS, need, optimizer, seed, squared_error

import delira
from delira.errors import ConfigError
from delira.testing.spec.bench import Bench
from delira.training import KFoldResult
from delira.training.callbacks import SWA, AbstractCallback, ExponentialMovingAverage

FRAMEWORKS = {"torch": "torch", "torchscript": "torch", "tensorflow": "keras", "jax": "flax"}
BACKENDS = pytest.mark.parametrize("name", FRAMEWORKS)
IN_TRIALS = pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
COMPILED_LATER = pytest.mark.slow_cases("tensorflow|jax")
SAID = "do not fit them"


def bench_of(name, folder):
    pytest.importorskip(FRAMEWORKS[name])
    return Bench(importlib.import_module(f"spec_backends.{name}").BACKEND, folder)


def average(update_statistics=True):
    return ExponentialMovingAverage(0.7, warmup=False, update_statistics=update_statistics)


def model_of(bench, network):
    """Everything that the network holds, as arrays by name."""
    return bench.backend.arrays.to_numpy(
        bench.backend.arrays.snapshot(bench.backend.checkpoints.state_tree(network, {})["model"])
    )


def statistics_of(bench, network):
    """Mean and variance of the one normalisation."""
    arrays = model_of(bench, network)
    mean, variance = sorted(bench.backend.weights.statistics_names(network), key=lambda name: "var" in name)
    return arrays[mean], arrays[variance]


def by_hand(bench, network, batches):
    """The mean over batches of what the body of an ``Mlp`` gives, in float64, and of its variance in the batch."""
    weight, bias = bench.tested.read(network, "body")
    hidden = [batch["data"].astype("f8") @ weight + bias for batch in batches]
    ddof = 1 if bench.tested.name.startswith("torch") else 0  # PyTorch alone keeps the unbiased variance
    return np.mean([one.mean(0) for one in hidden], axis=0), np.mean([one.var(0, ddof=ddof) for one in hidden], axis=0)


def assert_statistics(bench, network, batches):
    for found, expected in zip(statistics_of(bench, network), by_hand(bench, network, batches), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def said(caplog):
    return [record.getMessage() for record in caplog.records if SAID in record.getMessage()]


# ---- what the statistics are


@COMPILED_LATER
@BACKENDS
def test_the_statistics_are_the_mean_over_the_batches_of_the_training_data(name, tmp_path):
    bench = bench_of(name, tmp_path)
    trainer = bench.trainer(bench.mlp(dropout=0.4), callbacks=[average()])
    network = trainer.train(2, bench.manager(10))  # the last batch is shorter
    assert_statistics(bench, network, bench.batches(10))


@COMPILED_LATER
@BACKENDS
def test_of_one_batch_they_are_its_own(name, tmp_path):
    bench = bench_of(name, tmp_path)
    network = bench.trainer(bench.mlp(), callbacks=[average()]).train(2, bench.manager(7, 7))
    assert_statistics(bench, network, bench.batches(7, 7))


@COMPILED_LATER
@BACKENDS
def test_the_batches_are_those_of_the_last_epoch_with_its_transforms(name, tmp_path):
    bench = bench_of(name, tmp_path)

    def noisy(**batch):
        return {**batch, "data": batch["data"] + np.random.normal(size=batch["data"].shape)}

    data = bench.shuffled(10, transforms=noisy)
    network = bench.trainer(bench.mlp(), callbacks=[average()]).train(3, data)
    assert_statistics(bench, network, list(data.epoch(0, 0, 3, shuffle=True)))


@COMPILED_LATER
@BACKENDS
def test_nothing_else_changes_neither_weights_nor_the_training(name, tmp_path):
    bench, found = bench_of(name, tmp_path), []
    for update in (True, False):
        trainer = bench.trainer(bench.mlp(dropout=0.4), callbacks=[average(update)])
        trainer.train(3, bench.shuffled(10))
        tree = trainer.load_state(trainer.checkpoints.path("last"))
        found.append((model_of(bench, trainer.module), tree, trainer.state.history))
    (own, tree, history), (raw, plain, plain_history) = found
    names = bench.backend.weights.statistics_names(bench.mlp())
    assert {key for key in own if not np.array_equal(own[key], raw[key])} == names
    assert history == plain_history
    bench.assert_same(tree["training_model"], plain["training_model"], "the trained weights and their statistics")
    bench.assert_same(tree["optimizer"], plain["optimizer"], "the optimizers")


@COMPILED_LATER
@BACKENDS
def test_the_mean_of_swa_has_them_unless_told_otherwise(name, tmp_path):
    bench = bench_of(name, tmp_path)
    network = bench.trainer(bench.mlp(), callbacks=[SWA(1)]).train(3, bench.manager(10))
    assert_statistics(bench, network, bench.batches(10))


def test_they_are_those_of_update_bn_bit_for_bit(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    shared = torch.nn.BatchNorm1d(4)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), shared, torch.nn.ReLU(), torch.nn.Linear(4, 4), shared, torch.nn.Linear(4, 1)
    )
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.05), squared_error, verbose=0, callbacks=[SWA()])
    x = torch.from_numpy(INPUTS)
    batches = [(x[start : start + 5], torch.from_numpy(TARGETS)[start : start + 5]) for start in range(0, 24, 5)]
    trial.with_train_generator(batches).run(2)
    found = {name: value.clone() for name, value in net.state_dict().items()}
    torch.optim.swa_utils.update_bn(batches, net)
    for name, value in net.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(found[name], value), name


def deep(framework):
    """A network with dropout and two normalisations, the first of which is called twice."""
    if framework == "torch":
        torch = importlib.import_module("torch")

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.norm = torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)
                self.drop, self.last, self.head = torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)

            def forward(self, x):
                return self.head(self.last(self.drop(self.norm(torch.tanh(self.body(self.norm(x)))))))

        return Net()
    if framework == "tensorflow":
        keras = importlib.import_module("keras")
        norm, entry = keras.layers.BatchNormalization(), keras.Input((3,))
        hidden = norm(keras.layers.Dense(3, activation="tanh")(norm(entry)))
        last = keras.layers.BatchNormalization()(keras.layers.Dropout(0.3)(hidden))
        return keras.Model(entry, keras.layers.Dense(1)(last))
    nnx, jnp = importlib.import_module("flax.nnx"), importlib.import_module("jax.numpy")

    class JaxNet(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.body, self.norm = nnx.Linear(3, 3, rngs=rngs), nnx.BatchNorm(3, rngs=rngs)
            self.drop, self.last = nnx.Dropout(0.3, rngs=rngs), nnx.BatchNorm(3, rngs=rngs)
            self.head = nnx.Linear(3, 1, rngs=rngs)

        def __call__(self, x):
            return self.head(self.last(self.drop(self.norm(jnp.tanh(self.body(self.norm(x)))))))

    return JaxNet()


def deep_trial(framework, callback, **settings):
    need(framework)
    seed(framework, 0)
    net = deep(framework)
    settings = {"verbose": 0, "seed": 3, **settings}
    made = optimizer(framework, net, name="sgd")
    trial = delira.Trial(net, made, squared_error, ["loss"], [callback], **settings)
    return trial.with_train_data(INPUTS, TARGETS, batch_size=5)


def arrays_of(trial):
    backend = trial.trainer.backend
    tree = backend.arrays.snapshot(backend.checkpoints.state_tree(trial.state["model"], {})["model"])
    return {name: np.asarray(value) for name, value in backend.arrays.to_numpy(tree).items()}


def first_norm_by_hand(framework, arrays, batches):
    """Of a layer that sees the input and then what the body makes of its output: the mean over both calls."""
    ddof = 1 if framework == "torch" else 0
    kernel = next(value for name, value in arrays.items() if value.shape == (3, 3)).astype("f8")
    kernel = kernel.T if framework == "torch" else kernel
    spots = {"torch": "body.bias", "jax": "body.bias"}
    bias = arrays[spots[framework]] if framework in spots else _keras_body(arrays)
    gamma, beta, epsilon = _affine(framework, arrays)
    means, variances = [], []
    for x in batches:
        for _ in range(2):
            means.append(x.mean(0))
            variances.append(x.var(0, ddof=ddof))
            normed = (x - x.mean(0)) / np.sqrt(x.var(0) + epsilon) * gamma + beta
            x = np.tanh(normed @ kernel + bias)
    return np.mean(means, axis=0), np.mean(variances, axis=0)


def _keras_body(arrays):
    kernel = next(name for name, value in arrays.items() if value.shape == (3, 3))
    return arrays[kernel.replace("kernel", "bias")]


def _affine(framework, arrays):
    if framework == "torch":
        return arrays["norm.weight"], arrays["norm.bias"], 1e-5
    if framework == "jax":
        return arrays["norm.scale"], arrays["norm.bias"], 1e-5
    gammas = [name for name in arrays if "gamma" in name]
    return arrays[gammas[0]], arrays[gammas[0].replace("gamma", "beta")], 1e-3


@COMPILED_LATER
@IN_TRIALS
def test_in_a_trial_each_call_of_a_layer_counts_alike(framework):
    trial = deep_trial(framework, SWA())
    trial.run(2)
    arrays = arrays_of(trial)
    batches = [np.asarray(batch["x"], "f8") for batch in trial.data_of("train_data").epoch(3, 0, 2, shuffle=True)]
    expected = first_norm_by_hand(framework, arrays, batches)
    kinds = {"torch": ("norm.running_mean", "norm.running_var"), "jax": ("norm.mean", "norm.var")}
    for kind, value in zip(kinds.get(framework, ("moving_mean", "moving_variance")), expected, strict=True):
        first = next(name for name in arrays if name.endswith(kind))
        np.testing.assert_allclose(arrays[first], value, rtol=1e-4, atol=1e-5)


# ---- who sees them, and where they are


def mse(y_true, y_pred):
    return float(np.mean((np.asarray(y_true) - np.asarray(y_pred)) ** 2))


@COMPILED_LATER
@BACKENDS
def test_what_is_validated_is_what_is_selected_saved_and_given_back(name, tmp_path):
    bench = bench_of(name, tmp_path)
    settings = {"val_metrics": {"off": mse}, "val_score_key": "off", "val_score_mode": "min", "save_freq": 1}
    trainer = bench.trainer(bench.mlp(), callbacks=[average()], **settings)
    network = trainer.train(4, bench.shuffled(10), bench.manager(8, seed=1))
    best = trainer.state.best_score
    arrays = bench.arrays(8, seed=1)
    assert mse(arrays["label"], trainer.predict(arrays)["pred"]) == pytest.approx(best, rel=1e-6)
    tree = trainer.load_state(trainer.checkpoints.path("best"))
    bench.assert_same(model_of(bench, network), bench.backend.arrays.to_numpy(tree["model"]), "the best checkpoint")
    for record in trainer.state.history:
        other = bench.mlp()
        kept = trainer.load_state(trainer.checkpoints.path(f"epoch_{record['epoch']}"))
        bench.backend.checkpoints.load_state_tree({"model": kept["model"]}, other, {})
        predictor = delira.training.Predictor(other, backend=bench.backend)
        assert mse(arrays["label"], predictor.predict(arrays)["pred"]) == pytest.approx(record["val_off"], rel=1e-6)
        assert_statistics(bench, other, list(bench.shuffled(10).epoch(0, 0, record["epoch"], shuffle=True)))


def test_without_validation_the_last_checkpoint_has_them(tmp_path):
    bench = bench_of("torch", tmp_path)
    trainer = bench.trainer(bench.mlp(), callbacks=[average()])
    trainer.train(3, bench.manager(10))
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    bench.assert_same(
        model_of(bench, trainer.module), bench.backend.arrays.to_numpy(tree["model"]), "the last checkpoint"
    )
    assert not np.array_equal(tree["model"]["norm.running_mean"], tree["training_model"]["norm.running_mean"])


class CountPasses:
    """Data that count how often they are gone through."""

    def __init__(self, data):
        self.data, self.number = data, 0

    def __iter__(self):
        self.number += 1
        return iter(self.data)

    def __len__(self):
        return len(self.data)


@pytest.mark.parametrize(("validated", "every", "passes"), [(False, 1, 1), (True, 1, 4), (True, 2, 2), (True, 3, 2)])
def test_there_is_one_pass_for_each_validation_and_one_at_the_end(tmp_path, validated, every, passes):
    bench = bench_of("torch", tmp_path)
    data = CountPasses(bench.batches(10))
    trainer = bench.trainer(bench.mlp(), callbacks=[average()], val_freq=every)
    trainer.train(4, data, bench.manager(8) if validated else None)
    assert data.number == 4 + passes
    trainer.train(4, data, bench.manager(8) if validated else None)  # it is finished
    assert data.number == 4 + passes


def test_before_the_first_epoch_that_counts_there_is_no_pass(tmp_path):
    bench = bench_of("torch", tmp_path)
    data = CountPasses(bench.batches(10))
    bench.trainer(bench.mlp(), callbacks=[SWA(2)]).train(4, data, bench.manager(8))
    assert data.number == 4 + 2


# ---- restarts


class Broken(BaseException):
    """The process ends here."""


class EndAt(AbstractCallback):
    """End the process at a moment of an epoch."""

    only_watches = True

    def __init__(self, moment, epoch, step=None):
        self.moment, self.epoch, self.step = moment, epoch, step

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (self.moment, self.epoch, self.step) == ("step", curr_epoch, iter_num):
            raise Broken

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        if (self.moment, self.epoch) == ("end", curr_epoch):
            raise Broken


@pytest.mark.sampled("pairs")
@COMPILED_LATER
@BACKENDS
@pytest.mark.parametrize("where", [("step", 2, 1), ("step", 3, 2), ("end", 3)], ids=str)
@pytest.mark.parametrize("validated", [True, False])
def test_a_run_that_was_killed_ends_with_the_same_bits(name, where, validated, tmp_path):
    bench = bench_of(name, tmp_path)

    def trainer(folder, *more):
        settings = {"val_metrics": {"off": mse}, "save_freq_steps": 2, "seed": 1}
        return bench.trainer(bench.mlp(dropout=0.3), tmp_path / folder, callbacks=[average(), *more], **settings)

    data = bench.shuffled(10), bench.manager(8) if validated else None
    whole = trainer("whole")
    whole.train(3, *data)
    with pytest.raises(Broken):
        trainer("broken", EndAt(*where)).train(3, *data)
    resumed = trainer("broken")
    resumed.train(3, *data)
    bench.assert_same(resumed.checkpoint_tree(), whole.checkpoint_tree(), "the checkpoint")
    bench.assert_same(model_of(bench, resumed.module), model_of(bench, whole.module), "the network")
    again = trainer("broken")
    again.train(3, *data)
    bench.assert_same(model_of(bench, again.module), model_of(bench, whole.module), "a finished run")


def test_a_signal_before_the_last_pass_leaves_it_to_the_next_session(tmp_path):
    bench = bench_of("torch", tmp_path)

    class Stop(AbstractCallback):
        only_watches = True

        def at_epoch_end(self, trainer, *, curr_epoch, **facts):
            if curr_epoch == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    whole = bench.trainer(bench.mlp(), tmp_path / "whole", callbacks=[average()])
    whole.train(2, bench.manager(10))
    with pytest.raises(delira.errors.TrainingInterrupted):
        bench.trainer(bench.mlp(), tmp_path / "run", callbacks=[average(), Stop()]).train(2, bench.manager(10))
    resumed = bench.trainer(bench.mlp(), tmp_path / "run", callbacks=[average()])
    resumed.train(2, bench.manager(10))
    bench.assert_same(model_of(bench, resumed.module), model_of(bench, whole.module), "the network")
    tree = resumed.load_state(resumed.checkpoints.path("last"))
    bench.assert_same(
        bench.backend.arrays.to_numpy(tree["model"]), model_of(bench, whole.module), "the last checkpoint"
    )


def test_the_number_of_workers_changes_nothing(tmp_path):
    bench, found = bench_of("torch", tmp_path), []
    for workers in (0, 2):
        trainer = bench.trainer(bench.mlp(), callbacks=[average()])
        network = trainer.train(2, bench.shuffled(12, n_process_augmentation=workers), bench.manager(8))
        found.append(model_of(bench, network))
    bench.assert_same(*found, "the network")


# ---- trials


@COMPILED_LATER
@IN_TRIALS
@pytest.mark.parametrize("with_folder", [True, False])
def test_a_trial_in_two_runs_is_a_trial_in_one(framework, with_folder, tmp_path):
    ends = []
    for stops in ((4,), (2, 4)):
        folder = {"save_path": tmp_path / str(len(stops))} if with_folder else {}
        trial = deep_trial(framework, SWA(), **folder)
        for stop in stops:
            history = trial.run(stop)
        ends.append(({name: [record[name] for record in history] for name in ("loss",)}, arrays_of(trial)))
    assert ends[0][0] == ends[1][0]
    for name, value in ends[0][1].items():
        np.testing.assert_array_equal(value, ends[1][1][name], err_msg=name)


@COMPILED_LATER
@IN_TRIALS
def test_the_state_of_a_trial_has_them_and_goes_on(framework, tmp_path):
    trial, twin, third = (deep_trial(framework, SWA()) for _ in range(3))
    trial.run(2)
    kept, path = trial.state_dict(), trial.save(tmp_path / "kept")
    for name, value in arrays_of(trial).items():
        np.testing.assert_array_equal(value, np.asarray(trial.trainer.backend.arrays.to_numpy(kept["model"][name])))
    trial.run(4)
    for other in (twin.load_state_dict(kept), third.load(path)):
        other.run(4)
        for name, value in arrays_of(trial).items():
            np.testing.assert_array_equal(value, arrays_of(other)[name], err_msg=name)


def test_a_loader_with_a_generator_of_its_own_goes_on_as_without_the_pass():
    torch = pytest.importorskip("torch")
    histories = []
    for update in (True, False):
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(TARGETS))
        loader = torch.utils.data.DataLoader(data, 5, shuffle=True, generator=torch.Generator().manual_seed(1))
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
        trial = delira.Trial(
            net, torch.optim.SGD(net.parameters(), 0.05), squared_error, ["loss"], [average(update)], 0, seed=0
        )
        trial.with_train_generator(loader).with_val_generator(loader)
        histories.append([record["loss"] for record in trial.run(4)])
    assert histories[0] == histories[1]


def test_endless_steps_are_gone_through_as_often_as_they_were():
    torch = pytest.importorskip("torch")
    from delira.state import STOP_TRAINING
    from delira.training.callbacks import on_step_training

    steps = []

    @on_step_training
    def stop(state):
        steps.append(1)
        state[STOP_TRAINING] = len(steps) == 7

    net = torch.nn.BatchNorm1d(3)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.05), squared_error, [], [SWA(), stop], 0)
    trial.with_train_data(INPUTS[:20], INPUTS[:20], batch_size=5, shuffle=False).for_inf_steps(val=False, test=False)
    trial.run(1)
    batches = [INPUTS[:20][start : start + 5] for start in (0, 5, 10, 15, 0, 5, 10)]
    np.testing.assert_allclose(net.running_mean, np.mean([one.mean(0) for one in batches], axis=0), rtol=1e-5)


def test_a_network_gets_what_callbacks_of_evaluations_make_of_a_batch():
    torch = pytest.importorskip("torch")
    from delira.state import Y_PRED, X
    from delira.training.callbacks import UnpackState

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, entries):
            return {Y_PRED: self.norm(entries[X])}

    net = Net()
    made = torch.optim.SGD(net.parameters(), 0.05)
    trial = delira.Trial(net, made, squared_error, [], [UnpackState([X]), SWA()], 0)
    trial.with_train_data(INPUTS, INPUTS, batch_size=6, shuffle=False).run(1)
    np.testing.assert_allclose(
        net.norm.running_mean, np.mean(INPUTS.reshape(4, 6, 3).mean(1), axis=0), rtol=1e-4, atol=1e-6
    )


# ---- what is said where there is no pass


@pytest.mark.sampled("half")
@BACKENDS
def test_it_is_said_once_at_the_start_where_it_is_not_made(name, tmp_path, caplog):
    bench = bench_of(name, tmp_path)
    with caplog.at_level(logging.WARNING, "delira"):
        trainer = bench.trainer(bench.mlp(), callbacks=[ExponentialMovingAverage(0.7)])
        trainer.train(3, bench.manager(10), bench.manager(8))
    (text,) = said(caplog)
    assert text.startswith(
        "ExponentialMovingAverage: the averaged weights are validated, tested and saved with running"
    )
    assert "update_statistics=True" in text
    assert sorted(bench.backend.weights.statistics_names(trainer.module))[0] in text


@pytest.mark.parametrize("callback", [lambda: SWA(), lambda: average(), None], ids=["swa", "ema", "none"])
def test_nothing_is_said_where_it_is_made_or_nothing_is_averaged(callback, tmp_path, caplog):
    bench = bench_of("torch", tmp_path)
    with caplog.at_level(logging.WARNING, "delira"):
        trainer = bench.trainer(bench.mlp(), callbacks=[callback()] if callback else [])
        trainer.train(2, bench.manager(10), bench.manager(8))
    assert not said(caplog)
    assert trainer.raw_statistics == ()


def test_nothing_is_said_of_a_network_without_statistics(tmp_path, caplog):
    bench = bench_of("torch", tmp_path)
    with caplog.at_level(logging.WARNING, "delira"):
        trainer = bench.trainer(callbacks=[average(False)])
        trainer.train(2, bench.manager(10), bench.manager(8))
    assert not said(caplog)
    assert trainer.raw_statistics == ()


def test_batches_that_come_once_are_named_as_the_cause(tmp_path, caplog):
    bench = bench_of("torch", tmp_path)
    with caplog.at_level(logging.WARNING, "delira"):
        trainer = bench.trainer(bench.mlp(), callbacks=[SWA()])
        trainer.train(1, iter(bench.batches(10)))
    (text,) = said(caplog)
    assert "a list_iterator, give their batches once" in text
    assert trainer.raw_statistics == ("norm.running_mean", "norm.running_var")


def result_of(bench, callbacks, cls, folder):
    experiment = bench.experiment(cls=cls)
    result = experiment.kfold(bench.manager(16), {"off": mse}, num_splits=2, callbacks=callbacks)
    return result, KFoldResult.load(result.path)


def test_a_result_says_so_and_so_does_a_stored_one(tmp_path):
    bench = bench_of("torch", tmp_path)
    for result in result_of(bench, [ExponentialMovingAverage(0.7)], bench.tested.Mlp, tmp_path):
        (text,) = [text for text in result.warnings if SAID in text]
        assert text.startswith("fold 0, 1: tested with averaged weights with running statistics (norm.running_mean")
        assert SAID in str(result)
        assert SAID in result.to_html()


@pytest.mark.parametrize(
    ("callback", "cls"), [(SWA(), "Mlp"), (average(), "Mlp"), (average(False), "Linear")], ids=["swa", "ema", "linear"]
)
def test_a_result_says_nothing_where_all_is_right(callback, cls, tmp_path):
    bench = bench_of("torch", tmp_path)
    for result in result_of(bench, [callback], getattr(bench.tested, cls), tmp_path):
        assert not [text for text in result.warnings if SAID in text]


def test_a_stored_single_training_says_so(tmp_path):
    bench = bench_of("torch", tmp_path)
    for update in (False, True):
        experiment = bench.experiment(cls=bench.tested.Mlp)
        experiment.run(bench.manager(8), callbacks=[average(update)])
        texts = KFoldResult.load(experiment.save_path).warnings
        assert [text.startswith("the network has averaged") for text in texts if SAID in text] == [True] * (not update)


def test_a_fold_that_is_tested_has_statistics_of_its_training_part(tmp_path):
    bench = bench_of("torch", tmp_path)
    result, _ = result_of(bench, [SWA()], bench.tested.Mlp, tmp_path)
    for fold in result.folds:
        tree = bench.tested.trainer_cls.load_state(fold.path / "checkpoints" / "checkpoint_last.pt")
        other = bench.mlp()
        bench.backend.checkpoints.load_state_tree({"model": tree["model"]}, other, {})
        data = bench.manager(16).get_subset(fold.train_indices)
        assert_statistics(bench, other, list(data.epoch(0, fold.fold, 2, shuffle=True)))


# ---- what cannot be computed anew


def test_a_traced_network_is_refused_by_name_with_the_cure():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, about its own layers
        traced = torch.jit.trace(torch.nn.Sequential(torch.nn.BatchNorm1d(3)), torch.from_numpy(INPUTS))
    net = torch.nn.Sequential(traced, torch.nn.Linear(3, 1))
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.05), squared_error, [], [SWA()], 0)
    with pytest.raises(ConfigError, match=r"statistics of 0.0 cannot .* torch.jit.trace .* update_statistics=False"):
        trial.with_train_data(INPUTS, TARGETS, batch_size=5).run(1)


def test_layers_that_do_not_follow_the_data_stay_as_they_are():
    torch = pytest.importorskip("torch")
    from delira.backends.torch.backend import BACKEND

    net = torch.nn.Sequential(
        torch.nn.BatchNorm1d(3, momentum=0.0),
        torch.nn.BatchNorm1d(3, track_running_stats=False),
        torch.nn.BatchNorm1d(3),
    )
    unused = torch.nn.ModuleDict({"net": net, "never": torch.nn.BatchNorm1d(3)})
    unused["never"].running_mean.fill_(7.0)
    names = BACKEND.weights.statistics_names(unused)
    assert names == {f"{place}.{kind}" for place in ("net.2", "never") for kind in ("running_mean", "running_var")}
    before = {name: value.clone() for name, value in unused.state_dict().items()}
    x = torch.from_numpy(INPUTS)
    with BACKEND.calls.training(unused):
        BACKEND.weights.renew_statistics(unused, [lambda: net(x[:12]), lambda: net(x[12:])])
    changed = {name for name, value in unused.state_dict().items() if not torch.equal(value, before[name])}
    assert {name for name in changed if "num_batches" not in name} == {"net.2.running_mean", "net.2.running_var"}
    assert [layer.momentum for layer in net] == [0.0, 0.1, 0.1]


def test_instance_normalisation_is_renewed_too():
    torch = pytest.importorskip("torch")
    from delira.backends.torch.backend import BACKEND

    rng = np.random.default_rng(0)
    batches = [torch.from_numpy(rng.normal(size=(n, 2, 9)).astype("f4")) for n in (4, 3)]
    for net in (norm := torch.nn.InstanceNorm1d(2, track_running_stats=True), torch.jit.script(norm)):
        with BACKEND.calls.training(net):
            BACKEND.weights.renew_statistics(net, [lambda x=x, net=net: net(x) for x in batches])
        expected = np.mean([x.numpy().mean(axis=(0, 2)) for x in batches], axis=0)
        np.testing.assert_allclose(net.running_mean, expected, rtol=1e-4, atol=1e-6)
        variance = np.mean([x.numpy().var(axis=2, ddof=1).mean(0) for x in batches], axis=0)
        np.testing.assert_allclose(net.running_var, variance, rtol=1e-4)


def test_layers_without_a_shape_get_their_statistics_when_they_have_one():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.LazyBatchNorm1d(), torch.nn.Linear(3, 1))
    trial = delira.Trial(net, torch.optim.SGD(net[1].parameters(), 0.05), squared_error, [], [SWA()], 0)
    trial.with_train_data(INPUTS, TARGETS, batch_size=8).run(2)
    np.testing.assert_allclose(net[0].running_mean, INPUTS.mean(0), rtol=1e-4, atol=1e-6)
