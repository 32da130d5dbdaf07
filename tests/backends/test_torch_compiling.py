"""The PyTorch backend with ``compile``: the same training, with the network's forward compiled while a step runs."""

import contextlib
import logging

import numpy as np
import pytest
from problems import linear_problem

torch = pytest.importorskip("torch")

from delira.contract import StepHooks  # noqa: E402
from delira.data_loading import BaseDataManager  # noqa: E402
from delira.errors import ConfigError  # noqa: E402
from delira.models import AbstractPyTorchNetwork, named_weights  # noqa: E402
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage  # noqa: E402

FAST = {"backend": "eager"}
SETTINGS = {
    "losses": {"mse": torch.nn.functional.mse_loss},
    "optimizer_cls": torch.optim.SGD,
    "optimizer_params": {"lr": 0.01, "momentum": 0.9},
    "logging_type": None,
    "verbose": False,
    "save_freq": None,
}


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Probe:
    """A compiler that changes nothing and counts."""

    def __init__(self):
        self.graphs = self.runs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1

        def run(*args):
            self.runs += 1
            return graph.forward(*args)

        return run


class Net(AbstractPyTorchNetwork):
    """A network with dropout and normalisation."""

    def __init__(self, dropout: float = 0.4):
        super().__init__(dropout=dropout)
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
        self.drop, self.head = torch.nn.Dropout(dropout), torch.nn.Linear(8, 1)

    def forward(self, x):
        return {"pred": self.head(self.drop(self.body(x)))}


class Gan(AbstractPyTorchNetwork):
    """Its closure calls the parts and never the whole."""

    def __init__(self):
        super().__init__()
        self.gen, self.discr = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.discr(self.gen(x))}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        values = {}
        for name in ("discr", "gen"):
            fake = model.gen(data_dict["data"])
            loss = model.discr(fake).square().mean()
            optimizers[name].zero_grad()
            with optimizers[name].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers[name].step()
            values[name] = loss.detach()
        return {}, values, {"pred": fake.detach()}


def data(n=15, batch_size=4):
    return BaseDataManager(linear_problem(n, 3, 7), batch_size)


def build(path, network=None, cls=Net, **settings):
    torch.manual_seed(0)
    return PyTorchNetworkTrainer(network or cls(), path, **{**SETTINGS, **settings})


def end(trainer, epochs=3):
    trainer.train(epochs, data(), data(7))
    return [epoch["mse"] for epoch in trainer.state.history], named_weights(trainer.module)


def assert_close(found, expected, rtol=1e-5):
    assert found[0] == pytest.approx(expected[0], rel=rtol)
    assert found[1].keys() == expected[1].keys()
    for name, weight in expected[1].items():
        assert np.allclose(found[1][name], weight, rtol=rtol, atol=1e-6), name


def test_a_compiled_training_is_the_eager_one_with_dropout_and_a_smaller_last_batch(tmp_path):
    probe = Probe()
    expected = end(build(tmp_path / "eager"))
    assert_close(end(build(tmp_path / "compiled", compile={"backend": probe})), expected)
    assert probe.runs == 3 * 4  # the steps; what predicts is the network as it was written


@pytest.mark.slow
def test_gradients_may_be_traced_ahead(tmp_path):
    expected = end(build(tmp_path / "eager"))
    assert_close(end(build(tmp_path / "compiled", compile={"backend": "aot_eager"})), expected)


@pytest.mark.slow
@pytest.mark.parametrize("options", [True, {"dynamic": True}, {"options": {"max_autotune": False}}], ids=str)
def test_inductor_drops_what_pytorch_drops(tmp_path, options):
    expected = end(build(tmp_path / "eager"))
    assert_close(end(build(tmp_path / "compiled", compile=options)), expected, rtol=1e-4)


@pytest.mark.parametrize("off", [None, False])
def test_it_is_off_unless_it_is_asked_for(tmp_path, monkeypatch, off):
    monkeypatch.setattr(torch, "compile", lambda *args, **kw: pytest.fail("it was compiled"))
    end(build(tmp_path, compiled=off), 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_accumulation_steps": 3},
        {"micro_batches": 2},
        {"mixed_precision": "bf16"},
        {"nonfinite": "skip"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_it_goes_with_every_setting_of_the_update(tmp_path, monkeypatch, settings):
    # parts of at least two samples, for the normalisation
    monkeypatch.setitem(globals(), "data", lambda n=16: BaseDataManager(linear_problem(n, 3, 7), 4))
    expected = end(build(tmp_path / "eager", **settings))
    assert_close(end(build(tmp_path / "compiled", compile=FAST, **settings)), expected, rtol=1e-3)


def test_the_network_is_never_changed(tmp_path):
    trainer = build(tmp_path, compile=FAST)
    before = set(vars(trainer.module)), list(trainer.module.state_dict())
    trainer.train(1, data())
    assert (set(vars(trainer.module)), list(trainer.module.state_dict())) == before
    assert type(trainer.module) is Net


def test_an_error_in_a_step_leaves_the_network_as_it_was(tmp_path):
    def fails(pred, label):
        raise KeyError("mine")

    network = Net()
    trainer = build(tmp_path, network, compile=FAST, losses={"mse": fails})
    trainer.closure_fn = Net.closure
    before = set(vars(network))
    with pytest.raises(KeyError, match="mine"):
        trainer.train(1, iter([linear_problem(4)]))
    assert set(vars(network)) == before


def test_two_trainers_of_one_network_do_not_meet(tmp_path):
    network = Net()
    probe = Probe()
    compiled = build(tmp_path / "compiled", network, compile={"backend": probe})
    eager = build(tmp_path / "eager", network)
    for number, trainer in enumerate((compiled, eager, compiled), 1):
        trainer.train(number, data())
    assert probe.runs == (1 + 2) * 4


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # PyTorch hides its own warning, but not an error
def test_the_direct_parts_are_compiled_for_closures_that_never_call_the_whole(tmp_path):
    settings = {"losses": {}, "optim_fn": create_optims_gan_default_pytorch}
    probe = Probe()
    compilers = {"eager": None, "compiled": {"backend": probe}}
    trainers = [build(tmp_path / name, Gan(), compile=options, **settings) for name, options in compilers.items()]
    weights = []
    for trainer in trainers:
        torch.manual_seed(0)
        for weight in trainer.module.parameters():
            torch.nn.init.normal_(weight)
        trainer.train(2, data())
        weights.append(named_weights(trainer.module))
    assert probe.runs == 4 * 2 * 4  # calls of a part, in each step
    for name, weight in weights[0].items():
        assert np.allclose(weights[1][name], weight, rtol=1e-5, atol=1e-6), name


class Interrupted(Exception):
    pass


class Break:
    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            raise Interrupted


def test_a_run_that_is_broken_off_inside_an_epoch_ends_in_the_same_bits(tmp_path):
    def settings():
        return {"compile": FAST, "save_freq_steps": 1, "callbacks": [ExponentialMovingAverage(0.9)]}

    expected = end(build(tmp_path / "unbroken", **settings()))
    more = settings()
    more["callbacks"].append(Break(6))
    with contextlib.suppress(Interrupted):
        end(build(tmp_path / "broken", **more))
    resumed = build(tmp_path / "broken", **settings())
    assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 1)
    found = end(resumed)
    assert found[0] == expected[0]
    assert all(np.array_equal(found[1][name], weight) for name, weight in expected[1].items())


def test_an_eager_run_goes_on_compiled(tmp_path):
    expected = end(build(tmp_path / "eager"), 4)
    end(build(tmp_path / "both"), 2)
    assert_close(end(build(tmp_path / "both", compile=FAST), 4), expected)


def test_hooks_of_any_kind_run_as_they_are(tmp_path, caplog):
    seen = []

    def doubled(step):  # not traceable: it counts, and looks at a value
        seen.append(step.losses["mse"].item())
        step.losses = {"mse": 2 * step.losses["mse"]}

    ends = []
    for name, options in (("eager", None), ("compiled", FAST)):
        trainer = build(tmp_path / name, compile=options)
        trainer.hooks = StepHooks(criterion=(doubled,))
        with caplog.at_level(logging.WARNING):
            ends.append(end(trainer))
    assert_close(ends[1], ends[0])
    assert len(seen) == 2 * 3 * 4
    assert not caplog.records


def test_texts_in_a_batch_do_not_matter(tmp_path):
    arrays = {**linear_problem(8), "name": np.array([f"case {number}" for number in range(8)])}
    trainer = build(tmp_path, compile={"backend": "eager", "fullgraph": True})
    trainer.train(1, BaseDataManager(arrays, 4))
    assert trainer.state.global_step == 2


def test_networks_of_one_class_share_what_was_compiled(tmp_path):
    """PyTorch gives up after eight versions of one function; there may be more folds."""
    probe = Probe()
    for number in range(10):
        build(tmp_path / str(number), compile={"backend": probe}).train(1, data(8))
    assert probe.graphs == 1
    assert probe.runs == 10 * 2


# ---- what cannot be compiled


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"backend": "nope"}, r"torch\.compile does not take compile=.*Invalid backend: 'nope'"),
        ({"mode": "nope"}, r"torch\.compile does not take compile=.*Unrecognized mode=nope"),
        ({"bakend": "eager"}, r"compile has the unknown option 'bakend'; did you mean 'backend'\?"),
        ("inductor", "compiled must be True, False or a dict of options of the framework's compiler, got 'inductor'"),
    ],
)
def test_options_that_torch_does_not_know_are_refused_before_the_training(tmp_path, options, match):
    class Listens:
        def at_training_begin(self, trainer, **facts):
            pytest.fail("the training began")

    with pytest.raises(ConfigError, match=match):
        build(tmp_path, compile=options, callbacks=[Listens()]).train(1, data())


def test_jit_compile_is_refused_with_the_spelling_of_pytorch(tmp_path):
    with pytest.raises(ConfigError, match="jit_compile is a setting of TensorFlow; in PyTorch set compile=True"):
        build(tmp_path, jit_compile=True).train(1, data())


class Breaks(Net):
    def forward(self, x):
        if float(x.sum()) > -1e9:  # a value decides
            return super().forward(x)
        return {"pred": x}


def test_a_network_that_cannot_be_traced_as_a_whole_runs_in_pieces(tmp_path):
    expected = end(build(tmp_path / "eager", cls=Breaks))
    assert_close(end(build(tmp_path / "compiled", cls=Breaks, compile=FAST)), expected)


def test_an_error_of_the_compiler_says_what_to_do(tmp_path):
    trainer = build(tmp_path, cls=Breaks, compile={"backend": "eager", "fullgraph": True})
    with pytest.raises(Exception, match=r"data-dependent|Tensor\.item") as caught:
        trainer.train(1, data())
    assert any("train with compile=False to see whether the network itself" in note for note in caught.value.__notes__)


class Wrong(Net):
    def forward(self, x):
        raise ZeroDivisionError("mine")


def test_an_error_of_the_network_itself_keeps_its_type(tmp_path):
    with pytest.raises(ZeroDivisionError, match="mine"):
        build(tmp_path, cls=Wrong, compile=FAST).train(1, data())


class AfterAnEpoch:
    """Changes the network when the first epoch is over."""

    def __init__(self, change):
        self.change = change

    def at_epoch_end(self, trainer, curr_epoch, **facts):
        if curr_epoch == 1:
            self.change(trainer.module)


def doubles_a_layer(network):
    network.body[0].register_forward_hook(lambda module, inputs, output: 2 * output)


def doubles_everything(network):
    network.forward = lambda x: {"pred": 2 * Net.forward(network, x)["pred"]}


@pytest.mark.parametrize("change", [doubles_a_layer, doubles_everything])
def test_what_comes_after_the_first_step_is_not_ignored(tmp_path, change):
    both = [
        end(build(tmp_path / str(compiled), compile=compiled, callbacks=[AfterAnEpoch(change)]))
        for compiled in (False, FAST)
    ]
    assert_close(both[1], both[0])


class HoldsAScript(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.body = torch.jit.script(torch.nn.Linear(3, 4))
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        return {"pred": self.head(torch.relu(self.body(x)))}


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # PyTorch looks at inputs of what it compiles
def test_a_script_inside_a_network_stays_as_it_is(tmp_path):
    both = [end(build(tmp_path / str(compiled), cls=HoldsAScript, compile=compiled)) for compiled in (False, FAST)]
    assert_close(both[1], both[0])
