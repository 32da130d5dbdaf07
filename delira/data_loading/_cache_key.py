"""What decides how a sample comes out: the code that makes it, its parameters, and what it is made from."""

import contextlib
import dis
import functools
import importlib.util
import itertools
import mmap
import os
import re
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import _content, _exact
from delira.data_loading.abstract_dataset import AbstractDataset, source_of
from delira.data_loading.array_dataset import IterableDataset, WrappedDataset
from delira.data_loading.file_dataset import BaseCacheDataset, BaseLazyDataset
from delira.data_loading.mapped_dataset import MappedDataset, content_of_arrays, files_of_arrays
from delira.utils.arrays import tensor_class
from delira.utils.user_code import codes_inside, content_of, is_foreign, is_own_file, names_used

_FORMAT = 2
"""Part of every key; to be raised when files are written otherwise, or delira's own load functions change."""
_PLAIN = (bool, int, float, complex, bytes, np.generic, range, slice, types.NoneType, types.EllipsisType)
_CONTAINERS = (dict, list, tuple, set, frozenset, np.ndarray)
_DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, np.ufunc)


def preprocessing_key(root: AbstractDataset, version: object, hash_funcs: _content.HashFunctions | None = None) -> str:
    """Return 16 hex digits for everything but the items: code, parameters, ``version``.

    The items too, with their files, unless a sample certainly looks at its own alone.

    Raises
    ------
    ConfigError
        If the content of an object cannot be told.
    """
    try:
        describer = Describer(root=root, hash_funcs=hash_funcs)
        described = [describer(type(root)), _parameters(root, describer, with_items=False)]
        if _has_items(root) and (describer.meets_root or not reads_only_its_item(root, describer.methods_of_root)):
            described.append(Describer(root=root, hash_funcs=hash_funcs)(root.data))
        return _content.fingerprint_of([_FORMAT, Describer(looks_at_files=False)(version), described])[:16]
    except _content.OpaqueError as error:
        raise error.as_config_error() from error.__cause__


def sample_key(
    root: AbstractDataset, index: int, hash_funcs: _content.HashFunctions | None = None
) -> tuple[str, list[str]]:
    """Return what sample ``index`` is made from: 32 hex digits for the item, and the files that it names.

    Raises
    ------
    ConfigError
        If the content of an object cannot be told.
    """
    item = [root.data[index]] if _has_items(root) else []
    if (source := source_of(root, index)) is not None and not (item and source is item[0]):
        item.append(source)
    files = [path for path in _content.strings_in(item).values() if os.path.exists(path)]
    # only of our own __getitem__ it is known that items with one content give one sample
    place = None if type(root).__getitem__ is BaseLazyDataset.__getitem__ else index
    try:
        described = Describer(looks_at_files=False, hash_funcs=hash_funcs)(item)
    except _content.OpaqueError as error:
        error.where = [f"the item of sample {index}", *error.where[1:]]
        raise error.as_config_error() from error.__cause__
    return _content.fingerprint_of([described, place])[:32], files


def _has_items(root: AbstractDataset) -> bool:
    data = vars(root).get("data")
    return isinstance(data, (list, tuple, np.ndarray)) and len(data) == len(root)


def _parameters(dataset: AbstractDataset, describer: "Describer", with_items: bool) -> Any:
    state = describer.attributes(dataset)
    if isinstance(dataset, MappedDataset):
        # the arrays may be larger than memory: a glance, and the times when their files or chunks were changed
        digests = [rows.digest() for rows in dataset.data.values() if rows.path is None]
        stamps = [_stamps(path) for path in files_of_arrays(dataset)]
        state["data"] = [content_of_arrays(dataset), stamps, [one for one in digests if one is not None]]
    elif not with_items and _has_items(dataset):
        del state["data"]
        # what the items were listed from; but who writes __getitem__ may look there for the files
        is_ours = type(dataset).__getitem__ is BaseLazyDataset.__getitem__
        if is_ours or not isinstance(state.get("data_path"), (str, os.PathLike)):
            state.pop("data_path", None)
    return describer(state)


class Describer:
    """Turns code and parameters into a tree of plain values and arrays, to be hashed.

    Functions and classes are described by their byte code, defaults, closures and the global names they use,
    as long as they do not belong to Python or an installed package: these count by name.

    Parameters
    ----------
    looks_at_files
        Whether a string that names a file stands for its size and times of last change as well.
    root
        The dataset that is described.
    hash_funcs
        For types whose content cannot be told: what tells one object from another.

    Attributes
    ----------
    meets_root : bool
        Whether something that was described refers to ``root``, as more than a method of it.
    methods_of_root : list of function
        Those functions that were met as methods of ``root``.
    """

    def __init__(
        self,
        looks_at_files: bool = True,
        root: AbstractDataset | None = None,
        hash_funcs: _content.HashFunctions | None = None,
    ) -> None:
        self._looks_at_files = looks_at_files
        self._hash_funcs = hash_funcs or {}
        self._root = root
        self.meets_root = False
        self.methods_of_root: list[types.FunctionType] = []
        self._seen: dict[int, tuple[int, Any]] = {}  # the object too, else its id may be given to another
        self._imported: set[str] = set()
        if root is not None:
            self.enter(root)  # a load_fn may be a method of it

    def __call__(self, value: object) -> Any:
        """Describe any value."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, (str, os.PathLike)):
            return self._text(os.fsdecode(value))
        if isinstance(value, types.ModuleType):
            return value.__name__
        for cls in type(value).__mro__ if self._hash_funcs else ():
            if cls in self._hash_funcs:
                function = self._hash_funcs[cls]
                return [cls.__qualname__, None if function is None else self(function(value))]
        kind: Any = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
        # of the user's, with attributes
        if kind is not None and id(value) not in self._seen and _content.is_own(type(value)):
            self.enter(value)
            content = np.asarray(value) if kind is np.ndarray else kind(value)
            return [self(type(value)), self(content), self(self.attributes(value))]
        if isinstance(value, Mapping):
            # the order counts for what is seen twice
            return {key: self._inside(str(key), self, value[key]) for key in sorted(value, key=repr)}
        if isinstance(value, (list, tuple)):
            return [self._inside(str(place), self, element) for place, element in enumerate(value)]
        if isinstance(value, (set, frozenset)):  # the order differs from process to process
            anew = functools.partial(Describer, self._looks_at_files, hash_funcs=self._hash_funcs)
            return sorted(_content.fingerprint_of(anew()(element)) for element in value)
        if isinstance(value, np.memmap) and isinstance(value.base, mmap.mmap):  # maybe larger than memory
            return [self._text(str(value.filename)), value.offset, value.shape, value.dtype.str, value.strides]
        if isinstance(value, (np.ndarray, tensor_class())) or _content.is_foreign_array(value):
            return self._array(value)
        return self._code_or_object(value)

    def _inside(self, name: str, describe: Callable[..., Any], *values: Any) -> Any:
        """Describe what an object keeps under a name, which is told if it cannot be described."""
        try:
            return describe(*values)
        except _content.OpaqueError as error:
            error.where.insert(0, name)
            raise

    def _array(self, value: Any) -> Any:
        """Describe an array or a tensor, with what it holds beside its values."""
        if isinstance(value, np.ma.MaskedArray):
            return ["masked", self(value.data), np.ma.getmaskarray(value), self(value.fill_value)]
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return ["objects", str(value.dtype), value.shape, [self(element) for element in value.reshape(-1).tolist()]]
        array = value.cpu() if hasattr(value, "cpu") else value
        try:
            values = _exact.as_array(array)
        except (TypeError, ValueError, RuntimeError) as error:
            if "bfloat16" not in str(getattr(value, "dtype", "")):
                raise _content.OpaqueError(value) from error
            values = _exact.as_array(array.float())  # holds the same values
        is_plain = type(value).__module__.partition(".")[0] in ("numpy", *_content.ARRAYS)
        # e.g. an affine matrix, or a unit
        return values if is_plain else [type(value).__qualname__, values, self(self.attributes(value))]

    def enter(self, value: object) -> None:
        """Remember an object, so that what refers to itself ends."""
        self._seen[id(value)] = (len(self._seen), value)

    def attributes(self, value: object) -> dict[str, Any]:
        """Return the attributes of an object, without what delira or a thread keeps in it."""
        slots = {name: getattr(value, name, None) for name in _content.slots_of(value) if name[:2] != "__"}
        return {
            name: inner
            for name, inner in (slots | getattr(value, "__dict__", {})).items()
            if not (name.startswith("_delira_") or isinstance(inner, threading.local))
        }

    def _code_or_object(self, value: object) -> Any:
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.MethodType):
            if value.__self__ is self._root and isinstance(value.__func__, types.FunctionType):
                self.methods_of_root.append(value.__func__)
                return [self(value.__func__), "root"]
            return [self(value.__func__), self(value.__self__)]
        if isinstance(value, (functools.partial, functools.partialmethod)):
            return [self(value.func), self(value.args), self(value.keywords)]
        if isinstance(value, types.BuiltinFunctionType):  # methods of objects written in C are such functions too
            return [_content.describe_callable(value), self(value.__self__)]
        if isinstance(value, _DESCRIPTORS):
            return _content.describe_callable(value)
        if isinstance(value, (types.FunctionType, type)) and not _content.is_own(value):
            # modules of delira may be moved
            return value.__qualname__ if _content.is_deliras(value) else f"{value.__module__}.{value.__qualname__}"
        if id(value) in self._seen:
            self.meets_root |= value is self._root
            return ["seen", self._seen[id(value)][0]]
        self.enter(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            parts = {name: _unwrapped(part) for name, part in vars(value).items() if _counts(name, part)}
            return [value.__qualname__, self(parts), self(value.__bases__)]
        if isinstance(value, AbstractDataset):
            return [self(type(value)), _parameters(value, self, with_items=True)]
        return self._object(value)

    def _object(self, value: object) -> Any:
        cls = type(value)
        if isinstance(known := getattr(value, "_fingerprint", None), str):  # Hugging Face: of data and transforms
            return [self(cls), known]
        if callable(value) and hasattr(value, "__wrapped__"):  # what else a cache or a compiler keeps changes
            return [self(cls), self(value.__wrapped__)]
        if _content.is_own(cls) and not _content.is_generator(value):
            hidden = _content.parts_of(value) if _content.has_hidden_state(cls) else None
            return [self(cls), self(self.attributes(value)), self(hidden)]
        return [self(cls), self(_content.parts_of(value))]

    def _text(self, text: str) -> Any:
        if not self._looks_at_files:
            return text
        try:
            status = os.stat(text)
        except (OSError, ValueError):  # no file, or no possible name of one
            return text
        return [text, status.st_size, status.st_mtime_ns, status.st_ctime_ns] if os.path.isfile(text) else text

    def _function(self, function: types.FunctionType) -> Any:
        # not __name__, which depends on how a program was started
        used = names_used(function.__code__)
        around = function.__globals__
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return [
            self._code(function.__code__),
            self(function.__defaults__),
            self(function.__kwdefaults__),
            self({name: content_of(cell) for name, cell in closure}),
            {
                name: self._inside(name, self._global, around[name], used)
                for name in sorted(used & around.keys())
                if name[:2] != "__"
            },
            self._imports(function.__code__, function.__globals__.get("__package__") or ""),
        ]

    def _global(self, value: object, used: frozenset[str], above: tuple[Any, ...] = ()) -> Any:
        """Describe a global value; of a module of the user's the attributes that have a name in ``used``."""
        if not isinstance(value, types.ModuleType) or not _content.is_own(value) or value in above:
            return self(value)
        names = sorted(name for name in used & vars(value).keys() if name[:2] != "__")
        return [value.__name__, {name: self._global(vars(value)[name], used, (*above, value)) for name in names}]

    def _imports(self, code: types.CodeType, package: str) -> dict[str, Any]:
        """Describe the user's modules that code imports when it runs, as they are on disk."""
        # whether one of them is in sys.modules yet must make no difference, and to import it here may cost much
        described: dict[str, Any] = {}
        for name in sorted(_imported(code, package)):
            if name in self._imported or (spec := _own_spec(name)) is None:
                continue
            self._imported.add(name)
            source = Path(spec.origin).read_bytes()
            try:
                body = compile(source, spec.origin, "exec", dont_inherit=True)
            except SyntaxError:  # raised again by who runs the import
                described[name] = source
            else:
                described[name] = [self._code(body), self._imports(body, spec.parent)]
        return described

    def _code(self, code: types.CodeType) -> Any:
        # neither names of files nor numbers of lines: a comment more is the same code
        return [code.co_code, code.co_exceptiontable, code.co_names, self(code.co_consts)]


def _stamps(path: str) -> list[Any]:
    """Sizes and times of change of a file, or of all files of a store; its name does not count."""
    inside = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    files = inside if os.path.isdir(path) else [path]
    found = [(os.path.relpath(file, path), os.stat(file)) for file in files]
    return [[name, status.st_size, status.st_mtime_ns, status.st_ctime_ns] for name, status in found]


def _unwrapped(value: object) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if isinstance(value, functools.cached_property):
        return value.func
    return value.fget if isinstance(value, property) else value


def _counts(name: str, value: object) -> bool:
    """Return True if an attribute of a class is code or a constant, and not what Python keeps there."""
    is_code = isinstance(_unwrapped(value), types.FunctionType)
    return is_code or not (name.startswith(("__", "_abc_")) or isinstance(value, types.MemberDescriptorType))


def _imported(code: types.CodeType, package: str) -> set[str]:
    """Return the full names of the modules that code imports, also in functions within it."""
    found = set()
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for number, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = steps[number - 2].argval, steps[number - 1].argval or ()
            with contextlib.suppress(ImportError):  # relative to no package
                module = importlib.util.resolve_name("." * level + step.argval, package)
                found |= {module, *(f"{module}.{name}" for name in names)}
    found |= {above for name in found for above in itertools.accumulate(name.split("."), "{}.{}".format)}
    return found.union(*(_imported(inner, package) for inner in codes_inside(code)))


def _own_spec(name: str) -> Any:
    """Find the source of a module of the user's without importing what it is in; None if there is none."""
    if is_foreign(name):
        return None
    spec: ModuleSpec | None = None
    folders: list[str] | None = None
    for full_name in itertools.accumulate(name.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(full_name, folders)
        if spec is None:
            return None
        folders = spec.submodule_search_locations or []
    loader = None if spec is None else spec.loader
    return spec if isinstance(loader, SourceFileLoader) and is_own_file(loader.path) else None


# ------------------------------------------------------------------ whether a sample is made of its own item alone
# Proved for the plain ways of writing it; whatever else is done with the dataset counts as reading other items.

#: these look at nothing but ``self.data[index]``
_OURS = tuple(cls.__getitem__ for cls in (BaseLazyDataset, BaseCacheDataset, IterableDataset, WrappedDataset))
_PASSED_OVER = ("CACHE", "RESUME", "NOP", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL")
_MEANINGS = {"BINARY_SUBSCR": "item", "CALL": "call"}
#: steps that are ``super().__getitem__(index)`` and ``self.data[index]``, where ``index`` is what was asked for
_ITS_ITEM = re.compile(r"(?<!\S)(super (class |self |call )*\.__getitem__ index|self \.data index item)(?!\S)")
_ATTRIBUTE = re.compile(r"(?<!\S)self \.(?!__)(\w+)")


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
            if getter in _OURS or "super" not in getattr(getattr(getter, "__code__", None), "co_names", ()):
                return


def _functions_behind(cls: type, name: str) -> list[Any] | None:
    """Return what runs when an attribute of the class is asked for or called; None if it is not the user's."""
    base = next((base for base in cls.__mro__ if name in vars(base)), None)
    if base is None or _content.is_deliras(base):
        return None
    value = vars(base)[name]
    if isinstance(value, (property, functools.cached_property, types.FunctionType)):
        return [_unwrapped(value)]
    if isinstance(value, functools.partialmethod):
        return [value.func]
    # the first do not get the dataset; constants of a class have nothing to run
    return [] if isinstance(value, (staticmethod, classmethod)) or not hasattr(value, "__get__") else None


def _attributes_read(function: types.FunctionType, is_getter: bool) -> set[str] | None:
    """Return names of the attributes that a method reads from the dataset; None if it does anything else with it.

    ``self.data[index]`` and ``super().__getitem__(index)`` are left out where ``index`` is what ``__getitem__`` was
    asked for.
    """
    code = function.__code__
    places = code.co_varnames[: code.co_argcount]
    if not places or _is_stored(code, places[0]):
        return None
    index = places[1] if is_getter and len(places) > 1 and not _is_stored(code, places[1]) else None
    steps = _ITS_ITEM.sub("other", " ".join(_steps(code, places[0], index)))
    names = set(_ATTRIBUTE.findall(steps))
    is_clear = "data" not in names and not {"self", "super"} & {*_ATTRIBUTE.sub("other", steps).split()}
    return names if is_clear else None


def _is_stored(code: types.CodeType, name: str) -> bool:
    """Return True if code, or a function inside of it, may give a variable another value."""
    stores = (step for step in dis.get_instructions(code) if step.opname.startswith(("STORE_FAST", "DELETE_FAST")))
    return name in code.co_cellvars or any(name in _names_of(step) for step in stores)


def _names_of(step: dis.Instruction) -> tuple[str, ...]:
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _steps(code: types.CodeType, own: str, index: str | None) -> Iterator[str]:
    """Return what code does, as far as it matters here, whatever release of Python compiled it."""
    for step in dis.get_instructions(code):
        name = step.opname
        if name in _PASSED_OVER:
            continue
        if name.startswith("LOAD_FAST"):
            yield from ("self" if local == own else "index" if local == index else "local" for local in _names_of(step))
        elif name in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == "super":
            yield "super"
        elif name == "LOAD_DEREF" and step.argval == "__class__":
            yield "class"
        elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            yield f".{step.argval}"
        else:
            yield "item" if (name, step.argrepr) == ("BINARY_OP", "[]") else _MEANINGS.get(name, "other")
