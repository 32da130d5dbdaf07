"""The container of backends without a format of their own: arrays and JSON in one zip file, executed never."""

import contextlib
import io
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from delira.errors import CheckpointError
from delira.io import read_tree, verify_zip, write_tree

DTYPES = st.sampled_from(
    ["?", "i1", "<i4", "<i8", "u1", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "<U3", "S2", ">f8", ">i2"]
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text().filter(lambda key: not key.startswith("$"))
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        PLAIN | ARRAYS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
SMALL = {"model": {"weight": np.arange(6.0).reshape(2, 3)}, "epoch": 3, "names": ["a", None]}


def written(tree):
    buffer = io.BytesIO()
    write_tree(buffer, tree)
    return buffer.getvalue()


def read_back(content, folder):
    path = folder / "tree.zip"
    path.write_bytes(content)
    return read_tree(path)


def assert_same(left, right):
    """Equal in values, types and bits."""
    if isinstance(right, np.ndarray):
        assert isinstance(left, np.ndarray)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    elif isinstance(right, dict):
        assert list(left) == list(right)
        for name in right:
            assert_same(left[name], right[name])
    elif isinstance(right, (list, tuple)):
        assert isinstance(left, list)
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    else:
        assert type(left) is type(right)
        assert left == right or (left != left and right != right)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("container")


# ---- round trip


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(tree=TREES)
def test_a_tree_comes_back_as_it_was(tree, folder):
    content = written(tree)
    assert_same(read_back(content, folder), tree)
    assert written(tree) == content  # equal trees, equal bytes
    verify_zip(folder / "tree.zip")


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[::-1, ::2],
        np.broadcast_to(np.float32(2), (2, 2)),
        np.array(np.nan),
        np.zeros((0, 3), np.int8),
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    ],
    ids=["Fortran", "strided", "broadcast", "0-d", "empty", "dates"],
)
def test_an_array_may_lie_in_memory_as_it_likes(array, folder):
    back = read_back(written({"array": array}), folder)["array"]
    assert back.dtype == array.dtype
    assert np.array_equal(back, array, equal_nan=array.dtype.kind in "fM")


def test_numbers_of_numpy_become_plain_numbers_and_tuples_become_lists(folder):
    tree = {"f": np.float32(0.5), "i": np.int64(3), "b": np.bool_(True), "s": np.str_("a"), "t": (1, (2,))}
    assert_same(read_back(written(tree), folder), {"f": 0.5, "i": 3, "b": True, "s": "a", "t": [1, [2]]})


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "int4"])
def test_small_numbers_of_ml_dtypes_are_kept_by_their_bits(name, folder):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for shape in ((), (4,), (2, 0)):
        array = np.full(shape, 1.5, getattr(ml_dtypes, name))
        back = read_back(written({"array": array}), folder)["array"]
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()


def test_of_entries_that_are_not_asked_for_no_array_is_read(folder):
    array = np.full(50, 3.5)
    content = written({"large": {"array": array}, "small": {"array": np.arange(3)}, "n": 1})
    content = content.replace(array.tobytes(), np.full(50, 4.5).tobytes())
    with pytest.raises(CheckpointError, match="is not a readable checkpoint"):
        read_back(content, folder)
    found = read_tree(folder / "tree.zip", only=("small", "n"))
    assert_same(found, {"small": {"array": np.arange(3)}, "n": 1})


def test_an_array_that_is_read_can_be_changed(folder):
    read_back(written(SMALL), folder)["model"]["weight"][0, 0] = 7.0


# ---- what is not written


class Anything:
    pass


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Anything(), "Anything"),
        (len, "builtin_function_or_method"),
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        (1j, "complex"),
        (np.complex64(1), "complex64"),
        (np.array([None, 1], dtype=object), "ndarray"),
        (np.array([{"a": 1}]), "ndarray"),
        (np.zeros(2, [("x", "f4"), ("y", "i8")]), "ndarray"),
        (np.zeros(2, "V3"), "ndarray"),
        (np.array(["a"], dtype=np.dtypes.StringDType()), "ndarray"),
    ],
)
def test_an_object_is_refused_by_its_place(value, what):
    with pytest.raises(CheckpointError, match=rf"checkpoint entry /a/1/b is a {what}, which cannot be stored safely"):
        written({"a": [0, {"b": value}]})


@pytest.mark.parametrize("key", [1, None, ("a",), "$array", "$"])
def test_a_key_that_is_no_plain_string_is_refused_by_its_place(key):
    with pytest.raises(CheckpointError, match=r"checkpoint entry /a has the key .*; keys must be plain strings"):
        written({"a": {key: 1}})
    with pytest.raises(CheckpointError, match=r"checkpoint entry / has the key .*; keys must be plain strings"):
        written({key: 1})


# ---- what is not read


def zipped(entries, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


NINE = npy(np.arange(9, dtype="<i8"))


def holding(record, reference='{"$array": 0}'):
    """A tree of one array, whose record is given."""
    return zipped({"tree.json": f'{{"a": {reference}}}', "arrays/0.npy": record})


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_entry_is_refused(compression, folder):
    """A small file must not unpack into a huge one."""
    content = zipped({"tree.json": json.dumps({"a": "0" * 1000})}, compression)
    with pytest.raises(CheckpointError, match=r"record 'tree\.json' is compressed; delira never does that"):
        read_back(content, folder)


def test_a_pickled_array_is_refused_and_not_executed(folder):
    target = folder / "executed"

    class Malicious:
        def __reduce__(self):
            return open, (str(target), "w")

    array = np.empty(1, dtype=object)
    array[0] = Malicious()
    content = holding(npy(array, allow_pickle=True))
    pickle.loads(pickle.dumps(Malicious())).close()
    assert target.exists()  # it works
    target.unlink()
    with pytest.raises(CheckpointError, match=r"is not a readable checkpoint: arrays/0\.npy holds pickled objects"):
        read_back(content, folder)
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zip file",
        zipped({}),
        zipped({"other.json": "{}"}),
        zipped({"tree.json": "no json"}),
        zipped({"tree.json": b"\xff\xfe"}),
        zipped({"tree.json": '{"a": {"$array": 0}}'}),
        zipped({"tree.json": '{"a": {"$array": "x"}}'}),
        zipped({"tree.json": '{"a": {"$array": [0]}}'}),
        holding(b"no array"),
        holding(NINE[:-8]),
        holding(NINE.replace(b"(9,)", b"(9.)")),
        holding(NINE, '{"$array": 0, "$dtype": "no_such_type"}'),
        holding(NINE, '{"$array": 0, "$dtype": "finfo"}'),
        holding(NINE, '{"$array": 0, "$dtype": "__doc__"}'),
        holding(NINE, '{"$array": 0, "$more": 1}'),
        holding(NINE.replace(b"(9,), }    ", b"(-3, -3), }")),
        holding(NINE + b"more"),
        holding(NINE.replace(b"\x01\x00", b"\x09\x00", 1)),
        holding(NINE.replace(b"'<i8'", b"'|O' ")),
        holding(NINE.replace(b"'<i8'", b"print")),
        zipped({"tree.json": '{"a": {"$array": 1e999}}'}),
        zipped({"tree.json": '{"a": ' + "9" * 10_000 + "}"}),
        zipped({"tree.json": '{"a": 1, "b": 2, "a": 3}'}),
        zipped({"tree.json": '{"a": {"b": 1, "b": 1}}'}),
        zipped({"tree.json": "[" * 100_000 + "]" * 100_000}),
        zipped({"tree.json": '{"a":' * 100_000 + "1" + "}" * 100_000}),
    ],
    ids=[
        "nothing",
        "no zip",
        "empty zip",
        "no tree",
        "no json",
        "no text",
        "no array entry",
        "array number is text",
        "array number is a list",
        "no array",
        "array cut short",
        "array header wrong",
        "unknown type",
        "type is no type",
        "type is text",
        "unknown remark",
        "negative shape",
        "more than the array",
        "array of another version",
        "array of objects",
        "type of the array is a name",
        "array number is infinite",
        "number is too long",
        "two entries of one name",
        "two entries of one name further down",
        "lists nested too deeply",
        "dictionaries nested too deeply",
    ],
)
def test_garbage_is_refused(content, folder):
    with pytest.raises(CheckpointError, match=r"tree\.zip is not a readable checkpoint"):
        read_back(content, folder)


def test_an_array_that_claims_to_be_huge_is_refused(folder):
    """A header of a few bytes must not make the program ask for a petabyte."""
    header = npy(np.zeros(9)).replace(b"(9,), }" + b" " * 15, b"(%d,), }" % 10**15)
    assert b"%d" % 10**15 in header
    content = holding(header)
    with pytest.raises(CheckpointError, match=r"tree\.zip is not a readable checkpoint"):
        read_back(content, folder)


def test_an_array_with_a_header_that_is_huge_is_refused(folder):
    """Its header is Python source, and slow to understand."""
    header = npy(np.zeros(9))[10:].split(b"}")[0] + b" " * 60_000 + b"}\n"
    record = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(72)
    content = holding(record)
    with pytest.raises(CheckpointError, match=r"tree\.zip is not a readable checkpoint"):
        read_back(content, folder)


def test_an_array_is_named_once(folder):
    """A tree of a few bytes could ask for one large array a thousand times."""
    content = zipped({"tree.json": '{"a": [{"$array": 0}, {"$array": 0}]}', "arrays/0.npy": npy(np.arange(9))})
    with pytest.raises(CheckpointError, match=r"names arrays/0\.npy, which is not there or was named before"):
        read_back(content, folder)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_a_number(text, folder):
    value = read_back(zipped({"tree.json": f'{{"a": {text}}}'}), folder)["a"]
    assert type(value) is float
    assert str(value) == text.replace("NaN", "nan").replace("Infinity", "inf")


def test_too_much_text_is_neither_written_nor_read(folder, monkeypatch):
    """Of JSON; arrays may be as large as they like."""
    content = written({"a": list(range(200)), "b": np.zeros(10_000)})
    monkeypatch.setattr("delira.io.container._LONGEST_TREE", 1 << 10)
    with pytest.raises(CheckpointError, match=r"numbers and strings outside of arrays.*keep long lists of numbers as"):
        written({"a": list(range(200))})
    with pytest.raises(CheckpointError, match=r"tree\.zip is not a readable checkpoint: tree\.json has"):
        read_back(content, folder)
    assert_same(read_back(written({"b": np.zeros(10_000)}), folder)["b"], np.zeros(10_000))


# ---- memory


def test_an_array_is_written_without_a_copy_of_it(folder):
    array = np.broadcast_to(np.float64(1), (1 << 24,))  # 128 MiB that lie in 8 bytes
    with open(folder / "large.zip", "wb") as file:
        tracemalloc.start()
        try:
            write_tree(file, {"array": array})
            written_with = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            back = read_tree(folder / "large.zip")["array"]
            read_with = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    (folder / "large.zip").unlink()
    assert written_with < array.nbytes / 2
    assert read_with < 1.5 * array.nbytes
    assert back.shape == array.shape
    assert (back == 1).all()


@pytest.mark.parametrize(("tree", "kind"), [("[1]", "list"), ("3", "int"), ('"a"', "str"), ("null", "NoneType")])
def test_a_file_that_holds_no_dictionary_is_refused(tree, kind, folder):
    with pytest.raises(CheckpointError, match=f"is not a checkpoint: it holds a {kind}, not a dictionary"):
        read_back(zipped({"tree.json": tree}), folder)


def test_a_missing_file_is_refused(folder):
    for read in (read_tree, verify_zip):
        with pytest.raises(CheckpointError, match=r"nowhere\.zip is not a .*No such file"):
            read(folder / "nowhere.zip")


def test_a_flipped_byte_is_found_or_harmless_wherever_it_is(folder):
    """Verified and read as a checkpoint is: the content is what was written, or there is a CheckpointError."""
    path, content = folder / "flipped.zip", written(SMALL)
    found = 0
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :])
        try:
            verify_zip(path)
            tree = read_tree(path)
        except CheckpointError:
            found += 1
        else:
            assert_same(tree, SMALL)  # a date or a flag that nobody reads
    assert found > 0.6 * len(content)


def test_an_entry_that_is_said_to_be_compressed_and_is_not_is_refused(folder):
    content = bytearray(written({"a": 1}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # local header and directory
        content[content.index(signature) + offset] = zipfile.ZIP_DEFLATED
    (folder / "lying.zip").write_bytes(content)
    for read in (verify_zip, read_tree):
        with pytest.raises(CheckpointError, match=r"lying\.zip"):
            read(folder / "lying.zip")


@settings(max_examples=100)
@given(data=st.data())
def test_random_damage_never_raises_anything_but_a_checkpoint_error(data, folder):
    content = bytearray(written(SMALL))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "damaged.zip"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    for read in (verify_zip, read_tree):
        with contextlib.suppress(CheckpointError):
            read(path)
