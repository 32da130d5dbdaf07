"""Weights of one backend in a network of another: every kind of layer predicts the same with them."""

import numpy as np
import pytest

from delira.errors import CheckpointError
from delira.models import named_weights, transfer_weights

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402 - after the skip


class TorchLayer(AbstractPyTorchNetwork):
    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return {"pred": x}


def torch_layers(kind):
    nn = torch.nn
    return {
        "dense": lambda: nn.Linear(3, 5),
        "dense without bias": lambda: nn.Linear(4, 4, bias=False),  # square: nothing but the backend knows its layout
        "conv1d": lambda: nn.Conv1d(2, 4, 3),
        "conv2d": lambda: nn.Conv2d(4, 6, (3, 2), stride=2, groups=2),
        "conv3d": lambda: nn.Conv3d(1, 2, 2),
        "dilated": lambda: nn.Conv2d(2, 3, 2, dilation=2),
        "depthwise": lambda: nn.Conv2d(3, 6, 3, groups=3),
        "transposed": lambda: nn.ConvTranspose2d(3, 2, (2, 3), stride=2),
        "batch norm": lambda: nn.BatchNorm2d(3, eps=1e-3),
        "layer norm": lambda: nn.LayerNorm(5, eps=1e-3),
        "group norm": lambda: nn.GroupNorm(2, 4, eps=1e-3),
        "embedding": lambda: nn.Embedding(7, 4),
    }[kind]()


#: kind -> shape of the input, with the channels first
INPUTS = {
    "dense": (2, 3), "dense without bias": (2, 4), "conv1d": (2, 2, 7), "conv2d": (2, 4, 7, 6),
    "conv3d": (2, 1, 4, 4, 4), "dilated": (2, 2, 6, 6), "depthwise": (2, 3, 5, 5), "transposed": (2, 3, 4, 4),
    "batch norm": (2, 3, 4, 4),
    "layer norm": (2, 5), "group norm": (2, 4, 3, 3), "embedding": (2, 3),
}  # fmt: skip


def images_last(array):
    return np.moveaxis(array, 1, -1) if array.ndim > 2 else array


def images_first(array):
    return np.moveaxis(array, -1, 1) if array.ndim > 2 else array


def tensorflow_network(kind):
    keras = pytest.importorskip("keras")
    from delira.models import AbstractTfNetwork

    layers = keras.layers
    layer = {
        "dense": lambda: layers.Dense(5),
        "dense without bias": lambda: layers.Dense(4, use_bias=False),
        "conv1d": lambda: layers.Conv1D(4, 3),
        "conv2d": lambda: layers.Conv2D(6, (3, 2), strides=2, groups=2),
        "conv3d": lambda: layers.Conv3D(2, 2),
        "dilated": lambda: layers.Conv2D(3, 2, dilation_rate=2),
        "depthwise": lambda: layers.DepthwiseConv2D(3, depth_multiplier=2),
        "transposed": lambda: layers.Conv2DTranspose(2, (2, 3), strides=2),
        "batch norm": lambda: layers.BatchNormalization(epsilon=1e-3),
        "layer norm": lambda: layers.LayerNormalization(epsilon=1e-3),
        "group norm": lambda: layers.GroupNormalization(2, epsilon=1e-3),
        "embedding": lambda: layers.Embedding(7, 4),
    }[kind]()

    class TfLayer(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.layer = layer
            shape = INPUTS[kind]
            layer.build((None, *shape[2:], shape[1]) if len(shape) > 2 else (None, *shape[1:]))

        def call(self, x):
            return {"pred": self.layer(x)}

    return TfLayer()


def jax_network(kind):
    nnx = pytest.importorskip("flax.nnx")
    from delira.models import AbstractJaxNetwork

    class JaxLayer(AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            rngs = self.rngs
            self.layer = {
                "dense": lambda: nnx.Linear(3, 5, rngs=rngs),
                "dense without bias": lambda: nnx.Linear(4, 4, use_bias=False, rngs=rngs),
                "conv1d": lambda: nnx.Conv(2, 4, (3,), padding="VALID", rngs=rngs),
                "conv2d": lambda: nnx.Conv(4, 6, (3, 2), strides=2, feature_group_count=2, padding="VALID", rngs=rngs),
                "conv3d": lambda: nnx.Conv(1, 2, (2, 2, 2), padding="VALID", rngs=rngs),
                "dilated": lambda: nnx.Conv(2, 3, (2, 2), kernel_dilation=2, padding="VALID", rngs=rngs),
                "depthwise": lambda: nnx.Conv(3, 6, (3, 3), feature_group_count=3, padding="VALID", rngs=rngs),
                "transposed": lambda: nnx.ConvTranspose(3, 2, (2, 3), strides=(2, 2), padding="VALID", rngs=rngs),
                "batch norm": lambda: nnx.BatchNorm(3, epsilon=1e-3, rngs=rngs),
                "layer norm": lambda: nnx.LayerNorm(5, epsilon=1e-3, rngs=rngs),
                "group norm": lambda: nnx.GroupNorm(4, num_groups=2, epsilon=1e-3, rngs=rngs),
                "embedding": lambda: nnx.Embed(7, 4, rngs=rngs),
            }[kind]()

        def __call__(self, x):
            return {"pred": self.layer(x)}

    return JaxLayer()


BUILDERS = {"tensorflow": tensorflow_network, "jax": jax_network}


def inputs(kind):
    rng = np.random.default_rng(0)
    shape = INPUTS[kind]
    return rng.integers(0, 7, shape) if kind == "embedding" else rng.normal(size=shape).astype(np.float32)


def predict(network, kind, x, *, last):
    """The network's output with the channels first."""
    backend = network.__delira_backend__
    with backend.calls.evaluating(network):
        array = images_last(x) if last and kind != "embedding" else x
        key = next(iter(backend.calls.key_mapping(network)))
        devices = backend.devices.of(network)
        prepared = network.prepare_batch({"label": array}, devices.input, devices.output)
        output = backend.arrays.to_numpy(backend.calls.forward(network, {key: prepared["label"]}))["pred"]
    return images_first(output) if last and kind != "embedding" else output


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("backend_name", BUILDERS)
@pytest.mark.parametrize("kind", INPUTS)
def test_a_layer_predicts_the_same(kind, backend_name):
    source, target = TorchLayer(layer=torch_layers(kind)), BUILDERS[backend_name](kind)
    with torch.no_grad():  # normalisations begin with ones and zeros
        for number, value in enumerate(source.state_dict().values()):
            if value.dtype.is_floating_point:
                value.copy_(torch.from_numpy(np.random.default_rng(number).uniform(0.5, 1.5, value.shape)))
    transfer_weights(source, target)
    x = inputs(kind)
    expected = predict(source, kind, x, last=False)
    np.testing.assert_allclose(predict(target, kind, x, last=True), expected, rtol=1e-4, atol=1e-5)
    back = TorchLayer(layer=torch_layers(kind))
    transfer_weights(target, back)
    for name, value in named_weights(source).items():
        if name != "layer.num_batches_tracked":
            np.testing.assert_array_equal(named_weights(back)[name], value)


@pytest.mark.parametrize("backend_name", BUILDERS)
def test_a_flattened_image_is_read_in_its_order(backend_name):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 2, 3, 4)).astype(np.float32)

    class TorchFlat(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(24, 5)

        def forward(self, x):
            return {"pred": self.head(x.flatten(1))}

    if backend_name == "jax":
        nnx = pytest.importorskip("flax.nnx")
        from delira.models import AbstractJaxNetwork

        class Flat(AbstractJaxNetwork):
            def __init__(self):
                super().__init__()
                self.head = nnx.Linear(24, 5, rngs=self.rngs)

            def __call__(self, x):
                return {"pred": self.head(x.reshape(len(x), -1))}
    else:
        keras = pytest.importorskip("keras")
        from delira.models import AbstractTfNetwork

        class Flat(AbstractTfNetwork):
            def __init__(self):
                super().__init__()
                self.flatten, self.head = keras.layers.Flatten(), keras.layers.Dense(5)
                self.head.build((None, 24))

            def call(self, x):
                return {"pred": self.head(self.flatten(x))}

    source, target, back = TorchFlat(), Flat(), TorchFlat()
    transfer_weights(source, target, flattened={"head": (2, 3, 4)})
    transfer_weights(target, back, flattened={"head": (2, 3, 4)})
    expected = source(torch.from_numpy(x))["pred"].detach()
    found = predict(target, "conv2d", x, last=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(back.head.weight.detach(), source.head.weight.detach())
    with pytest.raises(CheckpointError, match="reads images of shape"):
        transfer_weights(source, target, flattened={"head": (2, 3, 5)})


# ---- within one backend, for what is no layer's business


def two(**sizes):
    return TorchLayer(**{name: torch.nn.Linear(*size) for name, size in sizes.items()})


def test_layers_are_mapped_by_their_names():
    source, target = two(body=(3, 4), head=(4, 2)), two(first=(3, 4), last=(4, 2))
    transfer_weights(source, target, {"first": "body", "last": "head"})
    for mine, theirs in (("first", "body"), ("last", "head")):
        assert torch.equal(getattr(target, mine).weight, getattr(source, theirs).weight)
    single = two(first=(3, 4), last=(4, 2))
    transfer_weights(source, single, {"first.weight": "body.weight", "first.bias": "body.bias", "last": "head"})
    assert torch.equal(single.first.bias, source.body.bias)


@pytest.mark.parametrize(
    ("sizes", "mapping", "says"),
    [
        ({"first": (3, 4)}, None, r"source has no first.weight, first.bias; .* nothing that takes body.weight"),
        ({"body": (3, 4), "head": (4, 2), "more": (2, 2)}, None, "the source has no more.weight"),
        ({"body": (3, 4)}, None, "nothing that takes head.weight, head.bias"),
        ({"body": (3, 5), "head": (5, 2)}, None, r"body.weight of the source is \(4, 3\), .* destination \(5, 3\)"),
        ({"body": (3, 4), "head": (4, 2)}, {"haed": "head"}, "mapping names haed"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(sizes, mapping, says):
    source, target = two(body=(3, 4), head=(4, 2)), two(**sizes)
    before = named_weights(target)
    with pytest.raises(CheckpointError, match=says):
        transfer_weights(source, target, mapping)
    for name, value in named_weights(target).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_message_names_three_weights_at_most():
    layers = dict.fromkeys(["layer0", "layer1", "layer2", "layer3"], (3, 4))
    wider = dict.fromkeys(layers, (3, 5))
    with pytest.raises(CheckpointError, match=r"layer1\.weight .*; and 5 more$") as caught:
        transfer_weights(two(**layers), two(**wider))
    assert "layer2" not in str(caught.value)
    with pytest.raises(CheckpointError, match=r"layer1\.weight, and 5 more; .*layer9"):
        transfer_weights(two(layer9=(3, 4)), two(**layers))


def test_a_flattened_layer_that_is_none_is_refused():
    source = two(body=(3, 4))
    with pytest.raises(CheckpointError, match="flattened names 'bdoy', which is no dense layer"):
        transfer_weights(source, two(body=(3, 4)), flattened={"bdoy": (1, 1, 3)})


class TwoLayers(AbstractPyTorchNetwork):
    def __init__(self, is_tied, **buffers):
        super().__init__()
        self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        if is_tied:
            self.other.weight = self.one.weight
        for name, value in buffers.items():
            self.register_buffer(name, torch.tensor(value))


def test_two_weights_that_differ_do_not_become_one():
    source, target = TwoLayers(is_tied=False), TwoLayers(is_tied=True)
    before = named_weights(target)
    with pytest.raises(CheckpointError, match=r"one\.weight and other\.weight share their memory"):
        transfer_weights(source, target)
    assert all(np.array_equal(before[name], value) for name, value in named_weights(target).items())
    transfer_weights(target, source)
    assert np.array_equal(named_weights(source)["other.weight"], before["one.weight"])
    transfer_weights(source, target)  # now they are equal


def test_fractions_do_not_become_integers():
    with pytest.raises(CheckpointError, match="level of the source is of float32, level of the destination of int64"):
        transfer_weights(TwoLayers(False, level=[0.5]), TwoLayers(False, level=[3]))
