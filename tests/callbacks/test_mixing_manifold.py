"""Mixing inside of a network: which layers, that one is mixed at every step, and that they are left as they were."""

import numpy as np
import pytest
from mixing_batches import a_step

import delira
from delira.callbacks.decorators import on_step_training
from delira.callbacks.mixing.mixed import step_generator
from delira.errors import ConfigError
from delira.state import EPOCH, LOSS, MIXUP_LAMBDA, MIXUP_PERMUTATION, TRAIN_DATA, Y_PRED, Y_TRUE
from delira.training.callbacks import ManifoldMixup, mixup_loss

torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
rng = np.random.default_rng(0)
DATA = rng.normal(size=(10, 4)).astype("f4")
LABELS = np.arange(10) % 3


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)
        self.parts = torch.nn.ModuleList([torch.nn.Tanh()])

    def forward(self, x):
        return self.parts[0](self.norm(self.linear(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block, self.last = torch.nn.Linear(4, 6), Block(), torch.nn.Linear(6, 3)
        self.unused = torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.last(self.block(self.first(x)))


def build(callback, *more, net=None, path=None, criterion=None, **settings):
    torch.manual_seed(0)
    net = net or Net()
    criterion = criterion or mixup_loss(torch.nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    trial = delira.Trial(
        net, optimizer, criterion, ["loss", "acc"], [callback, *more], 0, save_path=path, seed=3, **settings
    )
    return trial.with_train_data(DATA, LABELS, 5).with_val_data(DATA, LABELS, 5)


def hooks(net):
    return sum(len(module._forward_hooks) for module in net.modules())


TOP = ["first", "block", "last", "unused"]
DEEP = [*TOP[:2], "block.linear", "block.norm", *TOP[2:]]


@pytest.mark.parametrize(
    ("callback", "chosen"),
    [
        (ManifoldMixup(), TOP),
        (ManifoldMixup().at_depth(1), ["block.linear", "block.norm"]),
        (ManifoldMixup().at_depth(None), [*DEEP[:4], "block.parts.0", *TOP[2:]]),
        (ManifoldMixup().for_layers(["block.linear", "last"]), ["block.linear", "last"]),
        (ManifoldMixup().for_layers("last"), ["last"]),
        (ManifoldMixup().at_depth(None).with_layer_filter(["block", "un"]), ["first", "last"]),
        (ManifoldMixup().at_depth(1).with_layer_type_filter([torch.nn.Linear]), ["block.norm"]),
    ],
)
def test_layers_are_chosen_by_name_depth_and_class(callback, chosen):
    assert callback.get_selected_layers(Net()) == chosen


@pytest.mark.parametrize("layer", ["first", "block.linear", "last"])
def test_the_output_of_the_layer_is_mixed(layer):
    seen, callback = [], ManifoldMixup(0.5).for_layers([layer])

    @on_step_training
    def look(state):
        seen.append({key: state[key] for key in ("x", MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_PRED, Y_TRUE, LOSS)})

    trial = build(callback, look)
    twin = Net()
    twin.load_state_dict(trial.state["model"].state_dict())
    trial.for_train_steps(1).run(1)
    (step,) = seen
    share, rows = float(step[MIXUP_LAMBDA]), step[MIXUP_PERMUTATION]

    def mix(module, args, output):
        return share * output + (1 - share) * output[rows]

    twin.get_submodule(layer).register_forward_hook(mix)
    wanted = twin(step["x"])
    torch.testing.assert_close(step[Y_PRED], wanted.detach())
    np.testing.assert_array_equal(step[Y_TRUE].second, step[Y_TRUE].first[rows])
    losses = [torch.nn.functional.cross_entropy(wanted, target) for target in step[Y_TRUE]]
    assert float(step[LOSS]) == pytest.approx(float((share * losses[0] + (1 - share) * losses[1]).detach()), rel=1e-5)


def test_every_layer_has_its_turn():
    callback = ManifoldMixup().for_layers(["first", "block", "last"])
    drawn = []
    for batch in range(60):
        state = a_step(callback, torch.zeros(4, 1), torch.zeros(4), batch=batch)
        state["model"] = Net()
        callback.on_sample(state)
        drawn.append(callback._due[0])
    counts = [drawn.count(name) for name in ("first", "block", "last")]
    assert min(counts) > 10
    first = step_generator(a_step(callback, None, None, batch=0), callback)
    assert 0 <= first.beta(1.0, 1.0) <= 1


@pytest.mark.parametrize("how", ["fit", "error"])
def test_layers_are_watched_once_and_left_as_they_were(how):
    found = []

    @on_step_training
    def count(state):
        found.append(hooks(state["model"]))
        if how == "error" and state[EPOCH] == 1:
            raise ZeroDivisionError

    callback = ManifoldMixup().with_layer_filter(["unused"])
    trial = build(callback, count)
    net = trial.state["model"]
    if how == "error":
        with pytest.raises(ZeroDivisionError):
            trial.run(3)
    else:
        trial.run(1)
        trial.evaluate()
        trial.run(3)
    assert set(found) == {3}
    assert hooks(net) == 0


def test_validations_and_evaluations_are_not_mixed():
    trial = build(ManifoldMixup().with_layer_filter(["unused"]))
    record = trial.run(2)[-1]
    net = trial.state["model"].eval()
    with torch.no_grad():
        plain = float(torch.nn.functional.cross_entropy(net(torch.tensor(DATA)), torch.tensor(LABELS)))
    assert record["val_loss"] == pytest.approx(plain, rel=1e-5)
    assert trial.evaluate(data_key=TRAIN_DATA)["train_loss"] == pytest.approx(plain, rel=1e-5)


def test_a_layer_that_is_called_twice_is_mixed_once():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x))[:, :3]

    seen = {}

    @on_step_training
    def look(state):
        seen.update({key: state[key] for key in ("x", MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_PRED)})

    trial = build(ManifoldMixup(), look, net=Twice())
    layer = torch.nn.Linear(4, 4)
    layer.load_state_dict(trial.state["model"].layer.state_dict())
    trial.for_train_steps(1).run(1)
    share, rows, once = float(seen[MIXUP_LAMBDA]), seen[MIXUP_PERMUTATION], layer(seen["x"])
    wanted = layer(share * once + (1 - share) * once[rows])[:, :3]
    torch.testing.assert_close(seen[Y_PRED], wanted.detach())


@pytest.mark.parametrize("broken_at", [(1, 1), (2, 0)])
def test_a_run_that_was_continued_is_the_unbroken_one(broken_at, tmp_path):
    @on_step_training
    def break_off(state):
        if broken_at == (state[EPOCH], state["t"]):
            raise ZeroDivisionError

    def callback():
        return ManifoldMixup().at_depth(1).with_layer_filter(["unused"])

    whole = build(callback(), path=tmp_path / "whole")
    whole.run(3)
    first = build(callback(), break_off, path=tmp_path / "broken", save_freq_steps=1)
    with pytest.raises(ZeroDivisionError):
        first.run(3)
    continued = build(callback(), path=tmp_path / "broken")
    continued.run(3)
    assert continued.history == whole.history
    for name, value in whole.state["model"].state_dict().items():
        assert torch.equal(value, continued.state["model"].state_dict()[name])


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of the compiler, about what it reads itself
def test_a_compiled_network_is_mixed_too():
    compiled = []

    def count(graph, inputs):
        compiled.append(graph)
        return graph

    torch.compiler.reset()
    runs = [build(ManifoldMixup(), net=torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)), **settings)
            for settings in ({}, {"compile": {"backend": count}})]  # fmt: skip
    runs[1].state["model"].load_state_dict(runs[0].state["model"].state_dict())
    one, other = (trial.run(4) for trial in runs)
    torch.compiler.reset()
    for plain, record in zip(one, other, strict=True):
        assert record == pytest.approx(plain, rel=1e-4)
    assert 1 < len(compiled) < 8  # the parts around the mixing, and not once for each lambda


def test_an_experiment_mixes_inside_too(tmp_path, manager):
    from small_backends import build_kit

    kit, seen = build_kit("torch"), {}

    @on_step_training
    def look(state):
        seen.update(x=state["x"], share=float(state[MIXUP_LAMBDA]), rows=state[MIXUP_PERMUTATION], pred=state[Y_PRED])

    losses = {"mse": mixup_loss(kit.loss)}
    callbacks = [ManifoldMixup().for_layers("linear"), look]
    trainer = kit.trainer(tmp_path, losses=losses, callbacks=callbacks)
    weight = torch.tensor(kit.read(trainer.module))
    trainer.train(1, manager(4))
    plain = seen["x"] @ weight
    torch.testing.assert_close(seen["pred"], seen["share"] * plain + (1 - seen["share"]) * plain[seen["rows"]])


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="ManifoldMixup: there is no layer 'lsat'; did you mean 'last'"):
        build(ManifoldMixup().for_layers(["lsat"])).run(1)
    with pytest.raises(ConfigError, match=r"no layer is left; there are first, block, block.linear"):
        build(ManifoldMixup().with_layer_type_filter([torch.nn.Module])).run(1)
    with pytest.raises(
        ConfigError, match="the network did not call its layer 'unused'; leave it out by with_layer_fil"
    ):
        build(ManifoldMixup().for_layers(["unused"])).run(1)
    with pytest.raises(ConfigError, match="depth is at least 0, or None, got -1"):
        ManifoldMixup().at_depth(-1)
    with pytest.raises(ConfigError, match="alpha is a number of at least 0, got -1"):
        ManifoldMixup(-1)


def test_a_layer_without_one_array_is_refused():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.GRU(4, 3)

        def forward(self, x):
            return self.cell(x)[0]

    with pytest.raises(ConfigError, match="the layer 'cell' does not give one array with the samples along its first"):
        build(ManifoldMixup(), net=Recurrent()).run(1)


def test_networks_of_others_are_refused(other_kit):
    net, optimizer = other_kit
    trial = delira.Trial(net, optimizer, lambda prediction, target: 0.0, callbacks=[ManifoldMixup()], verbose=0)
    with pytest.raises(ConfigError, match=r"mixes what layers of PyTorch return, and the network is a .*; use Mixup"):
        trial.with_train_data(DATA, LABELS, 5).run(1)


@pytest.fixture(params=["tensorflow", "jax"])
def other_kit(request):
    """A network of another framework, and an optimizer."""
    if request.param == "jax":
        nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
        import optax

        return nnx.Linear(4, 3, rngs=nnx.Rngs(0)), optax.sgd(0.1)
    pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
    import keras

    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)]), keras.optimizers.SGD(0.1)
