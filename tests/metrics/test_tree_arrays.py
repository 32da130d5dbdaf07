"""Arrays of any framework: the same operation gives what numpy gives, and lazy numbers are numbers."""

import subprocess
import sys

import numpy as np
import pytest
from tree_loop import FRAMEWORKS, converter

from delira.utils.arrays import as_array, ops_of, read_arrays, shape_of, to_plain
from delira.utils.late import Lazy, read_lazy

RANDOM = np.random.default_rng(5)
NUMBERS = RANDOM.normal(size=(4, 3, 5)).astype(np.float32)


@pytest.fixture(params=FRAMEWORKS)
def convert(request):
    return converter(request.param)


def same(array, expected):
    (found,) = read_arrays([array])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_operations_are_those_of_numpy(convert):
    array, whole = convert(NUMBERS), convert(np.array([1, 3, 3, 0]))
    ops = ops_of(array)
    same(ops.argmax(array, 1), NUMBERS.argmax(1))
    same(ops.reshape(array, (2, -1)), NUMBERS.reshape(2, -1))
    same(ops.sum(array), NUMBERS.sum())
    same(ops.sum(array > 0, 1), (NUMBERS > 0).sum(1))
    same(ops.least(array), NUMBERS.min())
    same(ops.largest(array), NUMBERS.max())
    same(ops.largest(array, 1), NUMBERS.max(1))
    same(ops.where(array > 0, array, -1.0), np.where(NUMBERS > 0, NUMBERS, -1))
    same(ops.concatenate([whole, ops.sum(whole)]), [1, 3, 3, 0, 7])
    same(ops.arange(4, array), np.arange(4))
    same(ops.equal(ops.arange(4, array), whole), [False, False, False, False])
    same(ops.less(ops.arange(4, array), whole), [True, True, True, False])
    same(ops.expand(array, 1), NUMBERS[:, None])
    same(ops.moveaxis(array, 1), np.moveaxis(NUMBERS, 1, -1))
    same(ops.bincount(whole, 6), [1, 1, 0, 2, 0, 0])
    same(ops.to_integer(whole > 1), [0, 1, 1, 0])
    same(ops.as_float(whole), [1.0, 3.0, 3.0, 0.0])
    same(ops.wide(array), NUMBERS)
    assert (ops.is_float(array), ops.is_float(whole)) == (True, False)
    for keep in (ops.snapshot, ops.keep):
        same(keep(array), NUMBERS)
        assert type(keep(array)) is type(array)
    assert shape_of(array) == (4, 3, 5)


def test_half_precision_is_made_exact_enough_to_calculate_with(convert):
    array = convert(NUMBERS.astype(np.float16))
    assert "float32" in str(ops_of(array).as_float(array).dtype)
    assert ops_of(convert(NUMBERS)).as_float(wide := convert(NUMBERS.astype(np.float64))) is wide


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_bfloat16_can_be_read(framework):
    array = converter(framework)(NUMBERS)
    kit = sys.modules[framework]
    rounded = kit.cast(array, kit.bfloat16) if framework == "tensorflow" else None
    if framework == "torch":
        rounded = array.bfloat16()
    if framework == "jax":
        rounded = array.astype(kit.numpy.bfloat16)
    (found,) = read_arrays([rounded])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, NUMBERS, rtol=1e-2)
    assert ops_of(rounded).is_float(rounded)


def test_arrays_of_all_kinds_are_read_together(convert):
    arrays = [convert(NUMBERS), 3, convert(np.array([True, False])), np.ones(2), convert(np.float32(2)), [1, 2]]
    found = read_arrays(arrays)
    expected = [NUMBERS, 3, [True, False], [1, 1], 2, [1, 2]]
    for array, value in zip(found, expected, strict=True):
        np.testing.assert_array_equal(array, value)
        assert isinstance(array, np.ndarray)
    assert found[0].shape == (4, 3, 5)
    assert read_arrays([]) == []


def test_targets_become_arrays_of_the_framework_of_the_prediction(convert):
    like = convert(NUMBERS)
    assert type(as_array(np.ones(2), like)) is type(like)
    assert as_array(like) is like
    same(as_array([1, 2]), [1, 2])


def test_variables_give_what_they_hold():
    keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package keras")
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package flax")
    for variable in (keras.Variable(np.ones(2)), nnx.Param(converter("jax")(np.ones(2)))):
        same(as_array(variable), [1, 1])


def test_a_kept_array_is_not_written_into():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    for array in (np.ones(2), torch.ones(2), torch.ones(2, requires_grad=True)):
        kept = ops_of(array).keep(array)
        with torch.no_grad():
            array *= 2
        assert kept.tolist() == [1, 1]
        assert not getattr(kept, "requires_grad", False)


def test_a_lazy_number_is_read_once_and_is_a_number():
    reads = []
    lazy = Lazy(lambda: reads.append(1) or 2.5)
    assert reads == []
    assert (float(lazy), int(lazy), bool(lazy), f"{lazy:.2f}", str(lazy), repr(lazy)) == (
        2.5,
        2,
        True,
        "2.50",
        "2.5",
        "2.5",
    )
    assert reads == [1]
    assert lazy == 2.5
    assert 2 < lazy < 3
    assert lazy + 1 == 1 + lazy == 3.5
    assert -lazy == -2.5
    assert not np.isnan(lazy)
    assert np.add(lazy, lazy) == 5.0
    assert np.asarray([lazy, 1]).tolist() == [2.5, 1.0]
    assert lazy.item() == 2.5
    assert Lazy(lambda: [[1, 2], [3, 4]]).item() == [[1, 2], [3, 4]]
    assert read_lazy({"a": lazy, "b": 1}) == {"a": 2.5, "b": 1}


def test_what_cannot_be_read_yet_is_read_later():
    attempts = []

    def read():
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("not yet")
        return 1.0

    lazy = Lazy(read)
    with pytest.raises(RuntimeError, match="not yet"):
        float(lazy)
    assert float(lazy) == 1.0


def test_numbers_of_one_value_are_plain():
    assert (to_plain(np.ones((1, 1))), to_plain(np.arange(2)), to_plain(True)) == (1.0, [0, 1], True)
    assert type(to_plain(np.float32(2))) is float


def test_metrics_import_no_framework_and_neither_scikit_learn_nor_scipy():
    heavy = ("torch", "tensorflow", "keras", "jax", "flax", "sklearn", "scipy", "torchmetrics")
    code = (
        "import sys, delira.metrics, delira.training.metrics\n"
        "[delira.metrics.MetricList([key]) for key in delira.metrics.known_keys()]\n"
        f"sys.exit(' '.join(name for name in {heavy} if name in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
