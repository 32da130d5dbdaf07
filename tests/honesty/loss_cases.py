"""Random data for losses, and what a loss of a data set is, by hand; the losses themselves are in ``losses_of_*``."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import loss_rows
import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

C = 4
WEIGHT = np.array([0.1, 5.0, 1.0, 2.0])
Drawn = tuple[np.ndarray, dict[str, np.ndarray]]
SEEDS = st.integers(0, 2**32 - 1)
#: numbers of samples, of which batches of 7 leave a rest
SIZES = st.integers(8, 23).filter(lambda n: n % 7)
#: a seed has no smaller one
few = settings(max_examples=2, phases=[Phase.explicit, Phase.generate])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A loss, with data it can be computed on."""

    make: Callable[..., Any]
    """The class, or what makes the loss out of the settings."""
    draw: Callable[[np.random.Generator, int], Drawn]
    """Of a generator and a number of samples: input of the network, and what else is in the batch."""
    rows: Callable[..., np.ndarray] | None = None
    """The formula in numpy; the loss itself, called once on all samples, if there is none."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    split: Callable[[Any], dict[str, Any]] = lambda x: {"pred": x}
    """The outputs of the network, out of its input."""
    keys: tuple[str, ...] = ("pred", "label")
    """What the loss reads, in the order of its arguments."""
    weigh: Callable[[np.ndarray], np.ndarray] | None = None
    """What counts of the targets, where the mean of the loss counts something else than samples."""
    is_of_batch: bool = False
    """Whether it computes something of a batch that is no mean over its samples."""
    least: int = 1
    """Samples without which there is no such loss."""
    reductions: tuple[str, ...] = ("sum", "none")
    """The settings of ``reduction`` that it has, besides the mean."""

    def loss(self, **more: Any) -> Any:
        """The loss itself."""
        return self.make(**{**self.settings, **more})

    def batch_sizes(self, n: int) -> list[int]:
        """1, 7 and all of ``n`` samples, as far as each batch has enough of them."""
        return [size for size in (1, 7, n) if min(size, n % size or size) >= self.least]

    def read(self, x: np.ndarray, targets: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What the loss reads of a data set whose input the network hands on; numbers in float64."""
        entries = {**targets, **self.split(x)}
        return [one.astype(float) if one.dtype.kind == "f" else one for one in map(entries.get, self.keys)]

    def whole(self, x: np.ndarray, targets: Mapping[str, np.ndarray], call: Callable[..., Any]) -> float:
        """The loss of all samples at once; ``call`` computes the framework's own loss of arrays of numpy."""
        read = self.read(x, targets)
        if self.rows is None:
            return float(call(self.loss(), *read))
        rows = self.rows(*read)
        return float(np.average(rows, weights=None if self.weigh is None else self.weigh(read[1])))

    def expected(
        self, x: np.ndarray, targets: Mapping[str, np.ndarray], batch_size: int, call: Callable[..., Any]
    ) -> float:
        """The loss of an epoch: of the data set if it is a mean, else the mean over samples of its batches."""
        if not self.is_of_batch:
            return self.whole(x, targets, call)
        parts = [slice(start, start + batch_size) for start in range(0, len(x), batch_size)]
        values = [self.whole(x[part], {key: one[part] for key, one in targets.items()}, call) for part in parts]
        return float(np.average(values, weights=[len(x[part]) for part in parts]))


def batches(x: np.ndarray, targets: Mapping[str, np.ndarray], batch_size: int) -> list[dict[str, np.ndarray]]:
    entries = {"data": x, **targets}
    return [
        {key: one[start : start + batch_size] for key, one in entries.items()} for start in range(0, len(x), batch_size)
    ]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-5, abs=1e-6)


def can_train(case: Case, n: int, batch_size: int) -> bool:
    """Whether something counts in each batch: where nothing does there is nothing to learn."""
    return case.weigh is None or batch_size in (7, n)


def in_pairs(case: Case, x: Any, targets: Any, batch_size: int, array: Any) -> list[Any]:
    """Batches of a trial: input and target; what a loss reads that the network does not give, in its order."""
    pairs = []
    for batch in batches(x, targets, batch_size):
        rest = tuple(array(batch[key]) for key in case.keys if key in targets)
        pairs.append((array(batch["data"]), rest[0] if len(rest) == 1 else rest or None))
    return pairs


def keys_of(case: Case) -> dict[str, Any]:
    """The setting that says what a loss reads, where it is not what all read."""
    return {} if case.keys == ("pred", "label") else {"loss_keys": {"loss": case.keys}}


def by_batches(case: Case, loss: Any, x: Any, targets: Any, call: Any) -> tuple[list[float], list[int]]:
    """What a loss is of each batch of 7, called as it is, and how many samples each has."""
    parts = [slice(start, start + 7) for start in range(0, len(x), 7)]
    read = [case.read(x[part], {key: one[part] for key, one in targets.items()}) for part in parts]
    return [call(loss, *one) for one in read], [len(x[part]) for part in parts]


def marked(names: Mapping[str, Case], fast: tuple[str, ...]) -> list[Any]:
    """The names of cases as parameters: slow, but for some."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in names]


# ---- data


def _f4(array: Any) -> np.ndarray:
    return np.asarray(array, np.float32)


def numbers(rng: np.random.Generator, n: int) -> Drawn:
    return _f4(rng.normal(size=(n, 3))), {"label": _f4(rng.normal(size=(n, 3)))}


def positive(rng: np.random.Generator, n: int) -> Drawn:
    return _f4(rng.uniform(0.2, 2, (n, 3))), {"label": _f4(rng.uniform(0.2, 2, (n, 3)))}


def counts(rng: np.random.Generator, n: int) -> Drawn:
    return _f4(rng.uniform(0.2, 2, (n, 3))), {"label": _f4(rng.poisson(2, (n, 3)))}


def probabilities(rng: np.random.Generator, n: int) -> Drawn:
    """Of yes and no."""
    return _f4(rng.uniform(0.05, 0.95, (n, 3))), {"label": _f4(rng.integers(0, 2, (n, 3)))}


def logits(rng: np.random.Generator, n: int) -> Drawn:
    """Of yes and no."""
    return _f4(2 * rng.normal(size=(n, 3))), probabilities(rng, n)[1]


def signs(rng: np.random.Generator, n: int) -> Drawn:
    return _f4(rng.normal(size=(n, 3))), {"label": _f4(rng.choice([-1, 1], (n, 3)))}


def classes(rng: np.random.Generator, n: int) -> Drawn:
    """Logits and class numbers."""
    return _f4(2 * rng.normal(size=(n, C))), {"label": rng.integers(0, C, n)}


def classes_and_none(none: int) -> Callable[[np.random.Generator, int], Drawn]:
    """Logits of pixels and class numbers, of which some are one that does not count; not all of any seven samples."""

    def draw(rng: np.random.Generator, n: int) -> Drawn:
        label = rng.integers(0, C, (n, 3))
        label[rng.random(label.shape) < 0.4] = none
        label[::7, 0] = 3
        return _f4(2 * rng.normal(size=(n, C, 3))), {"label": label}

    return draw


def with_logs(draw: Callable[[np.random.Generator, int], Drawn], axis: int = 1) -> Any:
    """The same, with logarithms of probabilities instead of logits."""

    def logs(rng: np.random.Generator, n: int) -> Drawn:
        x, targets = draw(rng, n)
        return _f4(loss_rows.log_softmax(x.astype(float), axis)), targets

    return logs


def shares(rng: np.random.Generator, n: int) -> Drawn:
    """Probabilities of classes, predicted and true."""
    return tuple_of(rng.dirichlet([1.0] * C, n) * 0.96 + 0.01, rng.dirichlet([1.0] * C, n))


def one_hot(rng: np.random.Generator, n: int) -> Drawn:
    """Logits, and the true class as one of several columns."""
    x, targets = classes(rng, n)
    return tuple_of(x, np.eye(C)[targets["label"]])


def tuple_of(x: Any, label: Any) -> Drawn:
    return _f4(x), {"label": _f4(label)}


def masks(rng: np.random.Generator, n: int) -> Drawn:
    """Logits (n, C, 3, 2) and class numbers (n, 3, 2)."""
    return _f4(2 * rng.normal(size=(n, C, 3, 2))), {"label": rng.integers(0, C, (n, 3, 2))}


def wide(rng: np.random.Generator, n: int) -> Drawn:
    """Nine columns for networks of several outputs, and a sign."""
    return _f4(rng.normal(size=(n, 9))), {"label": _f4(rng.choice([-1, 1], n))}


def thirds(x: Any) -> dict[str, Any]:
    return {"first": x[:, :3], "second": x[:, 3:6], "third": x[:, 6:]}


# ---- what counts


def counted(*, weight: np.ndarray | None = None, none: int | None = None) -> Callable[[np.ndarray], np.ndarray]:
    """The weights of classes; 0 for the target that does not count."""

    def weigh(label: np.ndarray) -> np.ndarray:
        counts = label != none
        return counts * (1.0 if weight is None else weight[label * counts])

    return weigh


def without(rows: Callable[..., np.ndarray], none: int) -> Callable[..., np.ndarray]:
    """A formula that is not asked for the class that does not count."""
    return lambda pred, label: rows(pred, np.where(label == none, 0, label))


def own_cases(backend: str) -> dict[str, Case]:
    """Delira's own losses, as the backends have them."""
    from delira.training import losses

    def case(name: str, **what: Any) -> Case:
        return Case(make=getattr(losses, name), **what)

    focal = {"alpha": 0.3, "gamma": 1.5}
    dice, tversky = f"DiceLoss{backend}", f"TverskyLoss{backend}"
    return {
        f"BCEFocalLoss{backend}": case(
            f"BCEFocalLoss{backend}", settings=focal, draw=probabilities, rows=loss_rows.focal(0.3, 1.5, False)
        ),
        f"BCEFocalLossLogit{backend}": case(
            f"BCEFocalLossLogit{backend}", settings=focal, draw=logits, rows=loss_rows.focal(0.3, 1.5, True)
        ),
        dice: case(dice, draw=masks, rows=loss_rows.dice),
        f"{dice} of a batch": case(
            dice, settings={"batch": True}, draw=masks, rows=loss_rows.dice_of_batch, is_of_batch=True
        ),
        tversky: case(tversky, draw=masks, rows=loss_rows.tversky),
        f"{tversky} of a batch": case(
            tversky, settings={"batch": True}, draw=masks, rows=loss_rows.tversky_of_batch, is_of_batch=True
        ),
        f"DiceCELoss{backend}": case(
            f"DiceCELoss{backend}", draw=masks, rows=loss_rows.dice_and_entropy, reductions=()
        ),
    }  # fmt: skip


def own_names(backend: str) -> set[str]:
    """All of delira's own losses of a backend."""
    from delira.training import losses

    return {name for name in dir(losses) if name.endswith(backend)}
