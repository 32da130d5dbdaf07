"""What predicts: one network, or several as one."""

import dataclasses
import functools
import logging
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from delira.contract import Network
from delira.errors import ConfigError, DataError, MissingKeyError, check_choice, check_flags, if_given, noting
from delira.inference import Inference, joined
from delira.io.export import inputs_of
from delira.io.program import Program, dotted
from delira.metrics.tree.criteria import Criterion
from delira.prediction.exported import joint_of, part_of
from delira.prediction.networks import StoredNetwork
from delira.training.predictor import Predictor
from delira.training.scores import as_labels, as_probabilities, axis_of, entropy_of
from delira.utils.arrays import iterate_leaves
from delira.utils.memory import available_memory

_log = logging.getLogger("delira")

#: ways to make one prediction of several
COMBINE = ("probabilities", "logits", "votes", "mean")
#: of outputs that are labels: the one that most members say, of several the least
LABELS = "labels"
#: entry of predictions with how far the members differ
SPREAD = "spread"
#: of probabilities that add up to one
_TOLERANCE = 1e-3
#: of the memory that is available, what the weights of all members may take to stay in it
SHARE_OF_MEMORY = 0.25
#: values that are combined at once
_AT_ONCE = 2**16


class Model(Protocol):
    """Predicts batches."""

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Entry of a batch -> shape of a sample that it learned from; empty: not known."""

    @property
    def spacing(self) -> Sequence[Sequence[float]]:
        """Of the volumes that it learned from: the least and the largest along each axis, in mm; empty: not known."""

    @property
    def outputs(self) -> Mapping[str, Criterion]:
        """What is known of the outputs."""

    @property
    def reads(self) -> Sequence[str]:
        """Entries of a batch that it reads."""

    @property
    def inference(self) -> Inference | None:
        """How the validation of its training predicted."""

    def predict_batch(self, batch: Mapping[str, Any], inference: Inference | None) -> dict[str, Any]:
        """Predict a batch of arrays of shape ``(B, ...)``."""


class OneNetwork:
    """A network that predicts.

    Parameters
    ----------
    predictor
        What predicts with it.
    stored
        What its checkpoint says of it; None: there is none.
    """

    def __init__(self, predictor: Predictor, stored: StoredNetwork | None = None):
        self.predictor = predictor
        self.inputs: Mapping[str, tuple[int, ...]] = {} if stored is None else stored.inputs
        self.spacing: Sequence[Sequence[float]] = [] if stored is None else stored.spacing
        self.outputs: Mapping[str, Criterion] = {} if stored is None else stored.outputs
        self.inference = predictor.inference if stored is None else stored.inference
        self.reads = [*predictor.key_mapping.values()]

    @classmethod
    def of(cls, network: Network) -> "OneNetwork":
        """One of a network that is there already."""
        return cls(Predictor(network))

    def predict_batch(self, batch: Mapping[str, Any], inference: Inference | None) -> dict[str, Any]:
        """Predict a batch of arrays of shape ``(B, ...)``."""
        own, self.predictor.inference = self.predictor.inference, inference  # it may be the user's
        try:
            return dict(self.predictor.predict(batch))
        finally:
            self.predictor.inference = own

    @property
    def n_bytes(self) -> int:
        """What its weights take."""
        backend = self.predictor.backend
        weights = backend.checkpoints.state_tree(self.predictor.module, {})["model"]
        host = backend.arrays.to_numpy(dict(weights))
        return sum(np.asarray(leaf).nbytes for _, leaf in iterate_leaves(host))


@dataclasses.dataclass
class Member:
    """One of the networks of an ensemble."""

    name: str
    """In messages, e.g. ``"fold_00"``."""
    load: Callable[[], StoredNetwork]
    """Makes it of its checkpoint."""

    @functools.cached_property
    def kept(self) -> OneNetwork:
        """The network, which stays in memory."""
        return self.loaded()

    def loaded(self) -> OneNetwork:
        """The network, for once."""
        stored = self.load()
        return OneNetwork(stored.predictor(), stored)


class Combined:
    """Several networks as one model.

    Parameters
    ----------
    members
        The networks.
    weights
        What each counts; None: all alike.
    combine
        ``"probabilities"``: the mean of probabilities, which logits are made into; ``"logits"``: the mean of what the
        networks say, before; ``"votes"``: the share of the members that say a class; ``"mean"``: of numbers. None: of
        probabilities where losses, settings or the values say that outputs are logits or probabilities, else the mean.
        Of outputs that are labels it is always the one that most members say.
    spread
        Whether predictions have an entry ``"spread"``, for each output that is combined: ``"sd"``, the standard
        deviation over members, of its shape; of classes also ``"entropy"`` of the combined probabilities in nats, and
        ``"disagreement"``, the share of members that do not say the class that most say; both without the axis of
        classes that exclude each other.
    at_once
        Whether all members stay in memory; else one at a time is there, loaded anew for each batch of cases. None: they
        stay while their weights, all as large as the first's, take at most a quarter of the memory that is available
        when the first one is loaded. What is predicted is the same.
    """

    def __init__(
        self,
        members: Sequence[Member],
        weights: Sequence[float] | None = None,
        combine: str | None = None,
        *,
        spread: bool = True,
        at_once: bool | None = None,
    ):
        if not isinstance(members, Sequence) or not members or not all(isinstance(one, Member) for one in members):
            raise ConfigError(f"an ensemble has at least one member, of load_ensemble(…).members, got {members!r:.200}")
        check_choice(self, (None, *COMBINE), combine=combine)
        check_flags(self, spread=spread, **if_given(at_once=at_once))
        self.members, self.combine, self.spread = list(members), combine, spread
        self._at_once = at_once
        self.weights = _normalised(weights, len(self.members))

    def __repr__(self) -> str:
        names = ", ".join(member.name for member in self.members)
        return f"{type(self).__name__}({len(self.members)} members: {names}; combine={self._told()})"

    def _told(self) -> str:
        """How outputs are combined, as far as that is known without a batch, and without loading a member."""
        if self.combine is not None or "_first" not in vars(self):
            return repr(self.combine)
        ways = {name: self._way_of(known) if known.output else None for name, known in self._first.outputs.items()}
        return repr(ways if len({*ways.values()}) > 1 else next(iter(ways.values()), None))

    @property
    def at_once(self) -> bool:
        """Whether all members stay in memory, as was asked for, or as there is memory."""
        if self._at_once is None:
            left, needed = available_memory(), self.members[0].kept.n_bytes * len(self.members)
            self._at_once = left is None or needed <= SHARE_OF_MEMORY * left
            if not self._at_once:
                del self.members[0].kept
                _log.info(
                    "the %d members of the ensemble take %.0f MB, and %.0f MB of memory are available, so one at a "
                    "time is loaded; at_once=True keeps all", len(self.members), needed / 1e6, (left or 0) / 1e6,
                )  # fmt: skip
        return self._at_once

    def taken(self, member: Member) -> OneNetwork:
        """A member to predict with: the one that stays in memory, or one loaded for once."""
        return member.kept if self.at_once else member.loaded()

    @functools.cached_property
    def _first(self) -> "_Facts":
        one = self.taken(self.members[0])
        return _Facts(one.inputs, one.outputs, one.reads, one.inference)

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Entry of a batch -> shape of a sample that the first member learned from."""
        return self._first.inputs

    @functools.cached_property
    def spacing(self) -> Sequence[Sequence[float]]:
        """Of the volumes that the members learned from: the least and the largest of all."""
        found = [self.taken(member).spacing for member in self.members]
        if not all(found):
            return []
        least, largest = zip(*found, strict=True)
        return [np.min(least, axis=0).tolist(), np.max(largest, axis=0).tolist()]

    @property
    def outputs(self) -> Mapping[str, Criterion]:
        """What is known of the outputs, after they were combined."""
        said = {"probabilities": "probabilities", "votes": "probabilities"}
        return {
            name: known._replace(output=said.get(self._way_of(known), known.output))
            for name, known in self._first.outputs.items()
        }

    @property
    def reads(self) -> Sequence[str]:
        """Entries of a batch that the members read."""
        return self._first.reads

    @property
    def inference(self) -> Inference | None:
        """How the validation of the first member predicted."""
        return self._first.inference

    def _way_of(self, known: Criterion | None, array: Any = None) -> str:
        """How an output is combined; of labels there is no mean."""
        if array is not None and np.asarray(array).dtype.kind not in "fc":
            return LABELS
        if self.combine is not None:
            return self.combine
        return "probabilities" if known is not None and known.output in ("logits", "probabilities") else "mean"

    def predict_batch(self, batch: Mapping[str, Any], inference: Inference | None) -> dict[str, Any]:
        """Predict a batch by all members; each does to it what was fitted in its own training.

        Raises
        ------
        DataError
            If a member has other outputs or classes than the first, naming both.
        ConfigError
            If numbers of two kinds, such as logits and probabilities, would be averaged as they are.
        """
        space = max((np.shape(batch[key])[2:] for key in self.reads if key in batch), key=len, default=())
        sums: dict[str, _Output] = {}
        first = self.members[0].name
        for number, member in enumerate(self.members):
            said = self._said_by(member, batch, inference, space)
            if number and said.keys() != sums.keys():
                raise DataError(
                    f"the member {member.name!r} has the outputs {sorted(said)}, and {first!r} has {sorted(sums)}; the "
                    "members of an ensemble have the same"
                )
            for name, (array, known) in said.items():
                if not number:
                    way, axis = self._way_of(known, array), axis_of(array, space, known)
                    sums[name] = _Output(name, known, way, axis, self.spread)
                sums[name].add(array, self.weights[number], (member.name, first), known)
        combined = {name: one.result() for name, one in sums.items()}
        spread = {name: one.spread(combined[name]) for name, one in sums.items()} if self.spread else {}
        return {**combined, **({SPREAD: spread} if spread else {})}

    def _said_by(
        self, member: Member, batch: Mapping[str, Any], inference: Inference | None, space: tuple[int, ...]
    ) -> "dict[str, tuple[np.ndarray, Criterion | None]]":
        """The outputs of a member by dotted name, and what is known of them; it is let go of before the next comes."""
        with noting(f"in the member {member.name!r} of an ensemble"):
            one = self.taken(member)
            found = {}
            for name, leaf in dotted(one.predict_batch(batch, inference)).items():
                array = np.asarray(leaf)
                array = array.astype(np.float32) if array.dtype.kind == "V" else array  # bfloat16
                found[name] = (array, _read_off(one.outputs.get(name), array, space))
            return found

    def to_program(
        self, example: Mapping[str, Any], *, spread: bool = False, inference: Inference | str | None = "trained"
    ) -> tuple[Program, dict[str, Any]]:
        """All members as one program, and its inputs by name; see :meth:`delira.Ensemble.export`.

        Parameters
        ----------
        example
            A batch of arrays of shape ``(B, ...)``.
        spread, inference
            As of :meth:`delira.Ensemble.export`.

        Raises
        ------
        ConfigError
            If the members cannot be one program, saying why.
        MissingKeyError
            If the example lacks an entry that they read.
        """
        check_flags("export", spread=spread)
        if inference not in ("trained", None):
            raise ConfigError(f"export: inference is 'trained' or None, got {inference!r}")
        members = [(member.name, self.taken(member)) for member in self.members]
        first = members[0][1]
        if inference is not None and first.inference is not None:
            raise ConfigError(
                f"the members predict by {first.inference!r}, which is no part of a program; "
                "ensemble.export(path, example, inference=None) writes them as they predict what they are given at "
                "once, and the windows or flips are then up to who calls it"
            )
        parts = [part_of(name, one, first, weight) for (name, one), weight in zip(members, self.weights, strict=True)]
        predictor = first.predictor
        if missing := [key for key in self.reads if key not in example]:
            raise MissingKeyError(
                f"export: the members read {missing[0]!r}, but the example has only {sorted(example)}"
            )
        inputs = inputs_of(predictor.module, predictor.backend, example, predictor.key_mapping)
        space = max((np.shape(example[key])[2:] for key in self.reads), key=len, default=())
        joints = {}
        for name, array in dotted(first.predict_batch(example, None)).items():
            known = _read_off(first.outputs.get(name), array, space)
            joints[name] = joint_of(name, array, known, self._way_of(known, array), space)
        return Program(parts=parts, outputs=joints, spread=spread), inputs


class _Facts(NamedTuple):
    """What is known of an ensemble by its first member, which need not stay in memory."""

    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, Criterion]
    reads: Sequence[str]
    inference: Inference | None


class _Output:
    """The weighted mean, and the spread, of one output over members."""

    def __init__(self, name: str, known: Criterion | None, way: str, axis: int | None, spread: bool):
        self._name, self._known, self._way, self._axis, self._spread = name, known, way, axis, spread
        self._mean: Any = None
        self._squares: Any = None
        self._votes: Any = None
        self._weight = 0.0
        self._is_exclusive = False
        self._labels: list[tuple[np.ndarray, float]] = []
        self._shape: tuple[int, ...] | None = None

    @property
    def _is_of_classes(self) -> bool:
        return self._way in ("probabilities", "votes") or (
            self._way == "logits" and self._known is not None and self._known.output in ("logits", "probabilities")
        )

    def add(self, array: Any, weight: float, names: tuple[str, str], known: Criterion | None = None) -> None:
        """Add what one member says.

        Parameters
        ----------
        array
            Its output.
        weight
            What it counts.
        names
            Of the member, and of the first.
        known
            What is known of this output; None, or where it does not say: as of the first member.
        """
        array = np.asarray(array)
        known = self._checked(array, names, known)
        if self._way == LABELS:
            self._labels.append((array, weight))
            return
        is_of_each = known is not None and known.is_of_each
        self._is_exclusive = self._axis is not None and array.shape[self._axis] > 1 and not is_of_each
        if self._mean is None:
            dtype = np.result_type(array.dtype, np.float32)
            self._mean = np.zeros(array.shape, dtype)
            self._squares = np.zeros(array.shape, dtype) if self._spread else None
            if self._spread and self._is_of_classes:
                shape = array.shape if self._is_exclusive else (2, *array.shape)
                self._votes = np.zeros(shape, np.uint16)
        self._weight += weight
        share = weight / self._weight if weight else 0.0  # the first members may count nothing
        for part in _parts(array.shape, self._axis):
            self._add_part(array[part], (weight, share), known, part)

    def _add_part(
        self, array: np.ndarray, counts: tuple[float, float], known: Criterion | None, part: tuple[slice, ...]
    ) -> None:
        """Add what one member says of a part of the places: so much that it stays in the caches of a processor."""
        weight, share = counts
        value, votes = array, None
        if self._way == "votes" or self._votes is not None:
            votes = self._votes_of(array, known)
        if self._way == "probabilities":
            value = as_probabilities(array, self._axis, known, self._name)
        elif self._way == "votes" and votes is not None:
            value = (votes if self._is_exclusive else votes[1]).astype(np.float32)
            value[np.isnan(array)] = np.nan  # argmax would vote for it
        # the weighted mean and sum of squares as they grow (West, Communications of the ACM 22, 1979)
        step = np.asarray(value - self._mean[part])
        if self._squares is not None:
            square = step**2
            square *= weight * (1 - share)
            self._squares[part] += square
        step *= share
        self._mean[part] += step
        if votes is not None and self._votes is not None:
            self._votes[part if self._is_exclusive else (slice(None), *part)] += votes

    def _checked(self, array: np.ndarray, names: tuple[str, str], known: Criterion | None) -> Criterion | None:
        """What is known of the output of a member, of which a combined number can be made."""
        if self._shape is None:
            self._shape = array.shape
            return self._known
        output, first = f"the output {self._name!r} of {names[0]!r}", names[1]
        if array.shape != self._shape:
            raise DataError(f"{output} {_differing(array.shape, self._shape, self._axis, first)}")
        if (array.dtype.kind in "fc") == (self._way == LABELS):
            kinds = ("scores", "labels") if self._way == LABELS else ("labels", "scores")
            raise DataError(f"{output} holds {kinds[0]}, and that of {first!r} {kinds[1]}; let all return the same")
        said = None if self._known is None else self._known.output
        if known is None or known.output is None:
            if said == "probabilities" and self._way == "probabilities" and (array.min() < 0 or array.max() > 1):
                raise DataError(f"{output} is beyond [0, 1], and that of {first!r} is probabilities; say output=")
            return self._known
        if self._way in ("mean", "logits") and None not in (said, known.output) and said != known.output:
            raise ConfigError(
                f"{output} is {known.output}, and that of {first!r} is {said}, of which combine={self._way!r} makes no "
                "mean; combine='probabilities' makes them alike before"
            )
        return known

    def _votes_of(self, array: np.ndarray, known: Criterion | None) -> np.ndarray:
        """What one member says as true and false: of classes where their scores are, of yes and no in front."""
        axis = self._axis
        if self._is_exclusive and axis is not None and (known is None or known.output != LABELS):
            are_largest = array == array.max(axis, keepdims=True)
            if (are_largest.sum(axis, dtype=np.uint16) == 1).all():  # half the time of argmax, which decides elsewhere
                return np.asarray(are_largest)
        labels = as_labels(array, axis, known, self._name)
        if not self._is_exclusive or axis is None:
            return np.stack([labels == 0, labels == 1])
        numbers = np.arange(array.shape[axis], dtype=labels.dtype).reshape(
            [-1 if one == axis else 1 for one in range(array.ndim)]
        )
        return np.asarray(np.expand_dims(labels, axis) == numbers)

    def result(self) -> np.ndarray:
        """What the members say together."""
        if self._way != LABELS:
            return np.asarray(self._mean)
        classes, votes = self._voted([weight for _, weight in self._labels])
        return np.asarray(classes[votes.argmax(0)])

    def _voted(self, counts: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """The labels that members say, and the shares of each, in front, where members count as given."""
        stacked = np.stack([label for label, _ in self._labels])
        classes, numbers = np.unique(stacked, return_inverse=True)
        numbers = numbers.reshape(stacked.shape)
        weights = np.array(counts) / np.sum(counts)
        return classes, np.stack([np.tensordot(weights, numbers == one, 1) for one in range(len(classes))])

    def spread(self, combined: np.ndarray) -> dict[str, np.ndarray]:
        """How far they differ."""
        if self._way == LABELS:
            _, votes = self._voted([1.0] * len(self._labels))  # a share of members, whatever they count
            return {"disagreement": 1 - votes.max(0)}
        found = {"sd": np.sqrt(self._squares / self._weight)}
        if not self._is_of_classes:
            return found
        probabilities = combined
        if self._way == "logits":
            probabilities = as_probabilities(combined, self._axis, self._known, self._name)
        found["entropy"] = entropy_of(probabilities, self._axis if self._is_exclusive else None)
        classes = self._axis if self._is_exclusive else 0
        total = self._votes.sum(axis=classes, dtype=np.float32)
        found["disagreement"] = 1 - self._votes.max(axis=classes) / total
        return found


def _parts(shape: tuple[int, ...], classes: int | None) -> Iterator[tuple[slice, ...]]:
    """Slices of an array along its longest axis, but for that of the classes, of a few thousand values each."""
    axes = [axis for axis in range(len(shape)) if axis != classes]
    axis = max(axes, key=shape.__getitem__)
    length = max(1, _AT_ONCE * shape[axis] // max(1, math.prod(shape)))
    for start in range(0, shape[axis], length):
        yield (*[slice(None)] * axis, slice(start, start + length))


def _differing(shape: tuple[int, ...], of_first: tuple[int, ...], axis: int | None, first: str) -> str:
    """How the shapes of the outputs of two members differ, in words."""
    if axis is not None and len(shape) == len(of_first):
        others = [(one, other) for place, (one, other) in enumerate(zip(shape, of_first, strict=True)) if place != axis]
        if all(one == other for one, other in others):
            return (
                f"has {shape[axis]} classes, and that of {first!r} has {of_first[axis]}; the members of an ensemble "
                "have the same classes"
            )
    return (
        f"has the shape {shape[1:]} for a case, and that of {first!r} {of_first[1:]}; the members of an ensemble have "
        "the same classes"
    )


def _read_off(known: Criterion | None, array: Any, space: tuple[int, ...]) -> Criterion | None:
    """What is known of an output whose values alone say that they are probabilities of classes."""
    values = np.asarray(array)
    axis = axis_of(values, space, known)
    if known is None or known.output is not None or values.dtype.kind != "f" or axis is None or values.shape[axis] < 2:
        return known
    sums = values.sum(axis)
    are_shares = bool(np.isfinite(sums).all() and (values >= 0).all() and np.abs(sums - 1).max() < _TOLERANCE)
    return known._replace(output="probabilities") if are_shares else known


def _normalised(weights: Sequence[float] | None, number: int) -> list[float]:
    if weights is None:
        return [1 / number] * number
    is_list = isinstance(weights, (list, tuple, np.ndarray)) and all(isinstance(one, numbers.Real) for one in weights)
    found = np.asarray(weights if is_list else (), dtype=np.float64)
    if found.shape != (number,) or not np.isfinite(found).all() or (found < 0).any() or not found.sum():
        raise ConfigError(
            f"weights are one number of at least 0 for each of the {number} members, not all 0, got {weights!r}"
        )
    return [*(found / found.sum()).tolist()]


def way_of(model: Model, inference: Any, tta: Any) -> Inference | None:
    """How a model predicts: as it was asked for, else as the validation of its training did."""
    asked = model.inference if inference == "trained" else inference
    if asked is not None and not isinstance(asked, Inference):
        raise ConfigError(
            f"inference must be a way of prediction, e.g. SlidingWindow(64), 'trained' or None, got {asked!r}"
        )
    if tta is not None and not isinstance(tta, Inference):
        raise ConfigError(f"tta must be a TestTimeAugmentation, got {tta!r}")
    return joined(tta, asked)
