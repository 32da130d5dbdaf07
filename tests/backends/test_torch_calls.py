"""From numpy batches to what a PyTorch network takes, and what it gives back."""

import copy

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, MissingKeyError, NetworkError

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer, convert_torch_tensor_to_npy  # noqa: E402

CPU = torch.device("cpu")
MSE = torch.nn.functional.mse_loss


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.linear(x)}


def prepare(batch):
    return Net.prepare_batch(batch, CPU, CPU)


def trainer_of(network, path, **settings):
    defaults = {
        "losses": {"mse": MSE},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.05},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(network, path, **{**defaults, **settings})


def arrays(n=10, **more):
    rng = np.random.default_rng(2)
    return {
        "data": rng.normal(size=(n, 3)).astype(np.float32),
        "label": rng.normal(size=(n, 1)).astype(np.float32),
        **more,
    }


# ---- prepare_batch


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64", "bool"])
def test_data_become_float32_whatever_they_were(dtype):
    data = np.array([[0, 1], [1, 0]], dtype=dtype)
    prepared = prepare({"data": data})["data"]
    assert prepared.dtype is torch.float32
    assert np.array_equal(prepared.numpy(), data.astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", torch.float32),
        ("float32", torch.float32),
        ("float16", torch.float16),
        ("int64", torch.int64),
        ("int32", torch.int32),
        ("uint8", torch.uint8),
        ("bool", torch.bool),
    ],
)
def test_other_entries_keep_their_type_and_float64_becomes_float32(dtype, expected):
    label = np.array([0, 1, 1], dtype=dtype)
    prepared = prepare({"label": label})["label"]
    assert prepared.dtype is expected
    assert np.array_equal(prepared.numpy(), label.astype(prepared.numpy().dtype))


def test_tensors_lists_and_numbers_are_accepted():
    prepared = prepare({"data": torch.ones(2, 3, dtype=torch.float64), "label": [torch.tensor(1), 2], "weight": 0.5})
    assert prepared["data"].dtype is torch.float32
    assert [int(label) for label in prepared["label"]] == [1, 2]
    assert prepared["weight"].dtype is torch.float32


def test_what_is_no_array_passes_as_it_is():
    names = np.array(["a.png", "b.png"])
    objects = np.array([{"age": 3}, None], dtype=object)
    batch = {"data": np.zeros((2, 3)), "name": ["a.png", "b.png"], "names": names, "objects": objects, "nothing": None}
    prepared = prepare(batch)
    assert prepared["name"] == ["a.png", "b.png"]
    assert prepared["names"] is names
    assert prepared["objects"] is objects
    assert prepared["nothing"] is None


def test_nested_entries_are_prepared_in_place_of_each_other():
    batch = {
        "data": {"image": np.zeros((2, 4), np.float64), "age": np.array([1, 2])},
        "label": {"mask": np.array([0, 1]), "more": [np.array([0.5, 1.5]), ("a", np.array([True, False]))]},
    }
    prepared = prepare(batch)
    assert {value.dtype for value in prepared["data"].values()} == {torch.float32}
    assert prepared["label"]["mask"].dtype is torch.int64
    first, (name, last) = prepared["label"]["more"]
    assert (first.dtype, name, last.dtype) == (torch.float32, "a", torch.bool)


def test_the_batch_is_not_changed():
    batch = {"data": np.ones((2, 3)), "label": {"mask": np.array([0, 1])}, "name": ["a", "b"]}
    before = copy.deepcopy(batch)
    prepared = prepare(batch)
    prepared["label"]["new"] = prepared["more"] = 0
    assert batch.keys() == before.keys()
    assert batch["label"].keys() == before["label"].keys()
    assert batch["data"].dtype == np.float64
    assert np.array_equal(batch["data"], before["data"])
    assert batch["name"] == before["name"]


@pytest.mark.parametrize(
    "odd",
    [
        np.arange(6.0, dtype=np.float32).reshape(2, 3)[:, ::-1],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0).reshape(2, 3).astype(">f8"),
        np.arange(12).reshape(2, 6)[:, ::2],
        np.broadcast_to(np.arange(3.0), (2, 3)).copy(),
    ],
    ids=["mirrored", "Fortran", "big-endian", "strided", "plain"],
)
def test_an_array_may_lie_in_memory_as_it_likes(odd):
    """A mirrored image has negative strides, which torch does not take."""
    prepared = prepare({"data": odd, "label": odd})
    assert np.array_equal(prepared["data"].numpy(), odd)
    assert np.array_equal(prepared["label"].numpy(), odd)


def test_a_read_only_array_is_taken_without_a_warning():
    data = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    data.flags.writeable = False
    assert np.array_equal(prepare({"data": data})["data"].numpy(), data)


def test_entries_go_to_their_devices():
    prepared = Net.prepare_batch({"data": np.zeros((2, 3)), "label": np.zeros(2)}, CPU, torch.device("meta"))
    assert (prepared["data"].device.type, prepared["label"].device.type) == ("cpu", "meta")


# ---- inputs


def net_with(forward):
    return type("Special", (Net,), {"forward": forward})()


def test_an_argument_called_x_gets_the_data(tmp_path):
    network = net_with(lambda self, x, scale=1.0: {"pred": scale * self.linear(x)})
    assert trainer_of(network, tmp_path).key_mapping == {"x": "data"}


def test_a_single_argument_gets_the_data_whatever_it_is_called(tmp_path):
    network = net_with(lambda self, image, *, scale=1.0: {"pred": scale * self.linear(image)})
    trainer = trainer_of(network, tmp_path)
    assert trainer.key_mapping == {"image": "data"}
    trainer.train(1, BaseDataManager(arrays(), batch_size=4))


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, image, age: {"pred": self.linear(image) * age},
        lambda self, x, age: {"pred": self.linear(x) * age},
        lambda self, *inputs: {"pred": self.linear(inputs[0])},
    ],
    ids=["two", "x and another", "any number"],
)
def test_a_network_of_several_inputs_needs_a_key_mapping(forward, tmp_path):
    with pytest.raises(ConfigError, match=r"Special\.forward takes \[.*\].*pass key_mapping=\{argument: batch entry\}"):
        trainer_of(net_with(forward), tmp_path)


def test_a_key_mapping_feeds_several_inputs(tmp_path):
    network = net_with(lambda self, image, age: {"pred": self.linear(image) * age})
    linear = copy.deepcopy(network.linear)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.05)
    batch = arrays(age=np.linspace(1, 2, 10, dtype=np.float32).reshape(-1, 1))
    trainer = trainer_of(network, tmp_path, key_mapping={"image": "data", "age": "age"})
    trainer.train(3, [batch])

    image, age, label = (torch.from_numpy(batch[name]) for name in ("data", "age", "label"))
    for _ in range(3):
        optimizer.zero_grad()
        MSE(linear(image) * age, label).backward()
        optimizer.step()
    assert torch.equal(network.linear.weight, linear.weight)
    assert np.array_equal(trainer.predict(batch)["pred"], (linear(image) * age).detach().numpy())


def test_a_key_mapping_to_an_absent_entry_is_refused_before_the_first_step(tmp_path):
    trainer = trainer_of(Net(), tmp_path, key_mapping={"x": "image"})
    with pytest.raises(MissingKeyError, match=r"reads 'image', but the batch has only \['data', 'label'\]"):
        trainer.train(1, BaseDataManager(arrays(), batch_size=4))
    assert trainer.state.global_step == 0


def test_a_key_mapping_to_an_absent_entry_is_explained_for_plain_iterables_as_well(tmp_path):
    trainer = trainer_of(Net(), tmp_path, key_mapping={"x": "image"})
    with pytest.raises(MissingKeyError, match=r"reads 'image', but the batch has only \['data', 'label'\]"):
        trainer.train(1, [arrays()])
    assert trainer.state.global_step == 0


# ---- outputs


class TwoHeads(Net):
    def __init__(self):
        super().__init__()
        self.second = torch.nn.Linear(3, 2)

    def forward(self, x):
        return {"pred": self.linear(x), "kind": self.second(x), "parts": {"sum": x.sum(1)}}


def test_each_loss_reads_the_entries_that_loss_keys_names(tmp_path):
    network = TwoHeads()
    mirror, ce = copy.deepcopy(network), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(mirror.parameters(), lr=0.05)
    batch = arrays(species=np.arange(10) % 2)
    trainer = trainer_of(network, tmp_path, losses={"mse": MSE, "ce": ce}, loss_keys={"ce": ("kind", "species")})
    trainer.train(3, [batch])

    data, label, species = (torch.from_numpy(batch[name]) for name in ("data", "label", "species"))
    for _ in range(3):
        output = mirror(data)
        optimizer.zero_grad()
        (MSE(output["pred"], label) + ce(output["kind"], species)).backward()
        optimizer.step()
    for ours, theirs in zip(network.parameters(), mirror.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_every_output_is_predicted_nested_ones_too(tmp_path):
    batch = arrays()
    network = TwoHeads()
    predictions = trainer_of(network, tmp_path).predict(batch)
    assert list(predictions) == ["pred", "kind", "parts"]
    with torch.no_grad():
        expected = network(torch.from_numpy(batch["data"]))
    assert np.array_equal(predictions["kind"], expected["kind"].numpy())
    assert np.array_equal(predictions["parts"]["sum"], expected["parts"]["sum"].numpy())


def test_a_loss_that_reads_an_absent_entry_is_refused_before_the_first_step(tmp_path):
    trainer = trainer_of(TwoHeads(), tmp_path, loss_keys={"mse": ("score", "label")})
    match = r"loss 'mse' reads 'score', but there are only .*'kind'.*set loss_keys=\{'mse': \(prediction, target\)\}"
    with pytest.raises(MissingKeyError, match=match):
        trainer.train(1, BaseDataManager(arrays(), batch_size=4))
    assert trainer.state.global_step == 0


@pytest.mark.parametrize("as_manager", [True, False])
@pytest.mark.parametrize("output", ["tensor", "tuple"])
def test_a_network_that_returns_no_dict_is_refused_before_the_first_update(output, as_manager, tmp_path):
    forwards = {"tensor": lambda self, x: self.linear(x), "tuple": lambda self, x: (self.linear(x),)}
    network = net_with(forwards[output])
    before = network.linear.weight.detach().clone()
    data = BaseDataManager(arrays(), batch_size=4) if as_manager else [arrays()]
    with pytest.raises(
        NetworkError, match=rf"Special returned a (?i:{output}); a network returns a dict of named outputs"
    ):
        trainer_of(network, tmp_path).train(1, data)
    assert torch.equal(network.linear.weight, before)


# ---- values of the steps


def test_train_metrics_are_computed_on_device_values_and_averaged_over_samples(tmp_path):
    seen = []

    def error(label, pred):
        seen.append((label, pred))
        return (label - pred).abs().mean()

    def bias(pred):
        return float(pred.mean())

    trainer = trainer_of(
        Net(),
        tmp_path,
        train_metrics={"error": error, "bias": bias},
        metric_keys={"bias": ("pred",)},
        optimizer_params={"lr": 0.0},
    )
    manager = BaseDataManager(arrays(), batch_size=4)  # 4, 4 and 2 samples
    trainer.train(1, manager)
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for pair in seen for value in pair)
    pred = trainer.predict(arrays())["pred"]
    record = trainer.state.history[-1]
    assert record["error"] == pytest.approx(np.abs(arrays()["label"] - pred).mean(), rel=1e-5)
    assert record["bias"] == pytest.approx(pred.mean(), rel=1e-5)


def test_a_train_metric_that_is_no_single_number_is_refused_by_its_shape(tmp_path):
    trainer = trainer_of(Net(), tmp_path, train_metrics={"each": lambda label, pred: (label - pred).ravel()})
    with pytest.raises(NetworkError, match=r"a loss or training metric has the shape \(4,\)"):
        trainer.train(1, BaseDataManager(arrays(8), batch_size=4))


def test_integer_and_one_element_values_are_read(tmp_path):
    metrics = {"count": lambda label, pred: torch.tensor(len(pred)), "one": lambda label, pred: torch.ones(1)}
    trainer = trainer_of(Net(), tmp_path, train_metrics=metrics)
    trainer.train(1, BaseDataManager(arrays(8), batch_size=4))
    assert (trainer.state.history[-1]["count"], trainer.state.history[-1]["one"]) == (4.0, 1.0)


@pytest.mark.parametrize("reduce_mode", ["mean", "sum", "first_only", "last_only"])
def test_the_values_of_the_steps_are_reduced_as_asked(reduce_mode, tmp_path):
    batches = [{name: array[start : start + 4] for name, array in arrays().items()} for start in (0, 4, 8)]
    trainer = trainer_of(Net(), tmp_path, reduce_mode=reduce_mode, optimizer_params={"lr": 0.0})
    trainer.train(1, batches)
    losses = [np.mean((trainer.predict(batch)["pred"] - batch["label"]) ** 2) for batch in batches]
    expected = {
        "mean": np.average(losses, weights=[4, 4, 2]),
        "sum": np.sum(losses),
        "first_only": losses[0],
        "last_only": losses[-1],
    }[reduce_mode]
    assert trainer.state.history[-1]["mse"] == pytest.approx(expected, rel=1e-5)


# ---- tensors to numpy


def test_tensors_are_converted_and_other_values_pass():
    weight = torch.nn.Parameter(torch.ones(2, 2))
    args, kwargs = convert_torch_tensor_to_npy(
        torch.tensor(2.0),
        "a",
        loss=torch.tensor(3),
        weight=weight,
        half=torch.ones(2, dtype=torch.bfloat16),
        tree={"x": [weight]},
    )
    assert args[0].shape == (1,)
    assert args[1] == "a"
    assert kwargs["loss"].tolist() == [3]
    assert isinstance(kwargs["weight"], np.ndarray)
    assert kwargs["half"].dtype == np.float32
    assert np.array_equal(kwargs["tree"]["x"][0], np.ones((2, 2)))


def test_a_function_of_the_user_may_convert_the_predictions(tmp_path):
    def convert(**predictions):
        return [], {name: value.numpy() * 0 for name, value in predictions.items()}

    trainer = trainer_of(Net(), tmp_path, convert_batch_to_npy_fn=convert)
    assert not trainer.predict(arrays())["pred"].any()
