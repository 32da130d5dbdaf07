"""A metric on one data set in every way that users have: in a trial, continued, with tensors, in an experiment."""

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_NUMBER, STRANGE

from delira.errors import DeliraError
from delira.metrics import MetricList, MetricSet
from delira.state import CRITERION, EPOCH, OUTPUT, VALIDATION_DATA, Y_PRED, Y_TRUE, State, X

RANDOM = np.random.default_rng(5)
N_SAMPLES, N_CLASSES = 7, 3
LABELS = np.array([0, 2, 1, 1, 0, 2, 2])
SCORES = RANDOM.normal(size=(N_SAMPLES, N_CLASSES)).astype(np.float32)
ONE_HOT = np.eye(N_CLASSES, dtype=np.float32)[LABELS]
PROBABILITIES = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
YES_NO = np.array([0, 1, 1, 0, 1, 0, 1])
CHANCES = RANDOM.uniform(0.05, 0.95, N_SAMPLES).astype(np.float32)
NUMBERS = RANDOM.normal(size=N_SAMPLES).astype(np.float32)
GUESSES = (NUMBERS + RANDOM.normal(size=N_SAMPLES) * 0.3).astype(np.float32)
MASKS = RANDOM.integers(0, N_CLASSES, (N_SAMPLES, 4, 5))
GUESSED_MASKS = np.where(RANDOM.random(MASKS.shape) < 0.7, MASKS, RANDOM.integers(0, N_CLASSES, MASKS.shape))
HAS_TORCH = importlib.util.find_spec("torch") is not None
#: which batches: one sample each, ragged, all at once
BATCH_SIZES = [1, 3, 100]

#: names that no entry of a state has; settings of metrics
NO_INDEX = [value for value in [*NOT_A_NUMBER, 0.5, NAN] if value is not None]
NO_AXIS = ["x", "", 1.5, NAN, [], {}, STRANGE, 0, 5, -4, True]
NO_THRESHOLD = [value for value in NOT_A_NUMBER if value is not None] + [NAN]


#: words of messages about data
SAID = {
    "true": ["metric 'metric'", "sample 4", "target", "label", "y_true"],
    # of two columns only, the third label is none
    "pred": ["prediction", "score", "y_pred", "target 2 in sample 1, which is n"],
}


def with_value(array: np.ndarray, value: Any, at: Any = 4, dtype: Any = None) -> np.ndarray:
    """The array with one other value, in sample 4."""
    changed = array.astype(dtype or array.dtype)
    changed[at] = value
    return changed


#: labels of three classes that cannot be
NO_LABELS = [
    with_value(LABELS, 7),
    with_value(LABELS, -5),
    with_value(LABELS, 3, dtype=np.uint8),
    with_value(LABELS, 0.9, dtype=np.float32),
    with_value(LABELS, NAN, dtype=np.float64),
    LABELS.astype(str),
    LABELS.astype(object),
    LABELS.astype(complex),
    LABELS[:, None, None].repeat(2, 1),
    ONE_HOT[:, :2],
    np.eye(4)[LABELS],
    np.array(["2026-01-01"] * N_SAMPLES, dtype="datetime64[D]"),
]
NO_LENGTH = [LABELS[:6], LABELS[:0], None]


def cut(value: Any, rows: slice) -> Any:
    """A batch of an array."""
    return None if value is None else value[rows]


def batches(
    true: Any, pred: Any, batch_size: int, further: Mapping[str, Any], has_empty: bool = False
) -> Iterator[tuple[Any, Any, dict]]:
    """Both and further entries, cut into batches; with one that has no samples, if wanted."""
    if has_empty:
        yield cut(true, slice(0)), cut(pred, slice(0)), {name: value[:0] for name, value in further.items()}
    for start in range(0, max(len(value) for value in (pred, true) if value is not None), batch_size):
        rows = slice(start, start + batch_size)
        yield cut(true, rows), cut(pred, rows), {name: value[rows] for name, value in further.items()}


def of_trial(
    metric: Any, data: Any, known: Mapping[Any, Any], *, as_array: Any = None, is_continued: bool = False
) -> Any:
    """The value that a trial reports of a validation; continued after the first batch, if wanted."""
    metrics, state = MetricList([metric]), State({EPOCH: 0, **known})
    metrics.eval(VALIDATION_DATA)
    metrics.reset(state)
    for number, (true, pred, further) in enumerate(data):
        true, pred = (as_array(true), as_array(pred)) if as_array is not None else (true, pred)
        state.update({X: pred, Y_TRUE: true, Y_PRED: pred, **further})
        metrics.process(state)
        if is_continued and number == 0:
            kept = metrics.state_dict()
            metrics.reset(state)
            metrics.load_state_dict(kept)
    return np.asarray(next(iter(metrics.process_final(state).values())), dtype=np.float64)


def of_experiment(metric: Any, data: Any, known: Mapping[Any, Any]) -> Any:
    """The value that an experiment reports."""
    from delira.metrics.metric_set import in_form
    from delira.metrics.tree.criteria import known_of

    metrics = MetricSet({"metric": in_form(metric, "metric", known_of(known))})
    for true, pred, further in data:
        metrics.update({"label": true, "pred": pred, **further})
    return np.mean(metrics.compute()["metric"])


def as_tensor(array: Any) -> Any:
    """A tensor, where PyTorch has the type."""
    import torch

    return torch.from_numpy(array.copy()) if array is not None and array.dtype.kind in "biufc" else array


def agreed(ways: Mapping[str, Callable[[], Any]]) -> Any:
    """What all ways give; or the error of delira that all of them raise. They must be of one opinion."""
    values: dict[str, Any] = {}
    errors: dict[str, DeliraError] = {}
    for name, way in ways.items():
        try:
            values[name] = way()
        except DeliraError as error:
            errors[name] = error
    if values and errors:
        raise AssertionError(f"accepted: {values}; refused: {errors}")
    if errors:
        raise min(errors.values(), key=lambda error: len(str(error)))
    first = next(iter(values.values()))
    for name, value in values.items():
        np.testing.assert_allclose(value, first, rtol=1e-5, atol=1e-6, err_msg=f"{name} of {list(values)}")
    return first


def evaluated(make: Callable[..., Any], *, in_experiment: bool = True, in_trial: bool = True) -> Callable[..., Any]:
    """What is called in the place of a metric: it is made, and evaluated on data in every way."""

    def call(
        *, true: Any, pred: Any, batch_size: int = 3, criterion: Any = None, output: Any = None,
        further: Mapping[str, Any] | None = None, has_empty: bool = False, **settings: Any,
    ) -> Any:  # fmt: skip
        known = {CRITERION: criterion, OUTPUT: output}

        def data() -> Any:
            return batches(true, pred, batch_size, further or {}, has_empty)

        make(**settings)
        ways: dict[str, Callable[[], Any]] = {}
        if in_trial:
            ways["trial"] = lambda: of_trial(make(**settings), data(), known)
            ways["continued"] = lambda: of_trial(make(**settings), data(), known, is_continued=True)
            if HAS_TORCH:
                ways["tensors"] = lambda: of_trial(make(**settings), data(), known, as_array=as_tensor)
        if in_experiment:
            ways["experiment"] = lambda: of_experiment(make(**settings), data(), known)
        return agreed(ways)

    return call


def metric_entry(
    name: str,
    true: Any,
    pred: Any,
    expected: Callable[[dict[str, Any]], Any],
    *,
    wrong: Mapping[str, Any],
    right: Mapping[str, Any] | None = None,
    says: Mapping[str, Any] | None = None,
    free: Mapping[str, str] | None = None,
    in_experiment: bool = True,
    in_trial: bool = True,
    data: Mapping[str, Any] | None = None,
    make: Callable[..., Any] | None = None,
    needs: str | Sequence[str] | None = None,
    **settings: Any,
) -> Entry:
    """The entry of a metric: made with settings, evaluated on data, compared with the whole data at once."""
    from fuzz_names import resolve

    full = f"delira.metrics.{name}"
    keys = {"pred_key": "any key of the state", "target_key": "any key of the state"}

    def made(**given: Any) -> Any:
        return (make or resolve(full.partition("#")[0]))(**given)

    return Entry(
        name=full,
        good=lambda folder: {"true": true, "pred": pred, **(data or {}), **settings},
        make=evaluated(made, in_experiment=in_experiment, in_trial=in_trial),
        expected=expected,
        right={"batch_size": BATCH_SIZES, "has_empty": [True], **(right or {})},
        wrong=wrong,
        says={name: [*SAID.get(name, ()), *(says or {}).get(name, ())] for name in {*SAID, *(says or {})}},
        free={**keys, **(free or {})},
        needs=needs,
    )
