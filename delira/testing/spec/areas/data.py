"""Batches as users have them: of any type and layout, never changed, with things in them that are no numbers."""

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.testing.spec.bench import Bench, split
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch, rmse


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


@check()
def takes_every_floating_type(bench: Bench) -> None:
    """Inputs of float16 and float64 train like float32; labels too."""
    plain = _rounded(bench)
    for dtype in (np.float16, np.float64):
        _assert_like(bench, [{name: a.astype(dtype) for name, a in batch.items()} for batch in plain], plain)


@check()
def takes_integers_as_input(bench: Bench) -> None:
    """Inputs of integers, e.g. uint8 images, train like the same numbers as floats."""
    plain = [{"data": batch["data"] + 3, "label": batch["label"]} for batch in _rounded(bench)]
    _assert_like(bench, [{**batch, "data": batch["data"].astype(np.uint8)} for batch in plain], plain)


@check()
def takes_bools_as_input(bench: Bench) -> None:
    """Inputs of bools train like zeros and ones."""
    plain = [{"data": (batch["data"] > 0).astype(float), "label": batch["label"]} for batch in bench.batches()]
    _assert_like(bench, [{**batch, "data": batch["data"] > 0} for batch in plain], plain)


@check()
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


@check()
def never_changes_a_batch(bench: Bench) -> None:
    """Training, validation and prediction leave batches and data sets as they were: same entries, same bits."""
    batches, held_out, data = bench.batches(), bench.batches(seed=1), bench.manager()
    with bench.unchanged(lambda: copy.deepcopy([*batches, *held_out]), "a batch after training"):
        trainer = bench.trained(2, batches, held_out, val_metrics={"rmse": rmse})
        trainer.predict(batches[0])
    with bench.unchanged(lambda: copy.deepcopy(data.dataset.data), "the data set after training"):
        trainer.train(3, data, data)


@check()
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


@check("gradients")
def takes_batches_of_any_length(bench: Bench) -> None:
    """Batches of one epoch may have different lengths, down to one sample."""
    batches = split(bench.arrays(9), (3, 5, 1))
    bench.assert_descended(bench.trained(2, batches), batches, 2)


@check()
def takes_other_iterables(bench: Bench) -> None:
    """Any iterable of dicts serves as data, as long as it can be iterated once for each epoch."""
    plain = bench.batches()
    left = bench.trained(1, tuple(plain), plain, val_metrics={"rmse": rmse})
    right = bench.trained(1, None, bench.manager(), val_metrics={"rmse": rmse})
    bench.assert_same(bench.state(left), bench.state(right), "training on a tuple of batches and on a manager")


@check("gradients")
def sees_transformed_batches(bench: Bench) -> None:
    """Transforms of the manager act before the network sees a batch, on arrays of numpy."""

    def double(**batch: Any) -> dict[str, Any]:
        assert type(batch["data"]) is np.ndarray
        return {**batch, "data": 2 * batch["data"]}

    trainer = bench.trained(data=bench.manager(transforms=double))
    bench.assert_descended(trainer, [{**batch, "data": 2 * batch["data"]} for batch in bench.batches()])


@check("gradients")
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
