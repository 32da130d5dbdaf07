"""What users do with a backend: callbacks, experiments, weights and files for other programs, and mistakes."""

import copy
import functools
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.callbacks import EarlyStopping
from delira.callbacks.abstract_callback import EVENTS
from delira.errors import CheckpointError, ConfigError, DataError, MissingKeyError, NetworkError
from delira.io import export
from delira.models import load_named_weights, named_weights
from delira.testing.spec.bench import Bench, Broken, Sgd, break_off, caught, descend, rmse
from delira.testing.spec.check import REFUSALS, check, demand_refusal
from delira.training import Predictor
from delira.utils.arrays import iterate_leaves

# ------------------------------------------------------------------ events
# Callbacks see the same events, in the same order, with the same facts.


class Recorder:
    """Keeps every event with its facts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for event in EVENTS:
            setattr(self, event, functools.partial(self._note, event))

    def _note(self, event: str, trainer: object, **facts: Any) -> None:
        self.calls.append((event, facts))

    def facts(self, event: str) -> list[dict[str, Any]]:
        """Facts of every event of a kind."""
        return [facts for name, facts in self.calls if name == event]


@check("events", "steps")
def tells_events_in_order(bench: Bench) -> None:
    """Six events in order: training begins; each epoch begins, its steps begin and end, it ends; training ends."""
    recorder = Recorder()
    bench.trained(2, None, bench.manager(), callbacks=[recorder])
    step = ["at_iter_begin", "at_iter_end"]
    epoch = ["at_epoch_begin", *step * 2, "at_epoch_end"]
    found = [name for name, _ in recorder.calls]
    assert found == ["at_training_begin", *epoch * 2, "at_training_end"], f"the events were {found}"


@check("events", "gradients")
def tells_the_facts(bench: Bench) -> None:
    """Every event comes with the facts that are documented, and no others."""
    recorder = Recorder()
    metrics = {"again": bench.tested.mse}
    trainer = bench.trained(2, None, bench.manager(), "mse", callbacks=[recorder], train_metrics=metrics)
    assert recorder.facts("at_training_begin") == [{"num_epochs": 2, "num_batches": 2}]
    assert recorder.facts("at_training_end") == [{"error": None}]
    first = recorder.facts("at_epoch_begin")[0]
    assert first == {"curr_epoch": 1, "num_epochs": 2, "val_metrics": {}, "val_score_key": "val_mse"}, f"{first}"
    begun, ended = recorder.facts("at_iter_begin"), recorder.facts("at_iter_end")
    expected = [(1, 0, 0), (1, 1, 1), (2, 0, 2), (2, 1, 3)]
    found = [(facts["curr_epoch"], facts["iter_num"], facts["global_iter_num"]) for facts in begun]
    assert found == expected, f"epoch, step and step of the run were {found}"
    names = {"iter_num", "global_iter_num", "curr_epoch", "data_dict", "train"}
    for facts in begun:
        assert facts.keys() == names, f"at_iter_begin has {sorted(facts)}"
        assert facts["data_dict"].keys() == {"data", "label", "number"}, f"a batch has {sorted(facts['data_dict'])}"
    for facts in ended:
        assert facts.keys() == names | {"losses", "metrics", "predictions"}, f"at_iter_end has {sorted(facts)}"
        found_names = [set(facts[name]) for name in ("losses", "metrics", "predictions")]
        assert found_names == [{"mse"}, {"again"}, {"pred"}], f"losses, metrics, predictions have {found_names}"
    for number, facts in enumerate(recorder.facts("at_epoch_end"), 1):
        values = {name: value for name, value in trainer.state.history[number - 1].items() if name != "epoch"}
        assert values.keys() == {"mse", "again", "val_mse", "lr"}, f"an epoch has the values {sorted(values)}"
        assert (facts["curr_epoch"], facts["num_epochs"], facts["val_score_key"]) == (number, 2, "val_mse")
        assert facts["metrics"] == facts["val_metrics"] == values, f"at_epoch_end was told {facts['metrics']}"
        assert isinstance(facts["is_best"], bool)


@check("events", "gradients")
def tells_the_values_of_a_step(bench: Bench) -> None:
    """At the end of a step, losses and predictions are those of this step, before its update; the weights after it."""
    dense, optimizer, batches = bench.dense(), Sgd(0.1, 0.5), iter(bench.batches())

    def look(trainer: Any, *, losses: Any, predictions: Any, **facts: Any) -> None:
        expected_losses, expected = descend(dense, [next(batches)], optimizer)
        bench.assert_close(bench.backend.arrays.to_numpy(predictions)["pred"], expected[0], "the prediction of a step")
        found = bench.backend.arrays.read_scalars([losses["mse"]])
        bench.assert_close(found[0], expected_losses[0], "the loss of a step")
        bench.assert_close(bench.tested.read(trainer.module)[0], dense.weight, "the weight after a step")

    bench.trained(callbacks=[SimpleNamespace(at_iter_end=look)])
    assert next(batches, None) is None, "a step was not told"


@check("events")
def tells_the_end_of_a_failure(bench: Bench) -> None:
    """A training that fails tells its end with the error, and raises that very error."""
    recorder = Recorder()
    callbacks = [recorder, SimpleNamespace(at_epoch_begin=break_off)]
    error = caught(Broken, lambda: bench.trained(callbacks=callbacks))
    ends = recorder.facts("at_training_end")
    assert ends == [{"error": error}], f"the end was told {ends}"


@check("events", "steps")
def stops_early(bench: Bench) -> None:
    """``EarlyStopping`` ends the training after its patience, and the epoch is whole."""
    stopping = EarlyStopping("rmse", min_delta=1e9, patience=2)
    trainer = bench.trained(9, None, bench.manager(), callbacks=[stopping], val_metrics={"rmse": rmse})
    assert (trainer.state.epoch, len(trainer.state.history)) == (3, 3), f"it stopped after epoch {trainer.state.epoch}"
    assert trainer.state.step_in_epoch == 0, "it stopped inside an epoch"


@check("events", "steps")
def stops_when_told(bench: Bench) -> None:
    """A callback that sets ``stop_training`` inside an epoch ends the training after that epoch."""

    def stop(trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        if curr_epoch == 2:
            trainer.stop_training = True

    trainer = bench.trained(9, callbacks=[SimpleNamespace(at_iter_begin=stop)])
    assert (trainer.state.epoch, trainer.state.global_step) == (2, 4), f"it stopped at step {trainer.state.global_step}"
    assert (trainer.save_path / "checkpoints" / f"checkpoint_last{bench.backend.checkpoint_suffix}").exists()


@check("events", "gradients")
def lets_callbacks_change_a_batch(bench: Bench) -> None:
    """What a callback changes in a batch before its step is what the step learns from."""

    def shift(trainer: object, *, data_dict: Any, **facts: Any) -> None:
        data_dict["label"] = data_dict["label"] + 1

    trainer = bench.trained(callbacks=[SimpleNamespace(at_iter_begin=shift)])
    batches = [{**batch, "label": batch["label"] + 1} for batch in bench.batches()]
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, batches))


@check("events")
def changes_nothing_by_listening(bench: Bench) -> None:
    """A callback that only listens does not change the bits of a training."""
    heard, unheard = (
        bench.trained(2, bench.shuffled(), bench.manager(), callbacks=callbacks) for callbacks in ([Recorder()], [])
    )
    bench.assert_same(bench.state(heard), bench.state(unheard), "trainings with and without a listening callback")


# ------------------------------------------------------------------ experiments
# Experiments: runs, tests and cross-validations with fresh networks.


def _kfold(bench: Bench, experiment: Any = None, **options: Any) -> Any:
    experiment = experiment or bench.experiment(val_metrics={"rmse": rmse})
    given = {"num_splits": 2, "val_split": None, "shuffle": True, "random_seed": 1, **options}
    return experiment.kfold(bench.shuffled(12), metrics={"rmse": rmse}, **given)


@check("experiments")
def runs_and_tests(bench: Bench) -> None:
    """``run`` returns a trained network, and ``test`` its predictions and exact metrics."""
    experiment = bench.experiment(model={"n_features": 3}, num_epochs=4)
    network = experiment.run(bench.manager(12))
    assert isinstance(network, bench.tested.Linear), f"run returned a {type(network).__name__}"
    predictions, metrics = experiment.test(network, bench.manager(10), metrics={"rmse": rmse})
    pred, arrays = predictions["pred"], bench.arrays(10)
    assert pred.shape == (10, 1)
    bench.assert_close(pred, Predictor(network).predict(arrays)["pred"], "the predictions", factor=0.1)
    bench.assert_close(metrics["rmse"], [rmse(arrays["label"], pred)], "the metric")


@check("experiments")
def repeats_runs(bench: Bench) -> None:
    """Two runs of an experiment build the same network and train it to the same bits; its parameters stay."""
    experiment = bench.experiment(seed=4)
    before = str(experiment.params)
    first, second = (bench.tree(experiment.run(bench.shuffled())) for _ in range(2))
    bench.assert_same(first, second, "two runs of an experiment")
    assert str(experiment.params) == before, "a run changed the experiment's parameters"


@check("experiments")
def resumes_runs(bench: Bench) -> None:
    """A run that is continued by its folder is, bit for bit, one that went on."""
    experiment = bench.experiment(seed=4)
    whole = experiment.run(bench.shuffled(), num_epochs=2)
    experiment.run(bench.shuffled(), num_epochs=1)
    continued = experiment.run(bench.shuffled(), num_epochs=2, resume=experiment.last_trainer.save_path.parent)
    bench.assert_same(bench.tree(whole), bench.tree(continued), "an unbroken run and a continued one")


@check("experiments")
def divides_samples(bench: Bench) -> None:
    """Every sample is tested once, by a network that was not trained on it."""
    result = _kfold(bench)
    tested = np.concatenate([fold.test_indices for fold in result.folds])
    assert sorted(tested) == list(range(12)), f"tested were {sorted(tested.tolist())}"
    for fold in result.folds:
        both = {*fold.train_indices} & {*fold.test_indices}
        assert not both, f"fold {fold.fold} was trained and tested on {sorted(both)}"
    assert result.oof.mask.all(), f"the out-of-fold predictions lack {np.flatnonzero(~result.oof.mask).tolist()}"


@check("experiments")
def predicts_out_of_fold(bench: Bench) -> None:
    """Out-of-fold predictions are aligned with the data, and the folds' metrics are exact."""
    result = _kfold(bench)
    for fold in result.folds:
        label, pred = bench.arrays(12)["label"], fold.predictions["pred"]
        together = result.oof.predictions["pred"][fold.test_indices]
        bench.assert_same(together, pred, f"the out-of-fold predictions of fold {fold.fold}")
        bench.assert_close(fold.metrics["rmse"], [rmse(label[fold.test_indices], pred)], f"rmse of fold {fold.fold}")


@check("experiments")
def unpacks_as_ever(bench: Bench) -> None:
    """A cross-validation unpacks as ``outputs, metrics``, dicts with the folds "0" and "1" as keys."""
    outputs, metrics = result = _kfold(bench)
    assert list(outputs) == list(metrics) == ["0", "1"], f"the keys are {list(outputs)}"
    for number, fold in enumerate(result.folds):
        bench.assert_same(outputs[str(number)]["pred"], fold.predictions["pred"], f"the outputs of fold {number}")


@check("experiments")
def repeats_cross_validations(bench: Bench) -> None:
    """A cross-validation of one seed gives the same bits again."""
    for left, right in zip(_kfold(bench).folds, _kfold(bench).folds, strict=True):
        bench.assert_same(left.predictions, right.predictions, f"the predictions of fold {left.fold}")
        bench.assert_same(left.history, right.history, f"the history of fold {left.fold}")


@check("experiments")
def begins_each_fold_anew(bench: Bench) -> None:
    """Each fold trains a fresh network: its bits are those of a run on its samples alone."""
    experiment = bench.experiment(seed=4)
    fold = _kfold(bench, experiment, random_seed=None, num_epochs=2).folds[1]
    trained, tested = (
        {name: array[rows] for name, array in bench.arrays(12).items()}
        for rows in (np.sort(fold.train_indices), fold.test_indices)
    )
    network = experiment.run(bench.shuffled(arrays=trained), fold=1, num_epochs=2)
    predictions, _ = experiment.test(network, [tested])
    bench.assert_close(predictions["pred"], fold.predictions["pred"], "the predictions of a run alone", factor=0.1)


@check("experiments")
def records_every_fold(bench: Bench) -> None:
    """Every fold has its number, history, checkpoint and parameters."""
    for number, fold in enumerate(_kfold(bench, val_split=0.25).folds):
        assert fold.fold == number, f"fold {number} is called {fold.fold}"
        assert fold.history, f"fold {number} has no history"
        both = {*(fold.val_indices if fold.val_indices is not None else fold.test_indices)} & {*fold.test_indices}
        assert not both, f"fold {number} was validated and tested on {sorted(both)}"
        assert "val_rmse" in fold.history[-1], f"fold {number} was not validated: {fold.history[-1]}"
        last = fold.path / "checkpoints" / f"checkpoint_last{bench.backend.checkpoint_suffix}"
        tree = bench.backend.checkpoints.read(last)
        assert tree["state"]["fold"] == number, f"the checkpoint of fold {number} says {tree['state']['fold']}"


@check("experiments")
def leaves_no_state_behind(bench: Bench) -> None:
    """A network that experiments trained shares no array with a network of a later run."""
    experiment = bench.experiment(seed=4)
    first = experiment.run(bench.shuffled())
    with bench.unchanged(lambda: bench.tree(first), "a network after a later run"):
        experiment.run(bench.shuffled(), seed=5)
    assert list(iterate_leaves(bench.tree(first))), "the state of the network is empty"


# ------------------------------------------------------------------ weights
# Weights by name, and networks as files for other programs.


@check("weights", "named_weights")
def names_weights(bench: Bench) -> None:
    """Weights have names, are arrays of numpy, and give another network the same predictions."""
    trainer = bench.trained()
    weights = named_weights(trainer.module)
    assert weights, "the network has no weights by name"
    for name, array in weights.items():
        assert isinstance(name, str), f"a name is {name!r}"
        assert isinstance(array, np.ndarray), f"{name} is a {type(array).__name__}"
    if bench.is_differentiable:
        other = bench.trainer()
        load_named_weights(other.module, weights)
        bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "the predictions")


@check("weights", "gradients", "named_weights")
def copies_weights(bench: Bench) -> None:
    """Weights by name are copies: neither side changes the other."""
    network = bench.linear()
    weights = named_weights(network)
    kept = copy.deepcopy(weights)
    bench.trained(network=network)
    bench.assert_same(weights, kept, "weights by name after training")
    load_named_weights(network, weights)
    for array in weights.values():
        array[...] = 0
    bench.assert_same(named_weights(network), kept, "the network after its given weights changed")


@check("weights", "gradients", "named_weights")
def names_weights_steadily(bench: Bench) -> None:
    """Two networks of a class have the same names, whatever was built before."""
    first, _, second = (list(named_weights(bench.linear())) for _ in range(3))
    assert first == second, f"the names are {first} and then {second}"


@check("weights", "gradients", "named_weights")
def refuses_other_weights(bench: Bench) -> None:
    """Weights that are missing, unknown, of another shape or type are refused, by name, and nothing changes."""
    network = bench.linear()
    right = named_weights(network)
    name = next(iter(right))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({other: array for other, array in right.items() if other != name}, name),
        ({**right, "nobody": np.zeros(1)}, "nobody"),
        ({**right, name: np.zeros((7, 7), right[name].dtype)}, name),
        ({**right, name: right[name].astype(np.complex128)}, name),
    ]
    for weights, named in wrong:
        changed = {key: array + 1 if key != name else array for key, array in weights.items()}
        caught(CheckpointError, functools.partial(load_named_weights, network, changed), named)
        bench.assert_same(named_weights(network), right, "the weights after others were refused")


@check("weights", "gradients", "named_weights")
def trains_given_weights(bench: Bench) -> None:
    """Weights that were given after the trainer was built are those that it trains on."""
    left, right = bench.trainer(), bench.trainer()
    given = {name: array * 2 for name, array in named_weights(left.module).items()}
    load_named_weights(left.module, given)
    load_named_weights(right.module, given)
    start, _ = bench.tested.read(left.module)
    for trainer in (left, right):
        trainer.train(1, bench.manager())
    assert not np.array_equal(start, bench.tested.read(left.module)[0]), "the given weights were not trained"
    bench.assert_same(named_weights(left.module), named_weights(right.module), "the trained weights")


@check("weights", "export")
def exports_what_it_predicts(bench: Bench) -> None:
    """An exported network predicts without delira what it predicts here, for any number of samples."""
    trainer = bench.trained()
    network = trainer.module
    with bench.unchanged(lambda: bench.tree(network), "the network after its export"):
        for suffix in bench.tested.exports:
            path = export(network, bench.folder / f"exported{suffix}", bench.arrays(4))
            for n in (4, 7, 1):
                x = bench.arrays(n, seed=3)["data"].astype(np.float32)
                found, expected = bench.tested.run_exported(path, {"x": x}), trainer.predict({"data": x})
                bench.assert_close(found["pred"], expected["pred"], f"what {suffix} predicts of {n} samples")


@check("weights", "gradients", "export", "dropout")
def exports_evaluation(bench: Bench) -> None:
    """An exported network drops nothing, and the network keeps its mode."""
    network = bench.linear(dropout=0.5)
    mode = bench.tested.is_learning(network)
    path = export(network, bench.folder / f"exported{bench.tested.exports[0]}", bench.arrays(4))
    x = bench.arrays(4)["data"].astype(np.float32)
    found = bench.tested.run_exported(path, {"x": x})
    bench.assert_close(found["pred"], bench.dense()(x), "what an exported network with dropout predicts")
    assert bench.tested.is_learning(network) is mode, "the export kept the mode"


# ------------------------------------------------------------------ errors
# Mistakes are refused early, in words that say what to do.


@check("errors")
def refuses_what_it_lacks(bench: Bench) -> None:
    """What the backend does not offer is refused when a user asks for it, and never ignored."""
    for feature in bench.tested.lacks:
        if feature in REFUSALS:
            demand_refusal(bench, feature)


@check("errors")
def refuses_unknown_settings(bench: Bench) -> None:
    """Unknown settings are refused, all in one message, each with a guess."""
    caught(ConfigError, lambda: bench.trainer(vall_metrics={}, sead=1), "vall_metrics", "val_metrics", "sead", "seed")
    caught(ConfigError, lambda: bench.experiment(vall_metrics={}), "vall_metrics", "val_metrics")


@check("errors", "gradients")
def refuses_to_train_without_losses(bench: Bench) -> None:
    """The default closure without a loss is refused."""
    caught(ConfigError, lambda: bench.trainer(losses={}), "losses")


@check("errors", "gradients")
def refuses_to_train_without_an_optimizer(bench: Bench) -> None:
    """Settings without an optimizer are refused, or the backend has a default one."""
    settings = dict.fromkeys(bench.tested.sgd(0.1))
    try:
        names = sorted(bench.trainer(**settings).optimizers)
    except ConfigError as error:
        names = ["default"] if "optimizer" in str(error) else [str(error)]
    assert names == ["default"], f"without an optimizer there are {names}"


@check("errors", "gradients")
def refuses_wrong_optimizer_arguments(bench: Bench) -> None:
    """Arguments that the optimizer does not take are refused, before training, by name."""
    params = {"lr": 0.1, "no_such_argument": 1}
    caught((ConfigError, TypeError, ValueError), lambda: bench.trainer(optimizer_params=params), "no_such_argument")


@check("errors", "gradients")
def names_missing_entries(bench: Bench) -> None:
    """A batch without what the loss reads is refused before the first step; the error says who reads what."""
    arrays = bench.arrays()
    data = bench.manager(arrays={"data": arrays["data"], "target": arrays["label"]})
    caught(MissingKeyError, lambda: bench.trained(1, data), "'mse'", "'label'", "loss_keys")


@check("errors")
def names_missing_inputs(bench: Bench) -> None:
    """A batch without what the network reads is refused; the error names ``key_mapping``."""
    arrays = bench.arrays()
    data = bench.manager(arrays={"image": arrays["data"], "label": arrays["label"]})
    caught(MissingKeyError, lambda: bench.trained(1, data), "'data'", "key_mapping")


@check("errors", "gradients")
def refuses_wrong_key_mappings(bench: Bench) -> None:
    """A ``key_mapping`` that names no argument of the network, or no entry of the batch, is refused."""
    caught((ConfigError, MissingKeyError), lambda: bench.trained(key_mapping={"x": "nothing"}), "nothing")
    if bench.backend.calls.arguments_of(bench.linear()) is not None:
        caught(ConfigError, lambda: bench.trained(key_mapping={"no_argument": "data"}), "no_argument")


@check("errors", "gradients")
def refuses_losses_that_are_no_number(bench: Bench) -> None:
    """A loss with one value for each sample is refused, and named."""
    losses = {"unreduced": lambda prediction, target: (prediction - target) ** 2}
    caught(NetworkError, lambda: bench.trained(losses=losses), "loss")


@check("errors")
def refuses_classes(bench: Bench) -> None:
    """A network class in place of a network is refused."""
    caught(NetworkError, lambda: bench.trainer(bench.tested.Linear), "instance")


@check("errors")
def refuses_absent_gpus(bench: Bench) -> None:
    """A GPU that is not there is an error, never silently the CPU."""
    caught(ConfigError, lambda: bench.trainer(gpu_ids=[99]), "99")
    caught(ConfigError, lambda: bench.trainer(device="cuda:99"), "99")


@check("errors")
def refuses_unknown_devices(bench: Bench) -> None:
    """A device that does not exist is refused; ``"cpu"`` and ``"auto"`` are not."""
    for device in ("cpu", "auto"):
        bench.trainer(device=device)
    caught(ConfigError, lambda: bench.trainer(device="no such device"), "no such device")


@check("errors", "gradients")
def keeps_the_users_errors(bench: Bench) -> None:
    """An error of the user's own loss keeps its type, and is told which loss it was."""

    def breaks_after(n_calls: int) -> Any:
        calls = itertools.count()

        def loss(prediction: object, target: object) -> Any:
            return bench.tested.mse(prediction, target) if next(calls) < n_calls else break_off()

        return loss

    for n_calls in (0, 1):  # the first call tries the loss before the training, the second one is in a step
        caught(Broken, functools.partial(bench.trained, losses={"broken": breaks_after(n_calls)}), "broken")


@check("errors")
def refuses_data_without_batches(bench: Bench) -> None:
    """Data that gives no batch is refused."""
    caught(DataError, lambda: bench.trained(1, []), "no batch")


@check("errors")
def refuses_unknown_scores(bench: Bench) -> None:
    """A score that nothing computes is refused before training."""
    ask = functools.partial(bench.trained, 1, None, bench.manager(), "accuracy", val_metrics={"rmse": rmse})
    caught(ConfigError, ask, "accuracy")


@check("errors")
def refuses_wrong_features(bench: Bench) -> None:
    """Inputs that do not fit the network raise an error, and leave the trainer usable."""
    trainer = bench.trained()
    with bench.unchanged(lambda: bench.state(trainer), "the state after a prediction that failed"):
        caught(Exception, lambda: trainer.predict({"data": np.zeros((4, 5)), "label": np.zeros((4, 1))}))
    assert trainer.predict(bench.arrays(4))["pred"].shape[0] == 4


@check("errors")
def refuses_unnamed_outputs(bench: Bench) -> None:
    """What a network returns must be a dict of named outputs; the error names the network."""
    trainer = bench.trained()
    trainer.backend = copy.copy(bench.backend)
    trainer.backend.calls = _Unnamed(bench.backend.calls)
    caught(NetworkError, lambda: trainer.predict(bench.arrays(4)), type(trainer.module).__name__)


class _Unnamed:
    """Calls of a backend whose networks return an array."""

    def __init__(self, calls: Any):
        self._calls = calls

    def forward(self, network: object, inputs: object) -> Any:
        return next(iter(self._calls.forward(network, inputs).values()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)
