"""Copies of a training's state on the host."""

import collections
import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from delira.backends.torch.backend import BACKEND  # noqa: E402

snapshot = BACKEND.arrays.snapshot
Pair = collections.namedtuple("Pair", ["first", "second"])


def same(left, right):
    """Whether two trees have equal containers, dtypes, shapes and values."""
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and (left.dtype, left.shape, left.layout) == (right.dtype, right.shape, right.layout)
            and torch.equal(left.to_dense().cpu(), right.to_dense().cpu())
        )
    if isinstance(left, np.ndarray):
        is_equal = left.dtype == right.dtype and left.shape == right.shape
        return is_equal and np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return left == right


def training(width=8):
    """A network with a tied weight and batch normalisation, and its optimizer after two steps."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, width)
    )
    network[2].weight = network[0].weight
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, amsgrad=True)
    for _ in range(2):
        step(network, optimizer)
    return network, optimizer


def step(network, optimizer):
    optimizer.zero_grad()
    network(torch.randn(4, network[0].in_features)).pow(2).mean().backward()
    optimizer.step()


def tree_of(network, optimizer):
    return {
        "model": network.state_dict(),
        "optimizer": {"default": optimizer.state_dict()},
        "epoch": 3,
        "history": [{"loss": 0.5, "lr": 0.1}],
        "order": np.arange(5),
        "rng": torch.get_rng_state(),
        "nothing": None,
    }


def test_training_on_does_not_change_a_snapshot():
    network, optimizer = training()
    tree = tree_of(network, optimizer)
    copied, expected = snapshot(tree), copy.deepcopy(tree)
    step(network, optimizer)
    tree["history"].append({"loss": 0.1})
    tree["order"] += 1
    assert same(copied, expected)
    assert not same(copied["model"], tree["model"])


def test_a_snapshot_is_on_the_host_wherever_tensors_are_made():
    """On the device that a program has made the default one no memory of the host can be copied to."""
    weights = {"plain": torch.arange(6.0), "view": torch.arange(6.0)[::2]}
    with torch.device("meta"):
        taken = snapshot(weights)
    assert same(taken, weights)
    assert {one.device.type for one in taken.values()} == {"cpu"}


def test_a_training_goes_on_from_a_snapshot_bit_for_bit():
    network, optimizer = training()
    copied = snapshot(tree_of(network, optimizer))
    step(network, optimizer)
    again, its_optimizer = training()
    again.load_state_dict(copied["model"])
    its_optimizer.load_state_dict(copied["optimizer"]["default"])
    torch.set_rng_state(copied["rng"])
    step(again, its_optimizer)
    assert same(again.state_dict(), network.state_dict())
    assert same(its_optimizer.state_dict(), optimizer.state_dict())


def test_containers_are_rebuilt_and_plain_values_kept():
    tree = {
        "ordered": collections.OrderedDict(a=[1, 2]),
        "pair": Pair([torch.ones(2)], {"x": "y"}),
        "tuple": (1, "two", 3.0, b"4", None, True),
        "set": {1, 2},
        3: torch.float32,
        "size": torch.Size([2, 3]),
    }
    copied = snapshot(tree)
    assert same(copied, tree | {"ordered": {"a": [1, 2]}})
    tree["ordered"]["a"].append(3)
    tree["pair"].first.append(4)
    tree["set"].add(3)
    assert copied["ordered"]["a"] == [1, 2]
    assert len(copied["pair"].first) == 1
    assert copied["set"] == {1, 2}


def odd_tensors():
    base = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "scalar": torch.tensor(3.0),
        "empty": torch.empty(0, 3),
        "transposed": base.transpose(0, 2),
        "slice": base[:, 1:, ::2],
        "expanded": torch.tensor([5.0]).expand(4),
        "expanded within its storage": torch.arange(4.0)[:1].expand(4),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
        "negative": torch.randn(3, dtype=torch.complex64).conj().imag,
        "sparse": torch.eye(3).to_sparse(),
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "in a graph": torch.ones(2, requires_grad=True) * 2,
        "not a number": torch.tensor([0.0]),
        **{str(dtype): torch.ones(3).to(dtype) for dtype in (torch.bool, torch.int64, torch.uint8, torch.bfloat16)},
    }


@pytest.mark.parametrize("name", odd_tensors())
def test_tensors_of_every_kind_are_copied(name):
    tensor = odd_tensors()[name]
    for previous in (None, snapshot(tensor), snapshot(torch.ones(3)), np.ones(3), "text"):
        copied = snapshot(tensor, previous)
        assert same(copied, tensor.detach())
        if name not in ("sparse", "conjugate", "negative"):  # which are resolved
            assert copied.stride() == tensor.stride()
        assert not copied.requires_grad
    if name not in ("empty", "sparse"):
        before = copied.clone()
        with torch.no_grad():
            tensor.as_strided((1,), (1,)).copy_(torch.zeros((), dtype=tensor.dtype))
        assert torch.equal(copied, before)


def test_tied_weights_stay_tied():
    network, optimizer = training()
    copied = snapshot(tree_of(network, optimizer))
    copied["model"]["0.weight"].zero_()
    assert not copied["model"]["2.weight"].any()
    assert network[0].weight.any()


def test_views_of_one_tensor_stay_views_of_one_tensor():
    flat = torch.arange(10.0)
    tree = {"head": flat[:4], "tail": flat[2:].reshape(2, 4), "bits": flat.view(torch.int32)}
    for previous in (None, snapshot(tree)):
        copied = snapshot(tree, previous)
        assert same(copied, tree)
        copied["head"][3] = -1.0
        assert copied["tail"][0, 1] == -1.0
        assert flat[3] == 3.0


def test_tensors_that_begin_at_one_address_but_know_nothing_of_each_other():
    array = np.arange(6.0)
    tree = {"head": torch.from_numpy(array[:2]), "all": torch.from_numpy(array)}
    assert same(snapshot(tree), tree)


def addresses(tree):
    return [value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data for value in tree.values()]


def test_the_memory_of_the_previous_snapshot_is_used_again():
    flat = torch.arange(6.0)
    tree = {
        "matrix": torch.ones(3, 4),
        "view": flat[2:4],
        "other view": flat[1:],
        "transposed": torch.ones(3, 4).T,
        "array": np.ones(5),
        "columns": np.asfortranarray(np.ones((2, 3))),
    }
    first = snapshot(tree)
    places = addresses(first)
    for value in tree.values():
        value += 1
    second = snapshot(tree, first)
    assert addresses(second) == places
    assert same(second, tree)
    assert not set(places) & set(addresses(tree))


@pytest.mark.parametrize(
    "value",
    [torch.zeros(4), torch.zeros(2, 3, dtype=torch.int32), np.zeros((2, 3)), "text"],
    ids=["shape", "dtype", "array", "text"],
)
def test_an_entry_of_another_kind_gets_new_memory(value):
    first = snapshot({"a": torch.ones(2, 3), "b": torch.ones(2)})
    kept = first["a"].clone()
    second = snapshot({"a": value, "b": torch.zeros(2)}, first)
    assert same(second["a"], value)
    assert second["b"].data_ptr() == first["b"].data_ptr()
    assert torch.equal(first["a"], kept)


def test_weights_that_are_no_longer_tied_get_memory_of_their_own():
    weight = torch.ones(3)
    first = snapshot({"a": weight, "b": weight})
    second = snapshot({"a": weight, "b": torch.zeros(3)}, first)
    assert same(second, {"a": torch.ones(3), "b": torch.zeros(3)})
    array = np.ones(3)
    first = snapshot({"a": array, "b": array})
    assert first["a"] is first["b"]
    assert same(snapshot({"a": array, "b": np.zeros(3)}, first), {"a": np.ones(3), "b": np.zeros(3)})


def test_views_that_become_tensors_of_their_own_get_memory_of_their_own():
    flat = torch.arange(6.0)
    first = snapshot({"a": flat[:4], "b": flat[2:]})
    tree = {"a": torch.zeros(4), "b": torch.ones(4)}
    assert same(snapshot(tree, first), tree)


def test_the_memory_of_a_transposed_tensor_takes_a_plain_one_with_its_views():
    first = snapshot({"a": torch.ones(3, 3).T})
    matrix = torch.arange(9.0).reshape(3, 3)
    tree = {"a": matrix, "b": matrix.flatten()}
    copied = snapshot(tree, first)
    assert same(copied, tree)
    assert copied["a"].is_contiguous()


def test_a_tree_that_grew_or_changed_its_shape_is_copied_all_the_same():
    trees = [{"a": [torch.ones(2)]}, {"a": [torch.ones(2), torch.zeros(2)], "b": 1}, {"a": {"x": torch.ones(1)}}, [1]]
    previous = None
    for tree in trees:
        previous = snapshot(tree, previous)
        assert same(previous, tree)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.int16, torch.bool, torch.complex64])


@st.composite
def trees(draw):
    """A tree of tensors, some of them views of one storage and in several places."""
    pool = []
    for shape, dtype in draw(st.lists(st.tuples(SHAPES, DTYPES), min_size=1, max_size=3)):
        tensor = torch.randint(0, 100, shape).to(dtype)
        pool += [tensor, tensor.T if tensor.dim() == 2 else tensor, tensor[1:] if tensor.dim() else tensor]
    leaves = st.sampled_from(pool) | st.integers(0, 5)
    return draw(st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner)))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(trees(), min_size=1, max_size=4))
def test_whatever_the_previous_snapshot_was_the_copy_is_right(many):
    previous = None
    for tree in many:
        previous = snapshot(tree, previous)
        assert same(previous, tree)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_are_copied_to_pinned_memory():
    flat = torch.arange(2.0e6, device="cuda")
    tree = {"a": torch.ones(1000, 1000, device="cuda"), "head": flat[:7], "tail": flat[3:]}
    first = snapshot(tree)
    assert all(value.device.type == "cpu" and value.is_pinned() for value in first.values())
    assert same(first, tree)
    for value in (tree["a"], flat):
        value += 1
    second = snapshot(tree, first)
    for value in (tree["a"], flat):
        value.zero_()  # at once: the copies must have been waited for
    assert addresses(second) == addresses(first)
    assert second["a"].eq(2).all()
    assert second["tail"][-1] == 2.0e6
