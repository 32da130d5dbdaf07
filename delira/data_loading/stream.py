"""Data that can only be read from beginning to end: batches of a stream, and where in it a training stands."""

import copy
import inspect
import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading._exact import check_count, check_flag, collate
from delira.data_loading.array_dataset import WrappedDataset
from delira.errors import ConfigError, DataError, expect, noting

_log = logging.getLogger("delira")
_TUPLE, _ITEMS, _BYTES = "__tuple__", "__items__", "__bytes__"
_ENTRIES = ("pass", "batches", "samples", "in_epoch", "is_over", "stream")


class DataStream:
    """Batches of a stream, to train on: of a generator of yours, of Hugging Face with ``streaming=True``, of MosaicML.

    A checkpoint keeps where the training stands in it, at the batch that was trained on last, so that a run that was
    killed at any step goes on with the same bits. It is read in the process that trains; what the stream does in
    processes of its own is its own matter.

    Parameters
    ----------
    stream
        What ``iter`` gives samples of, once in each pass; or a function without arguments that returns such an
        iterator. If it has ``set_epoch``, that is called with the number of the pass, from 0, before each. A dataset
        of Hugging Face is copied, and not the functions in it: what ``skip`` and ``take`` make of one shares its place.
    batch_size
        Samples per batch; None: the stream gives batches, as they are.
    n_batches
        Batches of an epoch: the next one goes on where it ended, and begins the stream again where that ends. None: an
        epoch is one pass.
    keys
        Names for tuples, as of :class:`WrappedDataset`: pairs are ``("data", "label")`` by default. For dicts a list of
        the entries wanted, or ``{name here: name there}``.
    drop_last
        Whether to leave out the last batch of a pass if it is smaller.
    resume
        ``"state"``: the stream goes to its place by ``load_state_dict``, which is as exact as that is. ``"skip"``: it
        is read again up to there, and what was trained on already is dropped; exact where it gives the same samples in
        every pass of one number, however long it takes. None: by its state, if it has ``state_dict`` and
        ``load_state_dict``, and no shuffle buffer of Hugging Face, whose content is in no state, and is no loader
        without workers of such a dataset, which begins later passes at the state that was loaded.

    Raises
    ------
    ConfigError
        If ``stream`` is an iterator, which can be read only once, or an argument is wrong.

    Examples
    --------
    >>> stream = DataStream(lambda: ((np.full(3, i), i % 2) for i in range(10)), batch_size=4)
    >>> [batch["label"].tolist() for batch in stream]
    [[0, 1, 0, 1], [0, 1, 0, 1], [0, 1]]
    """

    #: a data manager does not take it for a list of samples
    is_stream_of_batches = True

    def __init__(
        self,
        stream: Iterable[Any] | Callable[[], Iterator[Any]],
        batch_size: int | None = None,
        n_batches: int | None = None,
        keys: Iterable[str] | Mapping[str, str] | None = None,
        *,
        drop_last: bool = False,
        resume: str | None = None,
    ) -> None:
        self.stream = _apart(_check_stream(stream))
        # what a validation reads, so that the training stays where it is; the same where nobody can copy it
        self._beside = _apart(stream)
        self.batch_size = None if batch_size is None else check_count(batch_size, "batch_size", 1)
        #: batches of an epoch, None if nobody knows before its end
        self.n_batches = None if n_batches is None else check_count(n_batches, "n_batches", 1)
        self._drop_last = check_flag(drop_last, "drop_last")
        expect(("resume", resume, resume in (None, "state", "skip"), "'state', 'skip' or None"))
        has_state = _has_state(stream)
        if resume == "state" and not has_state:
            raise ConfigError(
                f"resume='state' needs state_dict and load_state_dict, which a {self._name} does not have; write them, "
                "or pass resume='skip'"
            )
        self._by_state = has_state and not _hides_its_place(stream) if resume is None else resume == "state"
        self._is_told = resume is not None or self._by_state
        # one that goes to a place may tell where it was before, until it is read
        self._beginning = copy.deepcopy(stream.state_dict()) if self._by_state else None  # type: ignore[union-attr]
        self._namer = WrappedDataset([], keys)
        self._pass = self._n_given = self._n_samples = self._in_epoch = 0
        self._is_over = False
        self._samples: Iterator[Any] | None = None
        self._pending: dict[str, Any] | None = None

    @property
    def _name(self) -> str:
        return type(self.stream).__name__

    def describe(self) -> dict[str, Any]:
        """Return the settings that decide what the batches are, by name; for manifests and fingerprints."""
        return {
            "stream": self._name, "batch_size": self.batch_size, "n_batches": self.n_batches,
            "drop_last": self._drop_last,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name}, batch_size={self.batch_size}, n_batches={self.n_batches})"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the batches of one epoch; after :meth:`load_state_dict` those that are left of it."""
        if not self._is_told:
            self._is_told = True
            _log.warning(
                "the %s keeps no position that goes with a checkpoint: a run that goes on inside of a pass reads what "
                "it had trained on again and drops it, which is exact if each pass gives the same samples every time "
                "(resume='skip' says that you know)", self._name,
            )  # fmt: skip
        if self._by_state and not self._n_given:
            self.state_dict()  # what no checkpoint can hold is refused before an hour of training
        if self.n_batches is None and self._samples is not None:  # it was broken off
            self._end_pass()
        if self._pending is None:
            self._in_epoch = 0
        try:
            yield from self._epoch()
        finally:  # also where somebody has had enough
            self.end_epoch()

    def end_epoch(self) -> None:
        """Let the next ``iter`` give a whole epoch from here, also where the place that was loaded lies inside one."""
        self._in_epoch = 0
        if self._pending is not None:  # nothing was left to read of the epoch, so it waits for the next one
            self._pending["in_epoch"] = 0

    def in_order(self) -> Generator[dict[str, Any], None, None]:
        """Yield the batches of the pass number 0, as every validation reads them; a position stays as it was."""
        twin = copy.copy(self)
        twin._pass = twin._n_given = twin._n_samples = twin._in_epoch = 0
        twin._samples, twin._pending, twin._is_told, twin._is_over = None, None, True, False
        twin.stream = self._beside
        before = self.state_dict() if self._by_state and self._beside is self.stream else None
        if self._by_state:
            twin.stream.load_state_dict(copy.deepcopy(self._beginning))  # type: ignore[attr-defined]
        try:
            yield from twin
        finally:
            if before is not None:  # opened anew: an iterator of before and the state may know nothing of each other
                self.load_state_dict(before)

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands, after the batch that was given last: plain values.

        Raises
        ------
        ConfigError
            If the state of the stream holds what no checkpoint can.
        """
        if self._pending is not None:
            return dict(self._pending)
        state = None
        if self._by_state:
            state = _packed(self.stream.state_dict(), f"state_dict() of the {self._name}")  # type: ignore[attr-defined]
        values = self._pass, self._n_given, self._n_samples, self._in_epoch, self._is_over, state
        return dict(zip(_ENTRIES, values, strict=True))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place.

        Parameters
        ----------
        state
            From :meth:`state_dict`.

        Raises
        ------
        ConfigError
            If it is that of other data.
        """
        if not isinstance(state, Mapping) or {*state} != {*_ENTRIES}:
            raise ConfigError(
                f"the checkpoint was written with other training data than a {type(self).__name__}; train with those, "
                "or resume from a checkpoint of a whole epoch"
            )
        self._pending, self._samples = dict(state), None
        self._pass, self._n_given, self._n_samples, self._in_epoch = (int(state[name]) for name in _ENTRIES[:4])
        self._is_over = bool(state["is_over"])

    # ------------------------------------------------------------------ one epoch, one pass

    def _epoch(self) -> Iterator[dict[str, Any]]:
        while self.n_batches is None or self._in_epoch < self.n_batches:
            batch = self._next()
            if batch is not None:
                self._in_epoch += 1
                yield batch
                continue
            was_empty = not self._n_given
            self._end_pass()
            if self.n_batches is None:
                return
            if was_empty:
                raise DataError(f"a pass through the {self._name} gave no batch; it must begin anew in each iter()")

    def _next(self) -> dict[str, Any] | None:
        """The next batch; None if the pass has ended."""
        was_restored = self._pending is not None
        if self._is_over:  # its last batch was smaller, so the stream stands where its next pass begins
            if was_restored:
                self._restore()
            return None
        # the iterator of a loader may have a length, or refuse to tell it: its truth says nothing
        samples = self._open() if self._samples is None else self._samples
        batch = self._taken(samples)
        if batch is None and was_restored and not self._n_given and self._by_state:
            batch = self._taken(self._open())  # a state at the end of a pass: the next one begins
        return batch

    def _open(self) -> Iterator[Any]:
        skips = self._restore()
        self._samples = samples = iter(self.stream() if not hasattr(self.stream, "__iter__") else self.stream)
        if skips:
            wanted = self._n_given if self.batch_size is None else self._n_samples
            found = sum(1 for _ in itertools.islice(samples, wanted))
            if found < wanted:
                raise DataError(
                    f"the {self._name} gave {found} of the {wanted} samples that the run had read in this pass; it "
                    "must give the same in every pass of one number"
                )
        return samples

    def _restore(self) -> bool:
        """Let the stream go to a place that was loaded; returns True if it has to be read up to there."""
        state, self._pending = self._pending, None
        if hasattr(self.stream, "set_epoch"):
            self.stream.set_epoch(self._pass)
        if state is None or state["stream"] is None or not self._by_state:
            return state is not None
        self.stream.load_state_dict(_unpacked(state["stream"]))  # type: ignore[attr-defined]
        return False

    def _taken(self, samples: Iterator[Any]) -> dict[str, Any] | None:
        first = self._n_samples
        with noting(lambda: f"while batch {self._n_given + 1} of pass {self._pass} of the {self._name} was read"):
            if self.batch_size is None:
                given = next(samples, None)
                batch = None if given is None else self._namer.converted(given, self._n_given)
            else:
                taken = list(itertools.islice(samples, self.batch_size))
                self._is_over = len(taken) < self.batch_size
                if not taken or (self._drop_last and len(taken) < self.batch_size):
                    return None
                named = [self._namer.converted(one, first + place) for place, one in enumerate(taken)]
                batch = collate(named, range(first, first + len(taken)))
                self._n_samples += len(taken)
        self._n_given += batch is not None
        return batch

    def _end_pass(self) -> None:
        self._pass, self._n_given, self._n_samples, self._samples = self._pass + 1, 0, 0, None
        self._is_over = False


def _check_stream(stream: Any) -> Any:
    if hasattr(stream, "__next__"):
        raise ConfigError(
            f"a {type(stream).__name__} can be read only once, and a training reads its data in each epoch; pass the "
            "function that makes it, e.g. DataStream(lambda: samples(), batch_size=32)"
        )
    if not hasattr(stream, "__iter__") and not callable(stream):
        raise ConfigError(f"a stream must be iterable, or a function that returns an iterator; got {stream!r:.100}")
    return stream


def _apart(stream: Any) -> Any:
    """A stream of Hugging Face, copied: those that ``skip``, ``take`` or ``map`` made of one share where they stand."""
    if not _is_of_hugging_face(stream):
        return stream
    memo = {}
    for part in _parts_of(stream):
        for name, value in vars(part).items():  # the user's functions and what these read stay what they are
            if callable(value) or name.endswith(("kwargs", "cache")):
                memo[id(value)] = value
    try:
        return copy.deepcopy(stream, memo)
    except Exception:  # what is open, locked or of a cluster; __deepcopy__ raises what it likes
        return stream


def _parts_of(stream: Any) -> list[Any]:
    """A stream of Hugging Face, or a loader of one, and what it is put together of."""
    parts: list[Any] = [stream]
    for part in parts:
        held = getattr(part, "__dict__", {})
        found = [held.get(name) for name in ("dataset", "_ex_iterable", "ex_iterable")]
        found += held.get("ex_iterables") or []
        parts += [one for one in found if one is not None and not any(one is known for known in parts)]
    return parts


def _is_of_hugging_face(stream: Any) -> bool:
    return "_ex_iterable" in getattr(stream, "__dict__", {})


def _has_state(stream: Any) -> bool:
    """Return True if it tells its position by itself; a ``StreamingDataset`` must be told it, and its loader not."""
    if not (hasattr(stream, "state_dict") and hasattr(stream, "load_state_dict")):
        return False
    try:
        inspect.signature(stream.state_dict).bind()
    except TypeError:
        return False
    except ValueError:  # written in C
        return True
    return True


def _hides_its_place(stream: Any) -> bool:
    """Return True if by its state a stream of Hugging Face, or a loader of one, does not come to its place."""
    parts = _parts_of(stream)
    if any(type(part).__name__ == "BufferShuffledExamplesIterable" for part in parts):
        return True  # what is in a buffer is in no state
    if any(getattr(getattr(part, "_shuffling", None), "buffer_size", 0) for part in parts):
        return True
    # told of no epoch, a dataset in this process begins all passes to come at the state that was loaded
    is_loader = not _is_of_hugging_face(stream) and any(map(_is_of_hugging_face, parts))
    return is_loader and not getattr(stream, "num_workers", 0) and not hasattr(stream, "set_epoch")


class InOrder:
    """The batches of a pass beside a training.

    Parameters
    ----------
    batches
        As :meth:`DataStream.in_order` gives them.
    changed
        What each goes through.
    """

    def __init__(self, batches: Generator[Any, None, None], changed: Callable[[Any], Any] | None = None):
        self._batches, self._changed = batches, changed

    def __iter__(self) -> "InOrder":
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        return batch if self._changed is None else self._changed(batch)

    def close(self) -> None:
        """Have the stream stand where the training left it, also where the pass was broken off."""
        self._batches.close()


# ------------------------------------------------------------------ what a checkpoint can hold


def _packed(value: Any, where: str) -> Any:
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biuf":
        return np.array(value) if isinstance(value, np.ndarray) else value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, bytes):
        return {_BYTES: np.frombuffer(value, np.uint8).copy()}
    if isinstance(value, tuple):
        return {_TUPLE: [_packed(one, f"{where}[{place}]") for place, one in enumerate(value)]}
    if isinstance(value, list):
        return [_packed(one, f"{where}[{place}]") for place, one in enumerate(value)]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _packed(one, f"{where}[{key!r}]") for key, one in value.items()}
        return {_ITEMS: [[_packed(key, where), _packed(one, f"{where}[{key!r}]")] for key, one in value.items()]}
    raise ConfigError(
        f"{where} is a {type(value).__name__}, which no checkpoint can hold; keep numbers, texts, lists, tuples, dicts "
        "and numpy arrays there, or pass resume='skip'"
    )


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {_BYTES}:
        return np.asarray(value[_BYTES], np.uint8).tobytes()
    if value.keys() == {_TUPLE}:
        return tuple(_unpacked(one) for one in value[_TUPLE])
    if value.keys() == {_ITEMS}:
        return {_unpacked(key): _unpacked(one) for key, one in value[_ITEMS]}
    return {key: _unpacked(one) for key, one in value.items()}
