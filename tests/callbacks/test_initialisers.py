"""First weights: their distributions, which layers have them, and that only what begins anew does."""

import random

import numpy as np
import pytest
from scipy import stats
from small_backends import build_kit

import delira
from delira.errors import ConfigError
from delira.training import callbacks as cb
from delira.training.callbacks import (
    KaimingNormal,
    KaimingUniform,
    LsuvInit,
    WeightInit,
    XavierNormal,
    XavierUniform,
    ZeroBias,
)

BACKENDS = ["torch", "tensorflow", "jax"]


def parts(backend):
    """A network with a convolution of (24, 8, 3, 3), a dense layer of (50, 40), and others."""
    if backend == "torch":
        torch = pytest.importorskip(
            "torch", reason="the torch backend needs the package 'torch', which is not installed"
        )
        conv, dense = torch.nn.Conv2d(8, 24, 3), torch.nn.Linear(40, 50)
        others = torch.nn.BatchNorm2d(24), torch.nn.Linear(50, 2, bias=False), torch.nn.Embedding(5, 4)
        net = torch.nn.ModuleDict({"conv": conv, "norm": others[0], "dense": dense, "last": others[1]})
        net["embedding"] = others[2]
        return net
    if backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
        import keras

        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = keras.layers.Conv2D(24, 3), keras.layers.BatchNormalization()
                self.dense, self.last = keras.layers.Dense(50), keras.layers.Dense(2, use_bias=False)
                self.embedding = keras.layers.Embedding(5, 4)
                for layer, shape in {"conv": (9, 9, 8), "norm": (24,), "dense": (40,), "last": (50,)}.items():
                    getattr(self, layer).build((None, *shape))
                self.embedding.build()
                self.built = True

        return Net()
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")

    class FlaxNet(nnx.Module):
        def __init__(self, rngs):
            self.conv, self.norm = nnx.Conv(8, 24, (3, 3), rngs=rngs), nnx.BatchNorm(24, rngs=rngs)
            self.dense, self.last = nnx.Linear(40, 50, rngs=rngs), nnx.Linear(50, 2, use_bias=False, rngs=rngs)
            self.embedding = nnx.Embed(5, 4, rngs=rngs)

    return FlaxNet(nnx.Rngs(0))


def weights(net, backend):
    """All weights in PyTorch's layout."""
    return build_kit(backend).backend.weights.portable(net)


def initialised(backend, *callbacks, **settings):
    net = parts(backend)
    before = weights(net, backend)
    delira.Trial(net, callbacks=callbacks, verbose=0, **{"seed": 0, **settings})
    return before, weights(net, backend)


DRAWN = [
    (lambda: KaimingNormal(), "kaiming_normal_", {}),
    (lambda: KaimingNormal(0.3, "fan_out"), "kaiming_normal_", {"a": 0.3, "mode": "fan_out"}),
    (lambda: KaimingNormal(nonlinearity="tanh"), "kaiming_normal_", {"nonlinearity": "tanh"}),
    (lambda: KaimingUniform(nonlinearity="relu"), "kaiming_uniform_", {"nonlinearity": "relu"}),
    (lambda: KaimingUniform(nonlinearity="selu"), "kaiming_uniform_", {"nonlinearity": "selu"}),
    (lambda: XavierNormal(), "xavier_normal_", {}),
    (lambda: XavierNormal(2.0), "xavier_normal_", {"gain": 2.0}),
    (lambda: XavierUniform(0.5), "xavier_uniform_", {"gain": 0.5}),
]


@pytest.mark.sampled("values")
@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("make", "name", "arguments"), DRAWN)
def test_weights_are_distributed_as_those_of_pytorch(backend, make, name, arguments):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    before, after = initialised(backend, make(), seed=1)
    for layer in ("conv", "dense"):
        found = after[f"{layer}.weight"].ravel()
        generator = torch.Generator().manual_seed(0)
        theirs = getattr(torch.nn.init, name)(
            torch.empty(after[f"{layer}.weight"].shape), generator=generator, **arguments
        )
        assert stats.ks_2samp(found, theirs.numpy().ravel()).pvalue > 0.005
        assert found.std() == pytest.approx(float(theirs.std()), rel=0.06)
        if "uniform" in name:
            assert abs(found).max() == pytest.approx(float(abs(theirs).max()), rel=0.01)
    for other in ("norm.weight", "embedding.weight", "conv.bias"):
        np.testing.assert_array_equal(after[other], before[other])


@pytest.mark.parametrize("nonlinearity", ["linear", "sigmoid", "tanh", "relu", "selu", "conv2d", "conv_transpose3d"])
def test_the_gains_are_those_of_pytorch(nonlinearity):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    assert KaimingNormal(nonlinearity=nonlinearity).gain == torch.nn.init.calculate_gain(nonlinearity)
    assert KaimingNormal(0.2).gain == torch.nn.init.calculate_gain("leaky_relu", 0.2)


@pytest.mark.parametrize("make", [KaimingNormal, XavierUniform])
def test_every_framework_has_the_same_weights(make):
    found = [initialised(backend, make(), seed=5)[1] for backend in BACKENDS]
    for name in ("conv.weight", "dense.weight", "last.weight"):
        for other in found[1:]:
            np.testing.assert_array_equal(found[0][name], other[name])


@pytest.mark.parametrize("backend", BACKENDS)
def test_biases_of_zero_where_there_are_biases(backend):
    before, after = initialised(backend, WeightInit(lambda layer: None), ZeroBias())
    assert (after["conv.bias"] == 0).all()
    assert (after["dense.bias"] == 0).all()
    assert "last.bias" not in after
    for name in ("conv.weight", "last.weight", "norm.weight", "norm.bias"):
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.sampled("values")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("modules", "targets", "changed"),
    [
        (None, ["Conv"], {"conv"}),
        (None, "Linear", {"dense", "last"}),
        (["dense", "conv"], ("Linear",), {"dense"}),
        ("last", ("Conv", "Linear"), {"last"}),
    ],
)
def test_layers_are_chosen_by_class_and_name(backend, modules, targets, changed):
    before, after = initialised(backend, XavierNormal(modules=modules, targets=targets))
    names = {name for name in before if name.endswith("weight") and not np.array_equal(before[name], after[name])}
    assert names == {f"{name}.weight" for name in changed}


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_may_be_named_by_themselves(backend):
    net = parts(backend)
    before = weights(net, backend)
    dense = net["dense"] if backend == "torch" else net.dense
    seen = []
    delira.Trial(net, callbacks=[KaimingNormal(modules=[dense]), WeightInit(seen.append, modules=[dense])], verbose=0)
    after = weights(net, backend)
    assert seen == [dense]
    assert not np.array_equal(before["dense.weight"], after["dense.weight"])
    np.testing.assert_array_equal(before["conv.weight"], after["conv.weight"])


def test_what_an_initialiser_draws_depends_on_the_seed_alone():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    def draw(layer):
        torch.nn.init.normal_(layer.weight)
        layer.weight.data[0, 0] = random.random() + np.random.random()

    found = []
    for seed, global_seed in ((1, 0), (1, 1), (2, 0)):
        torch.manual_seed(global_seed)
        random.seed(global_seed)
        np.random.seed(global_seed)
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        before = torch.get_rng_state(), random.getstate()
        delira.Trial(net, callbacks=[WeightInit(draw)], seed=seed, verbose=0)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert random.getstate() == before[1]
        found.append([layer.weight.detach().numpy().copy() for layer in net])
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert not np.array_equal(*found[0])


def test_what_is_continued_keeps_its_weights(tmp_path):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    def trial():
        net = torch.nn.Linear(3, 2)
        made = delira.Trial(
            net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), ["loss"], [KaimingNormal()], verbose=0,
            save_path=tmp_path, seed=0,
        )  # fmt: skip
        return made.with_train_data(np.ones((4, 3), "f4"), np.ones((4, 2), "f4"), 2)

    first = trial()
    begin = first.state["model"].weight.detach().clone()
    first.run(2)
    second = trial()
    assert torch.equal(second.state["model"].weight, begin)
    second.run(2)
    assert torch.equal(second.state["model"].weight, first.state["model"].weight)
    assert not torch.equal(second.state["model"].weight, begin)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_fold_of_an_experiment_begins_with_weights_of_its_own(backend, tmp_path):
    backend = build_kit(backend)
    found = []
    for fold, seed in ((0, 1), (0, 1), (1, 1), (0, 2)):
        path = tmp_path / f"{len(found)}"
        trainer = backend.trainer(path, callbacks=[XavierNormal()], fold=fold, seed=seed)
        found.append(backend.read(trainer.module).ravel().tolist())
    assert found[0] == found[1]
    assert len({tuple(one) for one in found}) == 3


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="WeightInit: the initialiser is a function of a layer, got 3"):
        WeightInit(3)
    with pytest.raises(ConfigError, match="KaimingUniform: mode must be 'fan_in' or 'fan_out', got 'fan'"):
        KaimingUniform(mode="fan")
    with pytest.raises(ConfigError, match=r"nonlinearity must be 'linear', .*, got 'rleu'; did you mean 'relu'"):
        KaimingNormal(nonlinearity="rleu")
    with pytest.raises(ConfigError, match="XavierNormal: gain is a number above 0, got 0"):
        XavierNormal(0)
    with pytest.raises(ConfigError, match=r"ZeroBias: no layer .* with LSTM in its name .*: BatchNorm2d, Conv2d,"):
        initialised("torch", ZeroBias(targets=["LSTM"]))
    with pytest.raises(ConfigError, match="LsuvInit: needed_std is a number above 0, got 0"):
        LsuvInit(np.ones((2, 3)), needed_std=0)


def test_a_network_of_keras_without_weights_is_refused():
    keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package 'keras'")
    with pytest.raises(ConfigError, match=r"none with weights\. A network of Keras has weights once it is built"):
        delira.Trial(keras.Sequential([keras.layers.Dense(2)]), callbacks=[ZeroBias()], verbose=0)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_networks_of_others_are_refused(backend):
    with pytest.raises(ConfigError, match=r"LsuvInit is for PyTorch, and the network is a .*; use KaimingNormal"):
        delira.Trial(parts(backend), callbacks=[LsuvInit(np.ones((2, 3)))], seed=0, verbose=0)


def test_a_layer_that_is_not_there_is_named(torch_fit):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    torch_fit.module = torch.nn.Sequential(torch.nn.Linear(3, 1))
    with pytest.raises(ConfigError, match="ZeroBias: there is no layer 'O'"):
        torch_fit.trial(cb.ZeroBias(modules=["0", "O"]))
