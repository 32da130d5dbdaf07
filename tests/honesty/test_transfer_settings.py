"""Weights go only to layers that compute the same with them."""

import numpy as np
import pytest

from delira.errors import CheckpointError
from delira.models import transfer_weights

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402 - after the skip

X = np.random.default_rng(2).normal(size=(2, 4, 7, 7)).astype("float32")


class Torch(AbstractPyTorchNetwork):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return {"pred": self.layer(x)}


def of_keras(layer):
    keras = pytest.importorskip("keras")
    pytest.importorskip("tensorflow")
    from delira.models import AbstractTfNetwork

    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.layer = layer(keras.layers)

        def call(self, x):
            return {"pred": self.layer(x)}

    network = Net()
    network(np.moveaxis(X, 1, -1))
    return network


def of_flax(layer):
    nnx = pytest.importorskip("flax.nnx")
    from delira.models import AbstractJaxNetwork

    class Net(AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.layer = layer(nnx, self.rngs)

        def __call__(self, x):
            return {"pred": self.layer(x)}

    return Net()


def torch_output(network):
    network.eval()
    with torch.no_grad():
        return network(torch.from_numpy(X))["pred"].numpy()


def last_output(network):
    return np.moveaxis(np.asarray(network(np.moveaxis(X, 1, -1))["pred"]), -1, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        (lambda nn: nn.BatchNorm2d(4), lambda layers: layers.BatchNormalization(), "epsilon of layer is 1e-05.*0.001"),
        (
            lambda nn: nn.GroupNorm(4, 4, eps=1e-3), lambda layers: layers.GroupNormalization(2),
            "groups of layer is 4, of layer 2",
        ),
        (
            lambda nn: nn.Conv2d(4, 3, 3, stride=2, padding=1), lambda layers: layers.Conv2D(3, 3, padding="same"),
            r"strides of layer is \(2, 2\), of layer \(1, 1\)",
        ),
        (
            lambda nn: nn.Conv2d(4, 3, 3, dilation=2), lambda layers: layers.Conv2D(3, 3),
            r"dilation of layer is \(2, 2\)",
        ),
    ],
    ids=["epsilon", "groups", "strides", "dilation"],
)  # fmt: skip
def test_layers_that_would_compute_something_else_are_refused_by_name(ours, theirs, names):
    source, target = Torch(ours(torch.nn)), of_keras(theirs)
    before = [variable.numpy().copy() for variable in target.variables]
    with pytest.raises(CheckpointError, match=rf"would compute something else: .*{names}"):
        transfer_weights(source, target)
    for variable, value in zip(target.variables, before, strict=True):
        assert np.array_equal(variable.numpy(), value)
    transfer_weights(source, target, check_settings=False)  # whoever knows better


def test_same_padding_with_strides_is_refused():
    """It adds 0 and 1 where PyTorch adds 1 and 1, or 1 and 0: the image is shifted."""
    source = Torch(torch.nn.Conv2d(4, 3, 3, stride=2, padding=1))
    target = of_keras(lambda layers: layers.Conv2D(3, 3, strides=2, padding="same"))
    with pytest.raises(
        CheckpointError, match=r'padding of layer is \(\(1, 1\), \(1, 1\)\), of layer "same" with strides'
    ):
        transfer_weights(source, target)


def test_groups_of_flax_are_compared_too():
    target = of_flax(lambda nnx, rngs: nnx.GroupNorm(4, num_groups=2, epsilon=1e-5, rngs=rngs))
    with pytest.raises(CheckpointError, match="groups of layer is 4, of layer 2"):
        transfer_weights(Torch(torch.nn.GroupNorm(4, 4)), target)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda nn: nn.BatchNorm2d(4, eps=1e-3), lambda layers: layers.BatchNormalization()),
        (lambda nn: nn.GroupNorm(2, 4, eps=1e-3), lambda layers: layers.GroupNormalization(2)),
        (lambda nn: nn.Conv2d(4, 3, 3, padding=1), lambda layers: layers.Conv2D(3, 3, padding="same")),
        (lambda nn: nn.Conv2d(4, 3, 3, padding="same"), lambda layers: layers.Conv2D(3, 3, padding="same")),
        (
            lambda nn: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1),
            lambda layers: layers.Conv2DTranspose(3, 4, strides=2, padding="same"),
        ),
    ],
    ids=["batch norm", "group norm", "same", "same by word", "transposed"],
)  # fmt: skip
def test_layers_that_are_alike_compute_the_same(ours, theirs):
    source, target = Torch(ours(torch.nn)), of_keras(theirs)
    with torch.no_grad():
        for weight in source.parameters():
            weight.normal_()
    transfer_weights(source, target)
    assert last_output(target) == pytest.approx(torch_output(source), abs=1e-4)


def test_a_shifted_transposed_convolution_is_refused():
    source = Torch(torch.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1))
    target = of_keras(lambda layers: layers.Conv2DTranspose(3, 3, strides=2, padding="same"))
    with pytest.raises(CheckpointError, match="padding of layer"):
        transfer_weights(source, target)
