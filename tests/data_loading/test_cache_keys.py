"""Keys of cached samples change with code and parameters, and with nothing else."""

import functools
import os
import pathlib
import pickle
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from other_processes import printed

from delira.data_loading import AbstractDataset, BaseLazyDataset, DictDataset
from delira.data_loading._cache_key import preprocessing_key
from delira.data_loading.cached_dataset import CachedDataset
from delira.data_loading.mapped_dataset import MappedDataset

ROOT = pathlib.Path(__file__).parents[2]

MODULE = """
import functools, math
import numpy as np
SPACING = 1.5
NAMES = {"cat": 0}

def scale(values, by=2):
    return values * by

class Norm:
    eps = 1e-3
    def __init__(self, mean=0): self.mean = mean
    def __call__(self, values): return self.apply(values)
    def apply(self, values): return values - self.mean + self.eps

def make(offset):
    def load(item, kind="a", *, keyword=1):
        if kind in {"a", "b", "c"}:
            return {"data": scale(item) + offset + SPACING + math.pi, "label": NAMES["cat"]}
    return load

load = make(3)
norm = Norm(2)
part = functools.partial(scale, by=4)
"""


def key(source, name="load", version=None, **kwargs):
    module = types.ModuleType("users_module")
    exec(compile(source, "users_module.py", "exec"), vars(module))
    return preprocessing_key(BaseLazyDataset([1], getattr(module, name), **kwargs), version)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# nothing", "# nothing"),
        ("def scale", "# a comment\n\ndef scale"),
        ("values * by", "(values  *  by)"),
        ("- self.mean + self.eps", "+ self.mean"),  # not used by load
        ("import functools, math", "import functools, math, os"),
    ],
)
def test_the_same_code_has_the_same_key(old, new):
    assert key(MODULE.replace(old, new)) == key(MODULE)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("load", "+ SPACING", "- SPACING"),
        ("load", "SPACING = 1.5", "SPACING = 2.5"),
        ("load", '{"cat": 0}', '{"cat": 1}'),
        ("load", "make(3)", "make(4)"),
        ("load", 'kind="a"', 'kind="b"'),
        ("load", "keyword=1", "keyword=2"),
        ("load", "values * by", "values / by"),
        ("load", "by=2", "by=3"),
        ("load", '"b", "c"}', '"b", "d"}'),
        ("load", "math.pi", "math.e"),
        ("part", "by=4", "by=5"),
        ("part", "values * by", "values / by"),
        ("norm", "Norm(2)", "Norm(3)"),
        ("norm", "eps = 1e-3", "eps = 1e-4"),
        ("norm", "values - self.mean", "values + self.mean"),
    ],
)
def test_changed_code_and_changed_values_have_another_key(name, old, new):
    assert old in MODULE
    assert key(MODULE.replace(old, new), name) != key(MODULE, name)


def test_what_a_cached_function_remembers_is_no_part_of_the_key():
    space = {"__name__": "users_module"}
    exec("import functools\n@functools.lru_cache\ndef load(item): return {'data': item}", space)
    before = preprocessing_key(BaseLazyDataset([1], space["load"]), None)
    space["load"](3)
    assert preprocessing_key(BaseLazyDataset([1], space["load"]), None) == before
    exec("import functools\n@functools.lru_cache\ndef load(item): return {'data': -item}", space)
    assert preprocessing_key(BaseLazyDataset([1], space["load"]), None) != before


def test_parameters_and_the_version_are_part_of_the_key():
    keys = [
        key(MODULE),
        key(MODULE, version=1),
        key(MODULE, version="1"),
        key(MODULE, kind="b"),
        key(MODULE, kind=np.array([1])),
        key(MODULE, kind=np.array([2])),
        key(MODULE, kind=functools.partial(np.add, 1)),
        key(MODULE, kind=functools.partial(np.add, 2)),
        key(MODULE, kind=functools.partial(np.subtract, 1)),
        key(MODULE, kind=str.lower),
        key(MODULE, kind=str.upper),
        key(MODULE, kind=len),
        key(MODULE, kind=lambda x: x),
        key(MODULE, kind=lambda x: -x),
    ]
    assert len(set(keys)) == len(keys)


def test_a_file_among_the_parameters_counts_with_its_times(tmp_path):
    atlas = tmp_path / "atlas"
    keys = set()
    for content, time_ in ((b"1", 10**9), (b"1", 10**9 + 1), (b"2", 10**9 + 1)):
        atlas.write_bytes(content)
        os.utime(atlas, (time_, time_))
        keys |= {key(MODULE, kind=str(atlas)) for _ in range(2)}
        time.sleep(0.05)  # a few ticks of the clock of the file system
    assert len(keys) == 3


@pytest.mark.parametrize("kind", ["functools.cached_property", "property", "staticmethod", "classmethod"])
def test_the_code_behind_attributes_of_a_class_counts(kind):
    source = f"""
import functools
from delira.data_loading import AbstractDataset
class Own(AbstractDataset):
    def __getitem__(self, index): return dict()
    @{kind}
    def size(self=None): return 3
    again = functools.partialmethod(lambda self: 4)
"""

    def key_of(old="", new=""):
        space = {"__name__": "users_module"}
        exec(source.replace(old, new), space)
        return preprocessing_key(space["Own"](), None)

    assert key_of() == key_of()
    assert len({key_of(), key_of("return 3", "return 5"), key_of("self: 4", "self: 5")}) == 3


USERS = {
    "users/__init__.py": "",
    "users/steps.py": "import math\nfrom . import deep\nSIZE = 3\n"
    "def pre(item): return deep.scale(item)\ndef other(item): return 7\n",
    "users/deep.py": "def scale(item): return item * 2\n",
}
LOADERS = {
    "users/by_module.py": "from users import steps\ndef load(item): return {'data': steps.pre(item) + steps.SIZE}\n",
    "users/by_package.py": "import users.steps\n"
    "def load(item): return {'data': users.steps.pre(item) + users.steps.SIZE}\n",
    "users/inside.py": "def load(item):\n    from users.steps import pre, SIZE\n"
    "    return {'data': pre(item) + SIZE}\n",
    "users/relative.py": "def load(item):\n    from . import steps\n"
    "    return {'data': steps.pre(item) + steps.SIZE}\n",
}
NEW_KEYS = """
import importlib, sys
from delira.data_loading import BaseLazyDataset
from delira.data_loading._cache_key import preprocessing_key
for name in ("by_module", "by_package", "inside", "relative"):
    dataset = BaseLazyDataset([1], importlib.import_module(f"users.{name}").load)
    before = preprocessing_key(dataset, None)
    assert name[:2] == "by" or "users.by_module" in sys.modules
    dataset[0]
    assert preprocessing_key(dataset, None) == before, name
    print(before)
"""


@pytest.mark.slow
def test_own_modules_count_however_they_are_reached(tmp_path):
    (tmp_path / "users").mkdir()

    def keys(name="users/deep.py", old="", new=""):
        for file, text in (USERS | LOADERS).items():
            (tmp_path / file).write_text(text.replace(old, new) if file == name else text)
        environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", NEW_KEYS]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | environment, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    before = keys()
    assert keys() == before == keys(old="def", new="# a comment\ndef")
    for change in (
        ("users/deep.py", "* 2", "* 3"),
        ("users/steps.py", "SIZE = 3", "SIZE = 4"),
        ("users/steps.py", "scale(item)", "scale(-item)"),
    ):
        assert not set(before) & set(keys(*change)), change
    assert keys("users/steps.py", "7", "8")[:2] == before[:2]  # not used


def test_a_module_that_cannot_be_read_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "users_broken.py").write_text("def (")
    monkeypatch.syspath_prepend(str(tmp_path))
    body = "def load(item, there=False):\n    if there:\n        import users_broken, nowhere.at.all\n    return {}"
    assert key(body) == key(body)


def test_the_class_and_the_attributes_of_a_dataset_are_part_of_the_key(tmp_path):
    def dataset(body="self.factor * 2", factor=1, data=(1, 2)):
        space = {"Base": AbstractDataset, "__name__": "users_module"}
        exec(
            "class Own(Base):\n"
            "    def __init__(self, data, factor):\n"
            "        super().__init__()\n"
            "        self.data, self.factor = data, factor\n"
            "    def __getitem__(self, index):\n"
            "        return {'data': self.helper()}\n"
            f"    def helper(self): return {body}\n",
            space,
        )
        return space["Own"](list(data), factor)

    def key_of(*args, **kwargs):
        return preprocessing_key(dataset(*args, **kwargs), None)

    assert key_of() == key_of() == key_of(data=[3, 4, 5])
    assert len({key_of(), key_of("self.factor * 3"), key_of(factor=2)}) == 3


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_equal_names_in_two_folders_are_told_apart(kind):
    class Named(AbstractDataset):
        def __init__(self, folder, names=("a", "b")):
            super().__init__(kind(folder))
            self.data = list(names)

        def __getitem__(self, index):
            return {"data": np.load(pathlib.Path(self.data_path) / self.data[index])}

    def key_of(*args):
        return preprocessing_key(Named(*args), None)

    assert key_of("one") == key_of("one", ["c"]) != key_of("two")


def test_datasets_within_a_dataset_count(tmp_path):
    class Patches(AbstractDataset):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.myself = [self]

        def __len__(self):
            return 2 * len(self.base)

        def __getitem__(self, index):
            return {"data": self.base[index // 2]["data"]}

    def key_of(base):
        return preprocessing_key(Patches(base), None)

    def lazy(items, **kwargs):
        return BaseLazyDataset(items, print, **kwargs)

    np.save(tmp_path / "a.npy", np.zeros(9))
    mapped = MappedDataset({"data": tmp_path / "a.npy"})
    bases = [lazy(["a"]), lazy(["b"]), lazy(["a"], sep=2), mapped, DictDataset({"data": [1]})]
    assert len(set(map(key_of, bases))) == 5
    assert key_of(lazy(["a"])) == key_of(lazy(["a"]))
    unread = pickle.loads(pickle.dumps(mapped))
    before = key_of(unread)
    unread[0]
    assert key_of(unread) == before


def test_a_load_function_that_is_a_method_of_the_dataset_is_possible(tmp_path):
    class Own(BaseLazyDataset):
        def __init__(self, items, factor=1):
            self.factor = factor
            super().__init__(items, self.make)

        def make(self, item):
            return {"data": item * self.factor}

    assert CachedDataset(Own([1, 2]), tmp_path)[1]["data"] == 2
    assert CachedDataset(Own([1, 2], factor=5), tmp_path)[1]["data"] == 10


def test_a_key_is_the_same_in_another_process(tmp_path):
    code = f"""
import numpy as np, logging
from delira.data_loading import BaseLazyDataset
from delira.data_loading._cache_key import preprocessing_key, sample_key
space = {{}}
exec(compile({MODULE!r}, "users_module.py", "exec"), space)
more = {{"kind": [{{"x", "y", "z"}}, object(), logging.getLogger("a"), np.random.default_rng(0)]}}
dataset = BaseLazyDataset([("a", 1), 2], space["load"], **more)
print(preprocessing_key(dataset, None), sample_key(dataset, 0))
"""
    assert len(printed(code, tmp_path, "123")) == 1
