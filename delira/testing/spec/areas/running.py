"""What surrounds the learning: predictions, batches as users have them, and generators."""

import contextlib
import copy
import functools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.contract import Backend, StepHooks
from delira.errors import ConfigError
from delira.testing.spec.bench import Batch, Bench, Broken, break_off, caught, descend, mse, rmse, split
from delira.testing.spec.check import check
from delira.training import Predictor
from delira.training.run import own_generators, seed_generators

# ------------------------------------------------------------------ evaluation
# Prediction changes nothing, and gives back what it borrowed.


@check("evaluation")
def predicts_without_learning(bench: Bench) -> None:
    """Predictions leave weights, optimizers and generators as they were, bit for bit."""
    trainer = bench.trained()
    with (
        bench.unchanged(lambda: bench.state(trainer), "the state after predictions"),
        bench.unchanged(bench.backend.generators.state, "the generator after predictions"),
    ):
        trainer.predict(bench.arrays(4))
        trainer.predict(bench.manager())


@check("evaluation", "gradients")
def predicts_by_hand(bench: Bench) -> None:
    """A prediction is the network's, as an array of numpy with the samples first."""
    arrays = bench.arrays(5)
    found = bench.trainer().predict(arrays)["pred"]
    assert type(found) is np.ndarray, f"a prediction is a {type(found).__name__}"
    bench.assert_close(found, bench.dense()(arrays["data"]), "the prediction")


@check("evaluation")
def predicts_data_sets_as_batches(bench: Bench) -> None:
    """Over ragged batches predictions are those of the whole, in the order of the data."""
    trainer, arrays = bench.trained(), bench.arrays(10)
    outputs, labels, _ = trainer.predict(bench.manager(10, 4))
    bench.assert_close(outputs[0], trainer.predict(arrays)["pred"], "the predictions of the data set")
    bench.assert_same(labels[0], arrays["label"], "the labels of the data set")
    singly = [trainer.predict(one)["pred"] for one in split(arrays, 1)[:2]]
    bench.assert_close(np.concatenate(singly), outputs[0][:2], "the predictions of single samples")


@check("evaluation")
def predicts_alike_everywhere(bench: Bench) -> None:
    """A ``Predictor`` of the trained network gives the bits of its trainer."""
    trainer = bench.trained()
    alone = Predictor(trainer.module).predict(bench.arrays(5))
    bench.assert_same(alone, trainer.predict(bench.arrays(5)), "the predictions of Predictor and trainer")


@check("evaluation", "dropout")
def drops_nothing_in_prediction(bench: Bench) -> None:
    """Dropout acts in training steps, and neither in predictions nor in the validation."""
    arrays, dense = bench.arrays(), bench.dense()
    trainer = bench.trained(2, None, bench.manager(), network=bench.linear(dropout=0.5))
    descend(dense, 2 * bench.batches())
    weight, bias = bench.tested.read(trainer.module)
    assert not np.allclose(weight, dense.weight, rtol=0.01), "training with dropout equals training without"
    expected = arrays["data"] @ weight + bias
    bench.assert_close(trainer.predict(arrays)["pred"], expected, "the prediction of a network with dropout")
    found = trainer.state.history[-1]["val_mse"]
    bench.assert_close(found, mse(expected, arrays["label"]), "the loss of the validation")


@check("evaluation", "mlp")
def keeps_statistics_in_prediction(bench: Bench) -> None:
    """Batch normalisation gathers statistics in training steps, and neither in predictions nor in the validation."""
    trainer = bench.trainer(bench.mlp())
    with bench.unchanged(lambda: bench.state(trainer), "the state of a fresh network after a prediction"):
        trainer.predict(bench.arrays())
    fresh = bench.weights(trainer.module)
    trainer.train(1, bench.manager())
    validated = bench.trained(1, None, bench.manager(seed=1), network=bench.mlp())
    bench.assert_same(bench.state(trainer)["tree"], bench.state(validated)["tree"], "the state after a validation")
    names = bench.backend.weights.learned_names(trainer.module)
    statistics = [name for name in fresh if name not in names]
    changed = bench.differences(fresh, bench.weights(trainer.module))
    assert set(statistics) & set(changed), f"no statistic changed in training; the state has {statistics}"


@check("evaluation", "mlp")
def predicts_samples_independently(bench: Bench) -> None:
    """In evaluation mode a prediction does not depend on the other samples of its batch, batch normalisation or not."""
    trainer, arrays = bench.trained(network=bench.mlp()), bench.arrays(6)
    whole, part = (trainer.predict(given)["pred"] for given in (arrays, split(arrays, 2)[0]))
    bench.assert_close(part, whole[:2], "the prediction of a part of a batch", factor=0.1)


@check("evaluation", "gradients")
def learns_only_in_its_scopes(bench: Bench) -> None:
    """The scope of training switches the network to learning, that of evaluation off; each gives the mode back."""
    network, tested = bench.linear(dropout=0.5 if "dropout" not in bench.tested.lacks else 0.0), bench.tested
    before = tested.is_learning(network)
    with bench.backend.calls.training(network):
        assert tested.is_learning(network), "the network does not learn in the scope of training"
        with bench.backend.calls.evaluating(network):
            assert not tested.is_learning(network), "the network learns in the scope of evaluation"
        assert tested.is_learning(network), "evaluation inside training did not give the mode back"
    assert tested.is_learning(network) is before, "training did not give the mode back"
    with bench.backend.calls.evaluating(network), bench.backend.calls.training(network):
        assert tested.is_learning(network), "the network does not learn in training inside evaluation"
    assert tested.is_learning(network) is before, "evaluation did not give the mode back"


@check("evaluation", "gradients")
def gives_modes_back_after_an_error(bench: Bench) -> None:
    """A training, or a prediction, that fails leaves the network in the mode it had."""
    trainer = bench.trainer()
    network = trainer.module
    before = bench.tested.is_learning(network)
    for scope in (bench.backend.calls.training, bench.backend.calls.evaluating):
        with contextlib.suppress(KeyboardInterrupt), scope(network):
            raise KeyboardInterrupt
        assert bench.tested.is_learning(network) is before, (
            f"the scope of {scope.__name__} kept the mode after an error"
        )
    broken = {"data": bench.arrays(4)["data"][:, :2], "label": bench.arrays(4)["label"]}
    caught(Exception, lambda: trainer.train(1, [broken]))  # a batch with too few features
    assert bench.tested.is_learning(network) is before, "a training that failed kept the mode"


@check("evaluation", "gradients", "hooks")
def learns_in_steps_only(bench: Bench) -> None:
    """The network learns in every step; callbacks and validation see it as it was before."""
    network, seen = bench.linear(), []

    def look(*event: object, **facts: object) -> None:
        seen.append(bench.tested.is_learning(network))

    before = bench.tested.is_learning(network)
    trainer = bench.trainer(network, callbacks=[SimpleNamespace(at_epoch_end=look)])
    trainer.hooks = StepHooks(sample=(look,))
    trainer.train(1, bench.manager(), bench.manager())
    assert seen == [True, True, before], f"learning in two steps and at the end of the epoch: {seen}"


@check("evaluation")
def tests_what_was_trained(bench: Bench) -> None:
    """``predict_data_mgr`` and its like give exact metrics of the same predictions."""
    trainer, arrays, data = bench.trained(), bench.arrays(10), bench.manager(10, 4)
    pred = trainer.predict(arrays)["pred"]
    (found, metrics), *more = trainer.predict_data_mgr_cache_all(data, metrics={"rmse": rmse})
    assert not more, "predict_data_mgr_cache_all yields one result"
    bench.assert_close(found["pred"], pred, "the predictions")
    bench.assert_close(metrics["rmse"], [rmse(arrays["label"], pred)], "the metric")
    singly = [np.asarray(one["pred"]) for one, _ in trainer.predict_data_mgr(data)]
    bench.assert_close(np.concatenate(singly), pred, "the predictions batch by batch")


# ------------------------------------------------------------------ data
# Batches as users have them: of any type and layout, never changed, with things in them that are no numbers.


def _assert_like(bench: Bench, batches: list[Batch], as_floats: list[Batch]) -> None:
    """Train on batches; the weights must be those of a descent on the same numbers as float64."""
    trainer = bench.trained(data=batches)
    if bench.is_differentiable:
        bench.assert_descended(trainer, as_floats)
        return
    found, expected = (one.predict(as_floats[0])["pred"] for one in (trainer, bench.trained(data=as_floats)))
    bench.assert_close(found, expected, "the prediction after a training")


def _rounded(bench: Bench) -> list[Batch]:
    """Batches of small whole numbers, so that every type holds them exactly."""
    arrays = bench.arrays()
    return split({"data": np.clip(np.round(arrays["data"] * 2), -3, 3), "label": np.round(arrays["label"])}, 4)


@check("data")
def takes_every_floating_type(bench: Bench) -> None:
    """Inputs of float16 and float64 train like float32; labels too."""
    plain = _rounded(bench)
    for dtype in (np.float16, np.float64):
        _assert_like(bench, [{name: a.astype(dtype) for name, a in batch.items()} for batch in plain], plain)


@check("data")
def takes_integers_as_input(bench: Bench) -> None:
    """Inputs of integers, e.g. uint8 images, train like the same numbers as floats."""
    plain = [{"data": batch["data"] + 3, "label": batch["label"]} for batch in _rounded(bench)]
    _assert_like(bench, [{**batch, "data": batch["data"].astype(np.uint8)} for batch in plain], plain)


@check("data")
def takes_bools_as_input(bench: Bench) -> None:
    """Inputs of bools train like zeros and ones."""
    plain = [{"data": (batch["data"] > 0).astype(float), "label": batch["label"]} for batch in bench.batches()]
    _assert_like(bench, [{**batch, "data": batch["data"] > 0} for batch in plain], plain)


@check("data")
def takes_any_layout(bench: Bench) -> None:
    """Arrays may be read-only, mirrored, strided, in Fortran's order or of foreign byte order."""
    plain = bench.batches()

    def odd(array: np.ndarray) -> list[np.ndarray]:
        frozen = array.copy()
        frozen.flags.writeable = False
        wide = np.repeat(array, 2, axis=0)
        return [frozen, array[::-1][::-1], wide[::2], np.asfortranarray(array), array.astype(">f8")]

    variants = [[{name: odd(batch[name])[i] for name in ("data", "label")} for batch in plain] for i in range(5)]
    mixed = [batch for variant in variants for batch in variant]  # one training, so that a backend compiles once
    mirrored = [{name: array[::-1] for name, array in batch.items()} for batch in plain]
    if bench.is_differentiable:
        _assert_like(bench, [*mixed, *mirrored], 5 * plain + mirrored)
    else:
        _assert_like(bench, mixed[:2], plain)


@check("data")
def never_changes_a_batch(bench: Bench) -> None:
    """Training, validation and prediction leave batches and data sets as they were: same entries, same bits."""
    batches, held_out, data = bench.batches(), bench.batches(seed=1), bench.manager()
    with bench.unchanged(lambda: copy.deepcopy([*batches, *held_out]), "a batch after training"):
        trainer = bench.trained(2, batches, held_out, val_metrics={"rmse": rmse})
        trainer.predict(batches[0])
    with bench.unchanged(lambda: copy.deepcopy(data.dataset.data), "the data set after training"):
        trainer.train(3, data, data)


@check("data")
def passes_what_is_no_number(bench: Bench) -> None:
    """Texts in a batch, e.g. names of files, disturb nothing and reach the callbacks."""
    names = [f"case {i}" for i in range(8)]
    seen: list[str] = []

    def look(trainer: object, *, data_dict: Any, **facts: Any) -> None:
        seen.extend(map(str, data_dict["name"]))

    data = bench.manager(arrays={**bench.arrays(), "name": np.array(names)})
    trainer = bench.trained(1, data, data, callbacks=[SimpleNamespace(at_iter_begin=look)], val_metrics={"rmse": rmse})
    if bench.is_differentiable:
        assert seen == names, f"the callbacks saw {seen}"
        bench.assert_descended(trainer, bench.batches())
    listed = {**bench.arrays(2), "name": ["one", "two"], "note": {"a": "text"}}
    assert trainer.predict(listed)["pred"].shape[0] == 2


@check("data", "gradients")
def takes_batches_of_any_length(bench: Bench) -> None:
    """Batches of one epoch may have different lengths, down to one sample."""
    batches = split(bench.arrays(9), (3, 5, 1))
    bench.assert_descended(bench.trained(2, batches), batches, 2)


@check("data")
def takes_other_iterables(bench: Bench) -> None:
    """Any iterable of dicts serves as data, as long as it can be iterated once for each epoch."""
    plain = bench.batches()
    left = bench.trained(1, tuple(plain), plain, val_metrics={"rmse": rmse})
    right = bench.trained(1, None, bench.manager(), val_metrics={"rmse": rmse})
    bench.assert_same(bench.state(left), bench.state(right), "training on a tuple of batches and on a manager")


@check("data", "gradients")
def sees_transformed_batches(bench: Bench) -> None:
    """Transforms of the manager act before the network sees a batch, on arrays of numpy."""

    def double(**batch: Any) -> dict[str, Any]:
        assert type(batch["data"]) is np.ndarray
        return {**batch, "data": 2 * batch["data"]}

    trainer = bench.trained(data=bench.manager(transforms=double))
    bench.assert_descended(trainer, [{**batch, "data": 2 * batch["data"]} for batch in bench.batches()])


@check("data", "gradients")
def prepares_as_promised(bench: Bench) -> None:
    """``prepare_batch`` keeps entries and values, floats as the backend's floats, and gives a new dict."""
    network = bench.linear()
    devices = bench.backend.devices.of(network)
    batch = {**bench.arrays(4), "flag": np.array([True, False, True, True])}
    prepared = network.prepare_batch(batch, devices.input, devices.output)
    assert prepared is not batch, "prepare_batch returned the batch itself"
    found = bench.backend.arrays.to_numpy(prepared)
    assert set(batch) <= set(found), f"prepare_batch lost {sorted(set(batch) - set(found))}"
    for name, value in batch.items():
        bench.assert_close(found[name], value, f"the prepared {name!r}")


# ------------------------------------------------------------------ seeds
# One seed, one run; no run leaves a trace in another or in the caller's generators.


def _plain(bench: Bench) -> Any:
    """A network with dropout, if there is one."""
    return bench.linear(dropout=0.0 if "dropout" in bench.tested.lacks else 0.4)


def _network(bench: Bench) -> Any:
    """The network with most chance in it."""
    return _plain(bench) if {"mlp", "dropout"} & bench.tested.lacks.keys() else bench.mlp(dropout=0.4)


def _run(bench: Bench, network: object = None, **settings: Any) -> Any:
    """The state after two epochs with dropout, shuffled data and noise."""
    data = bench.shuffled(transforms=_noise)
    return bench.state(bench.trained(2, data, bench.manager(), network=network or _network(bench), **settings))


def _noise(**batch: Any) -> dict[str, Any]:
    """Noise from numpy's global generator, as augmentations take it."""
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}  # noqa: NPY002


def _disturb(backend: Backend, seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    backend.generators.seed(seed)


def _demand_generators_back(bench: Bench, train: Callable[[], object]) -> None:
    """Demand that generators go on after a training as they would have without."""
    found = []
    for run in (lambda: None, train):
        _disturb(bench.backend, 5)
        run()
        found.append((random.random(), float(np.random.random()), bench.tested.draw()))  # noqa: NPY002
    names = f"Python, numpy and {bench.tested.name}"
    assert found[0] == found[1], f"the next numbers of {names} are {found[1]}, not {found[0]}"


@check("seeds")
def repeats_itself(bench: Bench) -> None:
    """Two runs of one seed are equal bit for bit, whatever state the caller's generators have."""
    states = []
    for caller in (1, 2):
        _disturb(bench.backend, caller)
        states.append(_run(bench, seed=3))
    bench.assert_same(states[0], states[1], "two runs of one seed")


@check("seeds")
def repeats_itself_deterministically(bench: Bench) -> None:
    """Two runs with ``deterministic=True`` are equal bit for bit; the framework's settings are restored afterwards."""
    first, second = (_run(bench, seed=3, deterministic=True) for _ in range(2))
    bench.assert_same(first, second, "two runs with deterministic=True")
    bench.assert_same(_run(bench, seed=3), _run(bench, seed=3), "two runs after them")


@check("seeds")
def obeys_its_threads(bench: Bench) -> None:
    """``num_threads`` is the number of threads during the training and no longer, or it is refused."""
    found: set[int | None] = set()

    def count(trainer: Any, **facts: Any) -> None:
        found.add(trainer.backend.devices.thread_count())

    before = bench.backend.devices.thread_count()
    try:
        bench.trained(num_threads=1, callbacks=[SimpleNamespace(at_iter_end=count)])
    except ConfigError:
        assert not found, "it was refused after the first step"
        return
    assert found <= {1, None}, f"num_threads=1, but it trained with {found}"
    assert bench.backend.devices.thread_count() == before, "the number of threads stays changed after the training"


@check("seeds")
def obeys_its_seed(bench: Bench) -> None:
    """Another seed gives another order and other noise, and so do other folds."""
    first = _run(bench, _plain(bench), seed=3)
    for other in ({"seed": 4}, {"seed": 3, "fold": 1}):
        is_same = bench.is_same(first, _run(bench, _plain(bench), **other))
        assert not is_same, f"{other} gives the run of seed 3, fold 0"


@check("seeds", "dropout")
def draws_by_its_seed(bench: Bench) -> None:
    """What the framework draws, e.g. what dropout leaves out, depends on the seed and on the epoch."""
    left, right = (bench.trained(network=bench.linear(dropout=0.5), seed=seed).module for seed in (3, 4))
    is_same = bench.is_same(bench.tested.read(left)[0], bench.tested.read(right)[0])
    assert not is_same, "dropout leaves out the same inputs by either seed"


@check("seeds")
def gives_generators_back(bench: Bench) -> None:
    """A training leaves the generators of Python, numpy and the framework as the caller had them."""
    network = _network(bench)
    _demand_generators_back(bench, lambda: _run(bench, network))


@check("seeds", "steps")
def gives_generators_back_after_an_error(bench: Bench) -> None:
    """A training that fails leaves the generators of Python, numpy and the framework as the caller had them."""
    given = {"network": _plain(bench), "callbacks": [SimpleNamespace(at_iter_end=break_off)]}
    ask = functools.partial(bench.trained, 1, bench.shuffled(), **given)
    _demand_generators_back(bench, lambda: caught(Broken, ask))


@check("seeds", "steps")
def keeps_runs_apart(bench: Bench) -> None:
    """Two trainings in turn, epoch by epoch, give each the bits of a training alone."""
    alone, left, right = (bench.trainer(_plain(bench), seed=seed) for seed in (3, 3, 8))
    for epoch in (1, 2):
        alone.train(epoch, bench.shuffled())
    for epoch in (1, 2):
        right.train(epoch, bench.shuffled(seed=1))
        left.train(epoch, bench.shuffled())
    bench.assert_same(bench.state(alone), bench.state(left), "a training alone and one in turn with another")


@check("seeds")
def keeps_networks_apart(bench: Bench) -> None:
    """Training a network changes no other one of its class."""
    first, second = bench.linear(), bench.linear()
    with bench.unchanged(lambda: bench.tree(second), "a network while another one was trained"):
        bench.trained(network=first)


@check("seeds")
def seeds_the_framework(bench: Bench) -> None:
    """``seed`` decides what the framework's generator draws next."""

    def draw(seed: int) -> list[float]:
        bench.backend.generators.seed(seed)
        return [bench.tested.draw(), bench.tested.draw()]

    first, again, other = draw(2**62 + 1), draw(2**62 + 1), draw(2**62 + 2)
    assert first == again, f"one seed draws {first} and then {again}"
    assert first != other, f"two seeds draw {first}"
    assert first[0] != first[1], f"two draws give {first}"


@check("seeds")
def continues_generators(bench: Bench) -> None:
    """The state of the generators continues exactly where it was read, from a file too."""
    backend = bench.backend
    backend.generators.seed(7)
    bench.tested.draw()
    state = backend.arrays.snapshot(backend.generators.state())
    expected = [bench.tested.draw() for _ in range(3)]
    backend.generators.seed(8)
    backend.generators.set_state(bench.written({"generators": state})["generators"])
    found = [bench.tested.draw() for _ in range(3)]
    assert found == expected, f"the restored generator draws {found}, not {expected}"


@check("seeds")
def builds_networks_by_the_seed(bench: Bench) -> None:
    """A network built after the same seeding begins with the same weights."""

    def fresh() -> Any:
        with own_generators(bench.backend):
            seed_generators(bench.backend, 3, 0, stream="network")
            return bench.tested.Linear(n_features=3, n_outputs=1)

    bench.assert_same(bench.tree(fresh()), bench.tree(fresh()), "two networks built after one seeding")


@check("seeds")
def needs_no_workers(bench: Bench) -> None:
    """Processes that load data ahead change nothing: the bits are those of loading in the training's process."""
    without, with_two = (
        bench.state(bench.trained(1, bench.shuffled(transforms=_noise, n_process_augmentation=number), seed=3))
        for number in (0, 2)
    )
    bench.assert_same(without, with_two, "training with and without workers")
