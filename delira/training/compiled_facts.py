"""What a compiled step has of the state: plain values are frozen in it, arrays that change are its inputs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira import state as keys
from delira.contract.kinds import Tree
from delira.state import State
from delira.utils.arrays import iterate_leaves

#: entry of a batch: the arrays of the state that the step reads
CARRIED = "carried"
#: keys whose values every step sets
SETTLED = frozenset(keys.MEANING) - {keys.MIXUP_LAMBDA, keys.MIXUP_PERMUTATION}


#: notes of a compiled step about a key of which it only saw whether the state has it
PRESENT, ABSENT = object(), object()


def is_of_arrays(value: Tree) -> bool:
    """Return True if a value is an array, or a structure of nothing else."""
    leaves = [leaf for _, leaf in iterate_leaves(value)]
    return bool(leaves) and all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves)


#: gives the leaves of a value with their paths, and the arrays within them that a traced step would not follow
Leaves = Callable[[Any], list[tuple[Any, Any]]]


class NotingState(State):
    """A state that notes what is read of it: a compiled step goes on with it as it is then."""

    noted: dict[Any, Any]
    leaves_of: Leaves
    #: arrays that the step was not given
    outer: dict[Any, Any]

    def __getitem__(self, key: Any) -> Any:
        return self._note(key, super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, or another one if there is none."""
        return self._note(key, super().get(key, default))

    def __contains__(self, key: Any) -> bool:
        is_there = super().__contains__(key)
        if key not in keys.MEANING:
            self.noted.setdefault(key, PRESENT if is_there else ABSENT)
        return is_there

    def _note(self, key: Any, value: Tree) -> Any:
        if self.noted.get(key, PRESENT) is not PRESENT:  # what the step itself wrote comes later
            return value
        is_plain = isinstance(value, (bool, int, float, str, np.generic))
        if is_plain or (key in self.outer and self.outer[key] is value):
            self.noted[key] = value
        elif key not in keys.MEANING and not is_of_arrays(value):
            # lists and dicts may be written into, so their leaves are kept
            self.noted[key] = self.leaves_of(value) if super().__contains__(key) else ABSENT
        return value

    def __missing__(self, key: Any) -> Any:
        self.noted.setdefault(key, ABSENT)
        return super().__missing__(key)


class CompiledFacts:
    """Keeps a compiled step and the state that its Python has read together.

    Parameters
    ----------
    constants_of
        The backend's verb.
    """

    def __init__(self, constants_of: Callable[[Any], Sequence[Any]]) -> None:
        self._constants_of = constants_of
        self._frozen: dict[Any, Any] = {}
        self._outer: dict[Any, Any] = {}
        self._inputs: set[Any] = set()
        #: arrays that go into the step at hand
        self.carried: dict[Any, Any] = {}

    @contextlib.contextmanager
    def noting(self, facts: State) -> Iterator[None]:
        """Scope of what is traced: values that are read of the state become part of the step."""
        if isinstance(facts, NotingState):
            yield
            return
        facts.__class__, facts.leaves_of = NotingState, self._leaves_of  # type: ignore[attr-defined]
        facts.noted, facts.outer = self._frozen, self._outer  # type: ignore[attr-defined]
        try:
            yield
        finally:
            facts.__class__ = State
            self._frozen.pop(keys.BATCH, None)

    def _leaves_of(self, value: Tree) -> list[tuple[Any, Any]]:
        leaves = []
        for path, leaf in iterate_leaves(value):
            leaves.append((path, leaf))
            leaves += [((*path, number), array) for number, array in enumerate(self._constants_of(leaf))]
        return leaves

    def _differs(self, facts: Mapping[Any, Any], key: Any, before: Any) -> bool:
        """Return True if the state has something else under a key than what was noted of it."""
        if before is PRESENT or before is ABSENT:
            return (key in facts) is (before is ABSENT)
        now = facts.get(key)
        if is_of_arrays(before):  # an array of numpy may have been written into
            return now is not before or isinstance(before, np.ndarray)
        if isinstance(before, list):
            leaves = self._leaves_of(now)
            return len(leaves) != len(before) or any(
                path != other or _is_other(leaf, one) for (path, leaf), (other, one) in zip(leaves, before, strict=True)
            )
        return _is_other(now, before)

    def begin(self, batch: dict[str, Any], facts: State) -> None:
        """Put the arrays that came with the batch into the state, as the traced step has them."""
        facts.update(batch.pop(CARRIED, {}))
        self._outer.clear()
        self._outer.update({
            key: value
            for key, value in facts.items()
            if key not in SETTLED and key not in self._inputs and is_of_arrays(value)
        })  # fmt: skip

    def give(self, keys: set[Any]) -> None:
        """Make the arrays under these keys of the state inputs of the step."""
        self._inputs.update(keys)

    def changed(self, facts: State) -> list[Any]:
        """What the step was compiled with and is another by now; arrays among it become inputs."""
        if not self._frozen:
            return []
        changed = [key for key, value in self._frozen.items() if self._differs(facts, key, value)]
        if changed:
            self.give({key for key in changed if is_of_arrays(self._frozen[key]) or is_of_arrays(facts.get(key))})
            self._frozen.clear()
        return changed

    def join(self, batch: dict[str, Any], facts: State) -> dict[str, Any]:
        """The batch with the arrays of the state that the step reads."""
        if not self._inputs:
            return batch
        self._inputs = {key for key in self._inputs if key not in facts or is_of_arrays(facts[key])}
        self.carried = {key: facts[key] for key in self._inputs if key in facts}
        return {**batch, CARRIED: dict(self.carried)}


def written(facts: State, before: Mapping[Any, Any]) -> list[Any]:
    """Keys of the arrays in a state that were not there before, or are others now."""
    return [key for key, value in facts.items() if value is not before.get(key) and is_of_arrays(value)]


def _is_other(now: Any, before: Any) -> bool:
    if not isinstance(before, (bool, int, float, str, np.generic)):
        return now is not before
    return type(now) is not type(before) or (now != before and now is not before)  # no number equals itself
