"""The YAML codec: readable, lossless, and nothing is imported or executed on reading."""

import copy
import datetime
import enum
import functools
import math
import os
import pickle
import subprocess
import sys
import types
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pytest

from delira.errors import ConfigError
from delira.utils.config import LookupConfig
from delira.utils.yaml_codec import Unresolved, decode, dumps, encode, find_unresolved, fingerprint, loads

HERE = __name__


Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Scale:
    """Keeps its constructor's arguments under their names."""

    made = 0

    def __init__(self, factor, offset=0, **kwargs):
        type(self).made += 1
        self.factor = factor
        self.offset = offset
        self.kwargs = kwargs

    def apply(self, x):
        return self.factor * x

    @classmethod
    def doubled(cls):
        return cls(2)

    class Inner:
        pass


class Forgetful:
    """Keeps nothing."""

    def __init__(self, factor=1):
        pass


class Positional:
    def __init__(self, *args):
        self.args = args


class Open:
    """Takes anything, as callbacks do, and keeps nothing."""

    def __init__(self, *args, **kwargs):
        pass


class Swallowing:
    def __init__(self, factor=1, **kwargs):
        self.factor = factor


class Needy:
    def __init__(self, factor):
        self.hidden = factor


class Touchy:
    def __init__(self, factor=1, offset=2):
        self.offset = offset

    @property
    def factor(self):
        raise RuntimeError("no")


class Halved:
    """Keeps one of two."""

    def __init__(self, factor=1, offset=2):
        self.factor = factor
        self.shift = offset


class Methodical:
    def __init__(self, factor=1, offset=2):
        self.offset = offset

    def factor(self):
        return 1


def function(a, b=1):
    return a, b


def same(left, right):
    """Equal in values and types, nan included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (np.ndarray, np.generic)):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return left == right or (left != left and right != right)


# ---- values


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(10**30),
        1e-3,
        1e-08,
        1.7976931348623157e308,
        5e-324,
        "",
        "1e-3",
        "no",
        "2024-01-01",
        "0x10",
        "null",
        "~",
        "a: b # c",
        "line\nbreak\ttab \x00 ünïcode 🦊",
        " spaces ",
        "$object",
        math.inf,
        -math.inf,
        math.nan,
        complex(1, -2),
        complex(math.inf, math.nan),
        b"\x00\xff",
        Path("a/b.c"),
        (),
        (0.9, 0.999),
        ((1, [2, (3,)]),),
        [[]],
        {},
        {1, 2, 3},
        frozenset({"a", "b"}),
        {0: 1.5, None: 2, (1, 2): {"x": {3: 4}}, True: 5},
        {"$object": "builtins:len", "b": 1},
        {"$tuple": 3},
        {"mAP@0.5": 1, "1": 2, "no": 3, "": 4},
        np.float32(0.1),
        np.float64(0.1),
        np.int64(3),
        np.bool_(True),
        np.str_("text"),
        np.complex64(1 + 2j),
        np.float16(0.1),
        np.float32(math.nan),
        np.array([0.1, 0.7], np.float32),
        np.array([[1, 2], [3, 4]], np.uint8),
        np.array(3.0),
        np.zeros((0, 3)),
        np.array([1.0, math.inf]),
        np.array(["a", "bcd"]),
        np.array([1, 2], ">i4"),
        np.dtype("float32"),
        np.float32,
        len,
        function,
        Scale,
        Scale.Inner,
        Color.RED,
        Level.HIGH,
        OrderedDict,
        np.exp,
        np.mean,
        math.sin,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_written_is_read_back_the_same(value):
    text = dumps({"key": value})
    assert same(loads(text)["key"], value)
    assert dumps(loads(text)) == text


def test_random_floats_of_every_precision_are_read_back_to_the_bit():
    generator = np.random.default_rng(0)
    for dtype in (np.float16, np.float32, np.float64):
        array = (generator.standard_normal(500) * 10.0 ** generator.integers(-4, 4, 500)).astype(dtype)
        assert same(loads(dumps(array)), array)


def test_the_text_is_readable():
    tree = {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "sizes": [1, 2],
        "optimizer_cls": Scale,
        "blocks": [{"width": 8}],
    }
    assert dumps(tree) == (
        "lr: 0.001\nbetas: {$tuple: [0.9, 0.999]}\nsizes: [1, 2]\n"
        f"optimizer_cls: {{$object: '{HERE}:Scale'}}\nblocks:\n- width: 8\n"
    )


def test_special_kinds_of_containers_and_strings_become_the_plain_ones():
    class Text(str):
        __slots__ = ()

    point = Point(1, 2)
    tree = {"a": LookupConfig(b=OrderedDict(c=1)), "point": point, "text": Text("t"), "on": Level.HIGH}
    assert same(decode(encode(tree)), {"a": {"b": {"c": 1}}, "point": (1, 2), "text": "t", "on": Level.HIGH})


def test_a_value_that_is_there_twice_is_written_twice_without_anchors():
    shared = [{"a": 1}]
    assert dumps({"x": shared, "y": shared}) == "x:\n- a: 1\ny:\n- a: 1\n"


def test_what_contains_itself_is_cut():
    loop: list = [1]
    loop.append(loop)
    assert loads(dumps(loop))[0] == 1
    assert "inside itself" in dumps(loop)
    nested: list = []
    for _ in range(500):
        nested = [nested]
    assert "inside itself" in str(encode(nested))


# ---- instances


def test_instances_and_partials_are_written_by_their_arguments():
    plain = encode({"scale": Scale(2, mode="x"), "partial": functools.partial(function, 1, b=Color.RED)})
    assert plain == {
        "scale": {"$call": f"{HERE}:Scale", "arguments": {"factor": 2, "offset": 0, "mode": "x"}},
        "partial": {
            "$partial": f"{HERE}:function",
            "args": [1],
            "arguments": {"b": {"$object": f"{HERE}:Color.RED"}},
        },
    }


def test_instances_are_made_again_only_of_what_the_user_vouches_for():
    plain = encode({"scale": Scale(2, offset=(1, 2)), "partial": functools.partial(function, b=3)})
    made = Scale.made
    tree = decode(plain)
    assert Scale.made == made
    assert all(isinstance(value, Unresolved) for value in tree.values())
    for name in (f"{HERE}:Scale", "Scale"):
        scale = decode(plain, objects={name: Scale})["scale"]
        assert (scale.factor, scale.offset, scale.kwargs) == (2, (1, 2), {})
    partial = decode(plain, objects={"function": function})["partial"]
    assert isinstance(partial, functools.partial)
    assert partial(1) == (1, 3)


def test_nested_instances_are_made_from_the_inside():
    plain = encode(Scale(Scale(3)))
    assert decode(plain, objects={"Scale": Scale}).factor.factor == 3
    local = encode(Scale(lambda: 0))
    unresolved = decode(local, objects={"Scale": Scale})
    with pytest.raises(ConfigError, match=r"for <function .*<lambda>>: it has no name to be found by"):
        unresolved.apply(1)
    text = local["arguments"]["factor"]["$repr"]
    assert decode(local, objects={"Scale": Scale, text: 5}).factor == 5


def test_an_object_that_keeps_nothing_of_what_it_may_take_is_made_without_arguments():
    plain = encode(Open())
    assert plain == {"$call": f"{__name__}:Open", "arguments": {}}
    assert type(decode(plain, objects={"Open": Open})) is Open
    kept = Open()
    kept.factor = 2
    assert "$repr" in encode(kept)


@pytest.mark.parametrize(
    "value",
    [
        lambda: 0,
        Scale(2).apply,
        Positional(1),
        Swallowing(1, offset=2),
        Needy(1),
        Forgetful(1),
        range(3),
        object(),
        functools.partial(lambda: 0),
        sys,
        datetime.date(2024, 1, 1),
        np.random.default_rng(0).bit_generator,
        np.array([None]),
        np.arange(5000),
        np.datetime64("2024-01-01"),
        np.dtype([("a", int)]),
        (number for number in "ab"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_kept_as_text_without_addresses(value):
    plain = encode({"x": value})
    assert list(plain["x"]) == ["$repr"]
    assert "0x" not in plain["x"]["$repr"]
    assert isinstance(decode(plain)["x"], Unresolved)
    assert encode(decode(plain)) == plain


def test_local_classes_and_their_instances_are_text():
    class Local:
        pass

    assert "$repr" in encode(Local)
    assert "$repr" in encode(Local())


def test_a_function_that_hides_behind_the_name_of_another_is_text():
    @functools.wraps(function)
    def other():
        return 0

    assert "$repr" in encode(other)
    assert encode(Scale.doubled) == {"$object": f"{HERE}:Scale.doubled"}


def test_an_object_that_does_not_keep_all_its_arguments_is_text_and_its_own():
    for cls in (Touchy, Methodical, Halved):  # an attribute that raises, a method, and none at all
        assert [*encode(cls())] == ["$repr"]
    assert fingerprint(Halved(1, 2)) == fingerprint(Halved(1, 2)) != fingerprint(Halved(1, 3))
    assert isinstance(decode(encode(Halved(1, 2)), objects={"Halved": Halved}), Unresolved)


def test_a_loss_that_forgets_arguments_is_never_taken_for_another():
    torch = pytest.importorskip("torch")

    from losses_that_forget import Forgetting, Together

    def others(cls):  # as MONAI's DiceCELoss: a part of its arguments is those of its parts
        return [cls(), cls(include_background=False), cls(batch=True), cls(weight=0.5)]

    for cls in (Together, Forgetting):
        assert [*encode(cls())] == ["$repr"]
        assert len({fingerprint(loss) for loss in others(cls)}) == 4
        assert [fingerprint(loss) for loss in others(cls)] == [fingerprint(loss) for loss in others(cls)]
    drawn = [Together(), Together()]
    for each in drawn:
        each.head = torch.nn.Parameter(torch.rand(3))  # weights differ from process to process
    assert fingerprint(drawn[0]) == fingerprint(drawn[1])


def test_losses_of_delira_and_of_frameworks_keep_their_arguments():
    torch = pytest.importorskip("torch")

    from delira.training.losses import DiceCELossPyTorch

    arguments = {"include_background": False, "smooth": 0.5, "batch": True, "squared": True, "activation": "sigmoid"}
    assert encode(DiceCELossPyTorch(**arguments))["arguments"] == {"dice_weight": 1.0, "ce_weight": 1.0, **arguments}
    for loss in (torch.nn.MSELoss(), torch.nn.BCEWithLogitsLoss(), torch.nn.Hardtanh(), torch.nn.Dropout(0.1)):
        assert "$call" in encode(loss)
    assert "$repr" in encode(torch.nn.Linear(2, 2, dtype=torch.float64))


def test_losses_of_keras_keep_their_arguments():
    keras = pytest.importorskip("keras")
    assert encode(keras.losses.Huber(delta=2.0))["arguments"]["delta"] == 2.0
    assert encode(keras.metrics.AUC(from_logits=True))["arguments"]["from_logits"] is True
    schedule = keras.optimizers.schedules.CosineDecayRestarts(0.1, 10, t_mul=3.0)
    assert encode(schedule)["arguments"]["t_mul"] == 3.0


def test_callbacks_of_delira_keep_their_arguments():
    from delira import callbacks

    made = {
        callbacks.KaimingNormal(a=0.3, nonlinearity="relu"): {"a": 0.3, "nonlinearity": "relu"},
        callbacks.EarlyStopping("val_mse"): {"monitor": "val_mse", "monitor_key": None},
        callbacks.WeightDecay(1e-3, params=["b", "a"]): {"params": ["a", "b"]},
        callbacks.GradientClipping(1.0): {"params": None},
        callbacks.ReduceLROnPlateau("val_mse", "min", 0.5): {"monitor": "val_mse", "mode": "min", "factor": 0.5},
    }
    for callback, arguments in made.items():
        plain = encode(callback)
        assert arguments.items() <= plain["arguments"].items()
        again = decode(plain, objects={type(callback).__name__: type(callback)})
        assert encode(again) == plain


def test_an_instance_that_holds_its_data_is_no_setting():
    plain = encode(Scale(list(range(10_000))))
    assert "sha256" in plain["$repr"]
    assert plain != encode(Scale(list(range(1, 10_001))))


def test_a_broken_repr_does_not_lose_the_run():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    class Endless:
        def __repr__(self):
            return "x" * 10_000

    assert "whose repr raises RuntimeError" in encode(Broken())["$repr"]
    assert len(encode(Endless())["$repr"]) < 1100


def test_large_arrays_differ_by_their_content():
    assert encode(np.zeros(5000)) == encode(np.zeros(5000))
    assert encode(np.zeros(5000)) != encode(np.eye(1, 5000)[0])


# ---- torch, as users have it in their parameters


def test_torch_classes_losses_functions_and_dtypes_are_written_by_name():
    torch = pytest.importorskip("torch")
    tree = {
        "losses": {"ce": torch.nn.CrossEntropyLoss(label_smoothing=0.1)},
        "optimizer_cls": torch.optim.Adam,
        "activation": torch.relu,
        "functional": torch.nn.functional.cross_entropy,
        "dtype": torch.float32,
    }
    text = dumps(tree)
    assert "$repr" not in text
    read = loads(text)
    assert {name: read[name] is tree[name] for name in tree} == {**dict.fromkeys(tree, True), "losses": False}
    with pytest.raises(ConfigError, match=r"objects=\{'torch.nn.modules.loss:CrossEntropyLoss': CrossEntropyLoss\}"):
        read["losses"]["ce"](1, 2)
    loss = loads(text, objects={"CrossEntropyLoss": torch.nn.CrossEntropyLoss})["losses"]["ce"]
    assert isinstance(loss, torch.nn.CrossEntropyLoss)
    assert (loss.label_smoothing, loss.reduction, loss.weight) == (0.1, "mean", None)


def test_torch_tensors_inside_a_loss_are_told_apart():
    torch = pytest.importorskip("torch")
    light, heavy = (torch.nn.CrossEntropyLoss(weight=torch.tensor([0.1, w])) for w in (0.90001, 0.90002))
    assert fingerprint(light) != fingerprint(heavy)
    unresolved = decode(encode(light), objects={"CrossEntropyLoss": torch.nn.CrossEntropyLoss})
    with pytest.raises(ConfigError, match="set the entry anew"):
        unresolved(1, 2)
    assert "$repr" in encode(torch.zeros(3, requires_grad=True))


# ---- unresolved entries


def test_an_unresolved_entry_prints_and_compares_by_its_text():
    call, other = (decode({"$call": "m:C", "arguments": {"a": a, "b": "t"}}) for a in (1, 2))
    assert str(call) == 'm:C(a=1, b="t")'
    assert repr(call) == '<unresolved m:C(a=1, b="t")>'
    assert call == decode({"$call": "m:C", "arguments": {"a": 1, "b": "t"}})
    assert len({call, copy.copy(call), other}) == 2
    assert call != str(call)
    assert not hasattr(call, "__array__")
    assert str(loads("{$call: 'm:C', arguments: {day: 2024-01-01}}")) == 'm:C(day="2024-01-01")'
    assert str(loads("{$call: 'm:C', arguments: }")) == "m:C()"
    assert str(decode({"$partial": "m:f", "args": [1]})) == "partial of m:f(1)"


@pytest.mark.parametrize(
    "use", [lambda x: x(), lambda x: x.anything, lambda x: x[0], lambda x: hasattr(x, "step"), list]
)
def test_an_unresolved_entry_fails_with_the_cure_when_it_is_used(use):
    with pytest.raises(ConfigError, match=r"^m:C was read .*pass objects=\{'m:C': C\} when loading, or import m"):
        use(decode({"$object": "m:C"}))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_unresolved_entries_survive_copying_pickling_and_saving(copied):
    plain = {
        "a": {"$call": "m:C", "arguments": {"x": [1]}},
        "b": [{"$repr": "<text>"}],
        "c": {"$object": "m:C"},
    }
    tree = copied(decode(plain))
    assert tree == decode(plain)
    assert encode(tree) == plain
    assert fingerprint(tree) == fingerprint(decode(plain))


def test_all_unresolved_entries_can_be_named_at_once():
    tree = LookupConfig(decode({"a": {"b": [1, {"$object": "m:C"}]}, "c": {"$repr": "text"}, "d": 1}))
    assert {path: str(entry) for path, entry in find_unresolved(tree).items()} == {
        "a.b.1": "m:C",
        "c": "text",
    }


# ---- reading is safe


def test_reading_imports_nothing():
    code = (
        "import sys; from delira.utils.yaml_codec import loads; before = set(sys.modules)\n"
        "tree = loads('''{a: {$object: 'wave:open'}, b: {$call: 'wave:open', arguments: {f: x}}}''')\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_reading_triggers_no_lazy_module(monkeypatch):
    lazy = types.ModuleType("a_lazy_module")
    monkeypatch.setattr(lazy, "__getattr__", lambda name: pytest.fail(f"{name} was loaded"), raising=False)
    monkeypatch.setitem(sys.modules, "a_lazy_module", lazy)
    assert isinstance(decode({"$object": "a_lazy_module:heavy.thing"}), Unresolved)


@pytest.mark.parametrize("name", ["os:environ", "sys:modules", "os:path", "os:nowhere", "os:", ":", "len", "os:sep.x"])
def test_only_what_would_be_written_by_name_is_found_by_name(name):
    assert isinstance(decode({"$object": name}), Unresolved)


def test_objects_go_before_what_is_imported_and_before_the_module_name():
    assert decode({"$object": f"{HERE}:Scale"}, objects={"Scale": Color}) is Color
    assert decode({"$object": f"{HERE}:Scale.Inner"}, objects={"Inner": 1, "Scale.Inner": 2}) == 2
    with pytest.raises(ConfigError, match="objects must be a dictionary"):
        decode({}, objects=[Scale])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="objects has 3 for 'm:C'; it must be the class or function itself"):
        decode({"$call": "m:C"}, objects={"C": 3})
    with pytest.raises(ConfigError, match=r"'m:Scale' refuses the arguments \{'wrong': 1\}.*missing 1 required"):
        decode({"$call": "m:Scale", "arguments": {"wrong": 1}}, objects={"Scale": Scale})


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch {}']",
        "!!python/object/new:subprocess.Popen [['touch', '{}']]",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
        "!!python/tuple [1]",
        "!unknown 1",
        "!!bool maybe",
        "!!timestamp never",
        "a: &a [1]\nb: [*a, *a]",
        "a: 1\na: 2",
        "{[1]: 2}",
        "a: [",
        "--- 1\n--- 2",
        "[" * 5000,
        "\x00",
    ],
    ids=lambda text: text[:40],
)
def test_yaml_that_is_not_plain_is_refused(text, tmp_path):
    target = tmp_path / "executed"
    with pytest.raises(ConfigError, match="not readable as plain YAML"):
        loads(text.replace("{}", str(target)))
    assert not os.path.exists(target)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"$tupel": [1]}, r"unknown tag '\$tupel'.*did you mean '\$tuple'"),
        ({"$tuple": [1], "x": 2}, r"\['x'\] beside '\$tuple'"),
        ({"$tuple": [1], "$set": [1]}, r"\['\$set'\] beside '\$tuple'"),
        ({"$tuple": 3}, r"cannot read the entry .*a list is needed, got 3"),
        ({"$set": [[1]]}, "cannot read the entry"),
        ({"$dict": [1]}, "cannot read the entry"),
        ({"$float": "big"}, "cannot read the entry"),
        ({"$bytes": "%"}, "cannot read the entry"),
        ({"$call": "m:C", "arguments": [1]}, "'arguments' must be a mapping"),
        ({"$object": 3}, "a string is needed, got 3"),
        ({"$array": [1]}, "cannot read the entry"),
        ({"$array": [1], "dtype": "object"}, "dtype 'object' is not read"),
        ({"$array": ["a"], "dtype": "U99999999"}, "is not read"),
        ({"$array": [], "dtype": "int8", "shape": [5]}, "cannot read the entry"),
    ],
)
def test_malformed_entries_are_refused_with_the_entry(plain, message):
    with pytest.raises(ConfigError, match=message):
        decode({"x": plain})


def test_trees_without_end_are_refused():
    nested: list = []
    for _ in range(10_000):
        nested = [nested]
    with pytest.raises(ConfigError, match="nested too deeply"):
        decode(nested)


def test_people_may_write_small_numbers_and_number_keys():
    assert loads("{lr: 1e-3, b: 1E+5, c: -2.5e3, d: '1e-3', weights: {0: 1.5}}") == {
        "lr": 1e-3,
        "b": 1e5,
        "c": -2500.0,
        "d": "1e-3",
        "weights": {0: 1.5},
    }


# ---- fingerprints


def test_a_fingerprint_is_the_same_in_every_process(tmp_path):
    code = (
        "import functools, math; import numpy as np; from delira.utils.yaml_codec import fingerprint\n"
        "class Local:\n    pass\n"
        "def make():\n    return lambda x: x\n"
        "print(fingerprint({'set': {'a', 'b', 'c', 'd'}, 'f': make(), 'c': Local, 'i': Local(),"
        " 'nan': math.nan, 'array': np.arange(5000), 'p': functools.partial(make), 'keys': {1: 2, 'a': object()}}))\n"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1
    assert len(prints.pop().strip()) == 64


def test_a_fingerprint_does_not_depend_on_the_order_of_dictionaries():
    assert fingerprint({"a": 1, "b": {1: 2, 3: 4}}) == fingerprint({"b": {3: 4, 1: 2}, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, "1"),
        (1, 1.0),
        (1, True),
        ((1,), [1]),
        (0.1, np.float32(0.1)),
        ({1: 2}, {"1": 2}),
        (Scale, Scale(1)),
        (Scale(1), Scale(2)),
    ],
)
def test_a_fingerprint_tells_values_and_kinds_apart(left, right):
    assert fingerprint({"x": left}) != fingerprint({"x": right})


def test_a_fingerprint_survives_saving_and_loading():
    tree = {
        "scale": Scale(2),
        "f": lambda: 0,
        "set": {3, 1},
        "keys": {2: 1, 1: (math.inf,)},
        "array": np.eye(2),
    }
    assert fingerprint(loads(dumps(tree))) == fingerprint(tree)
    assert fingerprint(loads(dumps(tree), objects={"Scale": Scale})) == fingerprint(tree)


def layers_of_torch():
    torch = pytest.importorskip("torch")
    from losses_that_forget import Perceptual

    return [
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Sequential(torch.nn.Linear(2, 1)), torch.nn.LSTM(2, 3),
        torch.nn.TransformerEncoderLayer(4, 2), torch.nn.MultiheadAttention(4, 2), Perceptual(),
    ]  # fmt: skip


def test_networks_in_settings_are_told_alike_by_every_process_that_makes_them():
    """Their weights are drawn anew: a script that is run again has to find its run."""
    assert encode(layers_of_torch()) == encode(layers_of_torch())


def test_a_network_that_has_computed_is_told_as_before():
    torch = pytest.importorskip("torch")
    from losses_that_forget import Perceptual

    network, told = Perceptual(layers=3), encode(Perceptual(layers=3))
    network.eval()(torch.ones(2, 1), torch.zeros(2, 1)).backward()
    assert encode(network) == told != encode(Perceptual(layers=2))


def test_networks_are_told_apart_by_the_shapes_of_their_weights():
    pytest.importorskip("torch")
    from losses_that_forget import Drawn

    assert encode(Drawn(2)) == encode(Drawn(2)) != encode(Drawn(3))
