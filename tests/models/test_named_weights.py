"""Weights by name: as arrays, and in safetensors files of which every byte is checked."""

import numpy as np
import pytest

import delira
from delira.errors import CheckpointError, NetworkError
from delira.io import load_weights, save_weights
from delira.models import load_named_weights, named_weights

# ------------------------------------------------------------------ every backend


def test_weights_go_from_one_network_to_another_bit_for_bit(kit):
    source, target = kit.build(), kit.network(n_features=3)
    load_named_weights(target, named_weights(source))
    assert kit.same(named_weights(target), named_weights(source))
    assert kit.read(target).tobytes() == kit.read(source).tobytes()


def test_named_weights_are_copies(kit):
    network = kit.build()
    before = kit.read(network)
    weights = named_weights(network)
    for array in weights.values():
        array[...] = 7
    assert np.array_equal(kit.read(network), before)
    load_named_weights(network, weights)
    for array in weights.values():
        array[...] = 8
    assert np.array_equal(kit.read(network), np.full_like(before, 7))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, array: {}, "missing: .*weight"),
        (lambda name, array: {name: array, "other": array}, "unknown to the network: other"),
        (lambda name, array: {name: np.zeros((5, 5), array.dtype)}, r"weight is float\d\d \(5, 5\), in the network"),
        (lambda name, array: {name: array.astype("f2")}, r"weight is float16 \(\d, \d\), in the network float"),
        (lambda name, array: {name: array.tolist()}, "weight is a list, not a numpy array"),
    ],
    ids=["missing", "unknown", "shape", "dtype", "list"],
)
def test_weights_of_another_network_are_refused_and_change_nothing(kit, change, message):
    network = kit.build()
    ((name, array),) = named_weights(network).items()
    before = kit.read(network)
    with pytest.raises(CheckpointError, match=message):
        load_named_weights(network, change(name, np.zeros_like(array)))
    assert np.array_equal(kit.read(network), before)


def test_what_belongs_to_no_backend_is_refused():
    with pytest.raises(NetworkError, match="object belongs to no backend"):
        named_weights(object())


def test_a_file_of_weights_is_the_network_again(kit, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    network, other = kit.build(), kit.network(n_features=3)
    path = save_weights(network, tmp_path / "net.safetensors")
    weights = load_weights(path, other)
    assert kit.same(weights, named_weights(network))
    assert kit.read(other).tobytes() == kit.read(network).tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["net.safetensors"]
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    assert metadata["delira_version"] == delira.__version__
    assert metadata["network"] == type(network).__qualname__


def test_a_file_of_another_network_is_refused_with_its_class(kit, tmp_path):
    pytest.importorskip("safetensors")
    path = save_weights(kit.build(n_features=4), tmp_path / "net.safetensors")
    network = kit.build(n_features=3)
    before = kit.read(network)
    with pytest.raises(CheckpointError, match="do not fit the network") as caught:
        load_weights(path, network)
    assert any(f"for a network of the class {type(network).__qualname__}" in note for note in caught.value.__notes__)
    assert np.array_equal(kit.read(network), before)


# ------------------------------------------------------------------ bad files


@pytest.fixture
def content(tmp_path):
    """The bytes of a file of weights."""
    pytest.importorskip("safetensors")
    from delira.testing import ToyNetwork

    return save_weights(ToyNetwork(n_features=4), tmp_path / "good.safetensors").read_bytes()


def test_every_changed_byte_is_found(content, tmp_path):
    path = tmp_path / "bad.safetensors"
    rng = np.random.default_rng(0)
    for place in range(len(content)):
        for change in (1 << int(rng.integers(8)), int(rng.integers(1, 256))):
            bad = bytearray(content)
            bad[place] ^= change
            path.write_bytes(bad)
            with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
                load_weights(path)


def test_every_truncation_is_found(content, tmp_path):
    path = tmp_path / "bad.safetensors"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
            load_weights(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
        load_weights(path)


def test_a_missing_file_a_folder_and_another_format_are_refused(content, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no weights", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("folder", "text", "loop", "nothing"):
        with pytest.raises(CheckpointError, match=f"{name} is not a readable file of weights"):
            load_weights(tmp_path / name)


def test_a_file_without_checksum_is_refused_and_the_way_around_works(content, tmp_path):
    from safetensors.numpy import load_file, save_file

    from delira.testing import ToyNetwork

    network, path = ToyNetwork(n_features=2), tmp_path / "foreign.safetensors"
    save_file({"weight": np.array([[3.0], [4.0]])}, path)
    with pytest.raises(CheckpointError, match=r"has no checksum.*load_file"):
        load_weights(path, network)
    load_named_weights(network, load_file(path))
    assert network.weight.tolist() == [[3], [4]]


def test_what_safetensors_cannot_hold_is_named_before_anything_is_written(content, tmp_path):
    from delira.testing import ToyNetwork

    network = ToyNetwork(n_features=2)
    network.weight = network.weight.astype(np.complex128)
    with pytest.raises(CheckpointError, match="cannot hold all weights of the network: weight is complex128"):
        save_weights(network, tmp_path / "new.safetensors")
    assert not (tmp_path / "new.safetensors").exists()


def test_a_transposed_weight_is_stored_by_its_values(content, tmp_path):
    from delira.testing import ToyNetwork

    network = ToyNetwork(n_features=2)
    network.weight = np.arange(6.0).reshape(2, 3).T
    weights = load_weights(save_weights(network, tmp_path / "new.safetensors"))
    assert weights["weight"].tolist() == network.weight.tolist()


# ------------------------------------------------------------------ PyTorch


@pytest.fixture
def deep():
    """A PyTorch network with biases, buffers, a 0-d entry, tied weights, and something that is no weight."""
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Counted(torch.nn.Module):
        def get_extra_state(self):
            return {"calls": 3}

        def set_extra_state(self, state):
            raise AssertionError("no weight")

    class Deep(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 3).to(memory_format=torch.channels_last)
            self.norm = torch.nn.BatchNorm1d(3)
            self.first = torch.nn.Linear(3, 3)
            self.last = torch.nn.Linear(3, 3)
            self.last.weight = self.first.weight
            self.counted = Counted()

        def forward(self, x):
            return {"pred": self.last(self.first(self.norm(x)))}

    torch.manual_seed(0)
    return Deep()


def test_every_parameter_and_buffer_has_its_torch_name(deep):
    weights = named_weights(deep)
    assert list(weights) == [
        "conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
        "norm.num_batches_tracked", "first.weight", "first.bias", "last.weight", "last.bias",
    ]  # fmt: skip
    assert weights["norm.num_batches_tracked"].shape == ()
    assert weights["norm.num_batches_tracked"].dtype == np.int64


def test_other_programs_read_the_file_and_tied_weights_stay_tied(deep, tmp_path):
    torch = pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.torch").load_file
    path = save_weights(deep, tmp_path / "deep.safetensors")
    tensors = load_file(path)
    state = {name: value for name, value in deep.state_dict().items() if isinstance(value, torch.Tensor)}
    assert tensors.keys() == state.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == state[name].dtype
        assert torch.equal(tensor, state[name])
    other = type(deep)()
    load_weights(path, other)
    assert other.last.weight is other.first.weight
    for name, value in named_weights(other).items():
        assert np.array_equal(value, state[name].numpy()), name


def test_a_tied_weight_is_refused_two_values(deep):
    weights = named_weights(deep)
    before = {name: array.copy() for name, array in weights.items()}
    weights["last.weight"] = weights["last.weight"] + 1
    weights["conv.bias"] = weights["conv.bias"] + 1
    with pytest.raises(CheckpointError, match=r"first\.weight and last\.weight share their memory"):
        load_named_weights(deep, weights)
    assert all(np.array_equal(array, before[name]) for name, array in named_weights(deep).items())
    weights["first.weight"] = weights["last.weight"]
    load_named_weights(deep, weights)
    assert np.array_equal(named_weights(deep)["first.weight"], weights["last.weight"])


def test_bfloat16_keeps_its_bits(deep, tmp_path):
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    load_file = pytest.importorskip("safetensors.torch").load_file
    deep.bfloat16()
    other = type(deep)().bfloat16()
    weights = load_weights(save_weights(deep, tmp_path / "deep.safetensors"), other)
    assert weights["first.weight"].dtype == ml_dtypes.bfloat16
    for name, tensor in load_file(tmp_path / "deep.safetensors").items():
        for found in (tensor, other.state_dict()[name]):
            assert found.dtype == deep.state_dict()[name].dtype
            assert torch.equal(found, deep.state_dict()[name]), name
    with pytest.raises(CheckpointError, match=r"first\.weight is bfloat16 \(3, 3\), in the network float32 \(3, 3\)"):
        load_named_weights(type(deep)(), weights)


def test_arrays_that_torch_does_not_take_are_converted(deep):
    weights = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in named_weights(deep).items()}
    for array in weights.values():
        array.flags.writeable = False
    other = type(deep)()
    load_named_weights(other, weights)
    assert np.array_equal(named_weights(other)["first.weight"], weights["first.weight"])


def test_a_network_that_does_not_fit_keeps_all_its_weights(deep):
    weights = {name: np.ones_like(array) for name, array in named_weights(deep).items()}
    del weights["last.bias"]
    weights["extra"] = np.zeros(2)
    weights["first.bias"] = np.zeros(4, np.float32)
    before = named_weights(deep)
    with pytest.raises(CheckpointError, match=r"missing: last\.bias; unknown to the network: extra; first\.bias is"):
        load_named_weights(deep, weights)
    after = named_weights(deep)
    assert all(np.array_equal(after[name], before[name]) for name in before)
