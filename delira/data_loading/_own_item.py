"""Whether a sample is made of its own item of ``dataset.data`` alone, read off the code that makes it.

Proved for the plain ways of writing it; whatever else is done with the dataset counts as reading other items.
"""

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from delira.data_loading.abstract_dataset import AbstractDataset
from delira.data_loading.array_dataset import IterableDataset
from delira.data_loading.file_dataset import BaseCacheDataset, BaseLazyDataset
from delira.data_loading.wrapped_dataset import WrappedDataset

#: these look at nothing but ``self.data[index]``
_OURS = tuple(cls.__getitem__ for cls in (BaseLazyDataset, BaseCacheDataset, IterableDataset, WrappedDataset))
_SELF, _INDEX = "self", "index"
_PASSED_OVER = ("CACHE", "RESUME", "NOP", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL")

Step = tuple[str, Any]


def reads_only_its_item(dataset: AbstractDataset, methods: list[types.FunctionType]) -> bool:
    """Return True if ``dataset[index]`` certainly looks at no other item of ``dataset.data``.

    Parameters
    ----------
    dataset
        Its ``__getitem__`` and the methods that this calls are looked through.
    methods
        Further functions that get the dataset as their first argument, e.g. a ``load_fn`` that is a method.
    """
    cls = type(dataset)
    if any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in cls.__mro__[:-1]):
        return False
    waiting: list[tuple[Any, bool]] = [(function, False) for function in methods]
    waiting += [(getter, True) for getter in _item_getters(cls)]
    done = set()
    while waiting:
        function, is_getter = waiting.pop()
        if function in _OURS or function in done:
            continue
        done.add(function)
        if not isinstance(function, types.FunctionType):
            return False
        names = _attributes_read(function, is_getter)
        if names is None:
            return False
        for name in names - vars(dataset).keys():
            found = _functions_behind(cls, name)
            if found is None:
                return False
            waiting += [(inner, name == "__getitem__") for inner in found]
    return True


def _item_getters(cls: type) -> Iterator[Any]:
    """``__getitem__`` of a class, and those that it may call as ``super()``'s."""
    for base in cls.__mro__:
        if (getter := vars(base).get("__getitem__")) is not None:
            yield getter
            if getter in _OURS or not _calls_super(getter):
                return


def _calls_super(function: object) -> bool:
    return "super" in getattr(getattr(function, "__code__", None), "co_names", ())


def _functions_behind(cls: type, name: str) -> list[Any] | None:
    """Return what runs when an attribute of the class is asked for or called; None if it is not the user's."""
    for base in cls.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            break
    else:
        return None
    if base.__module__.partition(".")[0] == "delira":
        return None
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, types.FunctionType):
        return [value]
    if isinstance(value, functools.partialmethod):
        return [value.func]
    # the first do not get the dataset; constants of a class have nothing to run
    is_harmless = isinstance(value, (staticmethod, classmethod)) or not hasattr(value, "__get__")
    return [] if is_harmless else None


def _attributes_read(function: types.FunctionType, is_getter: bool) -> set[str] | None:
    """Return names of the attributes that a method reads from the dataset; None if it does anything else with it.

    ``self.data[index]`` and ``super().__getitem__(index)`` are left out where ``index`` is what ``__getitem__`` was
    asked for.
    """
    code = function.__code__
    places = code.co_varnames[: code.co_argcount]
    if not places or places[0] in code.co_cellvars or _is_stored(code, places[0]):
        return None
    index = places[1] if is_getter and len(places) > 1 else None
    if index is not None and (index in code.co_cellvars or _is_stored(code, index)):
        index = None
    steps = [*_steps(code, places[0], index), *[("", None)] * 5]
    names = set()
    number = 0
    while number < len(steps):
        step = steps[number][0]
        number += 1
        if step == "super":
            while steps[number][0] in ("class", _SELF, "call"):
                number += 1
            if [steps[number], steps[number + 1][0]] != [("attribute", "__getitem__"), _INDEX]:
                return None
        elif step == _SELF:
            what, name = steps[number]
            if what != "attribute" or name[:2] == "__":
                return None
            if name != "data":
                names.add(name)
            elif [steps[number + 1][0], steps[number + 2][0]] != [_INDEX, "item"]:
                return None
    return names


def _is_stored(code: types.CodeType, name: str) -> bool:
    return any(
        step.opname.startswith(("STORE_FAST", "DELETE_FAST")) and name in _names_of(step)
        for step in dis.get_instructions(code)
    )


def _names_of(step: dis.Instruction) -> tuple[str, ...]:
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _steps(code: types.CodeType, own: str, index: str | None) -> Iterator[Step]:
    """Return what code does, as far as it matters here, whatever release of Python compiled it."""
    for step in dis.get_instructions(code):
        name = step.opname
        if name in _PASSED_OVER:
            continue
        if name.startswith("LOAD_FAST"):
            for local in _names_of(step):
                yield (_SELF if local == own else _INDEX if local == index else "local", local)
        elif name in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == "super":
            yield "super", None
        elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            yield "attribute", step.argval
        elif name == "LOAD_DEREF" and step.argval == "__class__":
            yield "class", None
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and step.argrepr == "[]"):
            yield "item", None
        elif name == "CALL":
            yield "call", None
        else:
            yield "other", name
