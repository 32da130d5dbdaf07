"""Resume in the torch backend where torch itself loses something: optimizers, dtypes, tied weights, lazy modules."""

import numpy as np
import pytest

from delira.errors import CheckpointError, ConfigError, NetworkError

torch = pytest.importorskip("torch")

from delira.backends.torch.backend import BACKEND  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer  # noqa: E402
from delira.training.callbacks import ExponentialMovingAverage  # noqa: E402

EPOCHS = 3  # of three steps: batches of 4, 4 and 2


class Net(AbstractPyTorchNetwork):
    """Weights of two dimensions only, for Muon."""

    def __init__(self, dtype=None):
        super().__init__(dtype=dtype)
        self.first = torch.nn.Linear(3, 4, bias=False, dtype=dtype)
        self.drop = torch.nn.Dropout(0.3)
        self.second = torch.nn.Linear(4, 1, bias=False, dtype=dtype)

    def forward(self, x):
        return {"pred": self.second(self.drop(torch.tanh(self.first(x.to(self.first.weight.dtype))))).float()}


class SparseNet(AbstractPyTorchNetwork):
    """Its gradients are sparse."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(6, 1, sparse=True)

    def forward(self, x):
        return {"pred": self.table((2 * x.abs()).long().clamp(0, 5)).sum(1)}


class Evaluating(Net):
    """Its optimizer computes the loss itself, as often as it wants."""

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        if not optimizers:
            return Net.closure(model, data_dict, optimizers, losses, **kwargs)

        def evaluate():
            optimizers["default"].zero_grad()
            loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            loss.backward()
            return loss

        return {}, {"mse": optimizers["default"].step(evaluate).detach()}, {}


class Tied(AbstractPyTorchNetwork):
    """One weight with two names, and a layer with two names; remembers what it was validated with."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (torch.nn.Linear(3, n) for n in (3, 3, 1))
        self.second.weight = self.first.weight
        self.again = self.first
        self.validated = None

    def forward(self, x):
        if not self.training:
            self.validated = {name: weight.clone() for name, weight in self.state_dict().items()}
        return {"pred": self.last(torch.tanh(self.again(self.second(torch.tanh(self.first(x))))))}


class Lazy(AbstractPyTorchNetwork):
    """Learns its shapes, and those of its buffers, from the first batch."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d()
        self.drop, self.second = torch.nn.Dropout(0.3), torch.nn.LazyLinear(1)

    def forward(self, x):
        return {"pred": self.second(self.drop(self.norm(self.first(x))))}


class Foreign(torch.optim.Optimizer):
    """As others write them: nothing of torch's newer entries, and a state of all kinds."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state |= {"kind": "mean", "sums": [torch.zeros(weight.shape, dtype=torch.float64)], "of": {}}
                    state["of"]["number"] = torch.tensor(0.0, dtype=torch.float64)
                state["sums"][0] += weight.grad
                state["of"]["number"] += 1 / 3
                state["kind"] = {"mean": "sum", "sum": "mean"}[state["kind"]]
                rate = group["lr"] * (2 if state["kind"] == "sum" else 1)
                weight -= (rate * state["sums"][0] / state["of"]["number"]).to(weight.dtype)


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class At:
    """Ends the run in a step, counted over all epochs from 1, before its checkpoint is written."""

    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            raise Interrupted


def trainer_of(path, build=Net, callbacks=(), **settings):
    torch.manual_seed(0)
    defaults = {
        "losses": {"mse": torch.nn.functional.mse_loss},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 0.01},
        "logging_type": None,
        "verbose": False,
        "save_freq_steps": 1,
    }
    return PyTorchNetworkTrainer(build(), path, callbacks=list(callbacks), **{**defaults, **settings})


def assert_same(left, right, place="tree"):
    """Bit for bit, dtypes as well."""
    assert type(left) is type(right), place
    if isinstance(left, dict):
        assert left.keys() == right.keys(), place
        for name in left:
            assert_same(left[name], right[name], f"{place}/{name}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), place
        for number, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            assert_same(ours, theirs, f"{place}/{number}")
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype, place
        assert torch.equal(left, right), place
    else:
        assert np.array_equal(left, right), place


def last_of(trainer):
    return trainer.load_state(trainer.checkpoints.path("last"))


def assert_resumes(path, manager, step=5, **kw):
    """Whether a run that is broken off inside an epoch ends in the bits of one that is not."""
    callbacks = kw.pop("callbacks", list)
    unbroken = trainer_of(path / "unbroken", callbacks=callbacks(), **kw)
    unbroken.train(EPOCHS, manager(), manager(7))
    with pytest.raises(Interrupted):
        trainer_of(path / "broken", callbacks=[*callbacks(), At(step)], **kw).train(EPOCHS, manager(), manager(7))
    torch.manual_seed(77)
    resumed = trainer_of(path / "broken", callbacks=callbacks(), **kw)
    assert resumed.state.global_step == step - 1
    assert resumed.state.step_in_epoch > 0
    resumed.train(EPOCHS, manager(), manager(7))
    assert_same(last_of(unbroken), last_of(resumed))
    assert_same(dict(unbroken.module.state_dict()), dict(resumed.module.state_dict()))
    return resumed


# ---- every optimizer


OPTIMIZERS = {
    name: cls
    for name, cls in sorted(vars(torch.optim).items())
    if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
}
#: what some can do besides; those that some version of torch lacks are left out
VARIANTS = [
    *((name, {}) for name in OPTIMIZERS),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"fused": True}),
    ("AdamW", {"foreach": True}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "history_size": 2}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "fused": True}),
]


def test_the_optimizers_that_torch_had_for_long_are_among_those_tested():
    assert {"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam", "RMSprop"} <= set(
        OPTIMIZERS
    )
    assert {"Rprop", "SGD", "SparseAdam"} <= set(OPTIMIZERS)


@pytest.mark.sampled("half")
@pytest.mark.parametrize(("name", "params"), VARIANTS, ids=str)
def test_a_run_with_any_optimizer_of_torch_resumes_inside_an_epoch(name, params, tmp_path, manager):
    build = {"SparseAdam": SparseNet, "LBFGS": Evaluating}.get(name, Net)
    optimizer = {"optimizer_cls": OPTIMIZERS[name], "optimizer_params": {"lr": 0.05, **params}}
    assert_resumes(tmp_path, manager, build=build, **optimizer)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("step", [2, 5, 9])
@pytest.mark.parametrize("build", [Net, lambda: Net(torch.bfloat16)], ids=["float32", "bfloat16"])
def test_a_run_with_an_optimizer_of_somebody_else_resumes(build, step, tmp_path, manager):
    assert_resumes(tmp_path, manager, step, build=build, optimizer_cls=Foreign)


@pytest.mark.parametrize(("cls", "build"), [(Foreign, Net), (torch.optim.LBFGS, Evaluating)])
def test_one_optimizer_takes_states_over_more_than_once(cls, build, tmp_path, manager):
    """The first time, torch changes the defaults of the optimizer."""
    settings = {"build": build, "optimizer_cls": cls}
    trainer = trainer_of(tmp_path, **settings)
    trainer.train(1, manager())
    path = trainer.save_state(tmp_path / "copy")
    other = trainer_of(tmp_path / "other", **settings)
    for _ in range(3):
        other.update_state(path)
    assert_same(other.checkpoint_tree()["optimizer"], trainer.checkpoint_tree()["optimizer"])


def test_the_state_of_another_optimizer_is_refused_and_the_own_stays(tmp_path, manager):
    foreign = trainer_of(tmp_path / "foreign", Evaluating, optimizer_cls=torch.optim.LBFGS)
    trainer = trainer_of(tmp_path / "sgd", optimizer_cls=torch.optim.SGD)
    for each in (foreign, trainer):
        each.train(1, manager())
    before = foreign.backend.arrays.snapshot(foreign.checkpoint_tree())
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"'default': it is no state of a LBFGS, since .*max_iter.* is miss"):
            foreign.update_state(trainer.checkpoints.path("last"))
        assert_same(foreign.backend.arrays.snapshot(foreign.checkpoint_tree()), before)


# ---- dtypes


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("ASGD", "LBFGS", "NAdam") else pytest.param(name, marks=pytest.mark.slow)
        for name in OPTIMIZERS
        if name != "SparseAdam"
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_the_state_of_an_optimizer_keeps_its_dtypes_whatever_the_network_s_is(name, dtype, tmp_path, manager):
    """Torch casts it to the dtype of the weights: NAdam's product of momenta, ASGD's rates."""
    cls = Evaluating if name == "LBFGS" else Net
    settings = {"optimizer_cls": OPTIMIZERS[name], "optimizer_params": {"lr": 0.05}}
    assert_resumes(tmp_path, manager, build=lambda: cls(dtype), **settings)


# ---- tied weights


def test_a_tied_weight_has_one_average_under_all_of_its_names():
    network, backend = Tied(), PyTorchNetworkTrainer.backend
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
    average = backend.weights.average(None, network, 0.0)
    assert average.keys() == network.state_dict().keys() == backend.weights.learned_names(network)
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(1.0)
    for expected in (0.25, 0.4375):  # once each time: a quarter of what is left
        average = backend.weights.average(average, network, 0.75)
        assert all((entry == expected).all() for entry in average.values())
    assert average["second.weight"] is average["first.weight"] is average["again.weight"]


def test_the_network_that_is_returned_is_the_one_that_was_validated(tmp_path, manager):
    trainer = trainer_of(tmp_path, Tied, [ExponentialMovingAverage(0.9)], optimizer_params={"lr": 0.1})
    network = trainer.train(1, manager(), manager(7))
    assert network.validated is not None
    assert_same(dict(network.state_dict()), network.validated)
    tree = last_of(trainer)
    assert not torch.equal(tree["training_model"]["first.weight"], tree["model"]["first.weight"])
    for part in ("model", "training_model"):
        assert torch.equal(tree[part]["first.weight"], tree[part]["second.weight"])
        assert torch.equal(tree[part]["first.weight"], tree[part]["again.weight"])


def test_a_run_with_averages_of_tied_weights_resumes(tmp_path, manager):
    average = lambda: [ExponentialMovingAverage(0.9)]  # noqa: E731
    assert_resumes(tmp_path, manager, build=Tied, callbacks=average, val_score_key="mse")


# ---- lazy modules


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", [2, 5])
@pytest.mark.parametrize("name", ["Adam", "ASGD"])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_run_with_lazy_modules_resumes(name, step, accumulation, tmp_path, manager):
    """In the accumulated form, the checkpoint lies inside of a group whose gradients are as lazy."""
    settings = {"optimizer_cls": OPTIMIZERS[name], "gradient_accumulation_steps": accumulation}
    resumed = assert_resumes(tmp_path, manager, step, build=Lazy, **settings)
    assert type(resumed.module.first) is torch.nn.Linear


def test_a_checkpoint_of_another_network_is_refused_by_a_lazy_one(tmp_path, manager):
    trainer_of(tmp_path, Net).train(1, manager())
    with pytest.raises(CheckpointError, match=r"does not fit the network Lazy: missing in the checkpoint: first.bias"):
        trainer_of(tmp_path, Lazy)


@pytest.mark.parametrize(
    ("error", "match", "settings"),
    [
        (
            ConfigError,
            "Adagrad cannot be built before the weights first.weight",
            {"optimizer_cls": torch.optim.Adagrad},
        ),
        (NetworkError, "first.weight.* of Lazy have no shape yet", {"callbacks": [ExponentialMovingAverage()]}),
    ],
)
def test_what_needs_the_shapes_of_lazy_weights_says_so_and_works_after_a_first_batch(
    error, match, settings, tmp_path, manager
):
    def called():
        network = Lazy()
        network(torch.ones(2, 3))
        return network

    with pytest.raises(error, match=f"{match}.*call the network once with a batch"):
        trainer_of(tmp_path / "lazy", Lazy, **settings)
    callbacks = lambda: [ExponentialMovingAverage(0.9)] if "callbacks" in settings else []  # noqa: E731
    cls = settings.get("optimizer_cls", torch.optim.Adam)
    assert_resumes(tmp_path, manager, build=called, callbacks=callbacks, optimizer_cls=cls)


def test_the_state_of_a_network_without_shapes_is_not_written(tmp_path):
    with pytest.raises(CheckpointError, match=r"first\.weight.* of Lazy have no shape yet.* call the network once"):
        trainer_of(tmp_path / "run", Lazy).save_state(tmp_path / "state")
    assert not (tmp_path / "state.pt").exists()


# ---- memory


def test_taking_a_checkpoint_over_does_not_copy_the_network(tmp_path, manager, monkeypatch):
    trainer = trainer_of(tmp_path, optimizer_cls=torch.optim.SGD)  # no state of its own
    trainer.train(1, manager())
    tree, copied, take = last_of(trainer), [], BACKEND.arrays.snapshot

    def watched(part, previous=None):
        copied.append(part)
        return take(part, previous)

    monkeypatch.setattr(BACKEND.arrays, "snapshot", watched)
    trainer.backend.checkpoints.load_state_tree(tree, trainer.module, trainer.optimizers)
    tensors = [leaf for part in copied for leaf in torch.utils._pytree.tree_leaves(part)]
    assert not [leaf for leaf in tensors if isinstance(leaf, torch.Tensor)]
