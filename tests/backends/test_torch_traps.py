"""Traps of the torch room that a reviewer fell into: accumulation, schedules, losses without a gradient."""

import copy

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, DataError, NetworkError

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402

MSE = torch.nn.functional.mse_loss
_lr = torch.optim.lr_scheduler


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x):
        return {"pred": self.linear(self.drop(x))}


class TwoNets(AbstractPyTorchNetwork):
    """Its "gen" learns from every second batch only."""

    def __init__(self):
        super().__init__()
        self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.gen(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, batch_nr=0, **kwargs):
        values = {}
        for name in ("gen", "discr") if batch_nr % 2 == 0 else ("discr",):
            loss = losses["mse"](getattr(model, name)(data_dict["data"]), data_dict["label"])
            optimizers[name].zero_grad()
            with optimizers[name].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers[name].step()
            values[name] = loss.detach()
        return {}, {"mse": values["discr"]}, {}


class Stream:
    """Batches whose number is not known."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class InterruptOnce:
    """Ends a run in one step of one epoch, the first time that it comes by."""

    def __init__(self, epoch, iter_num):
        self.place = (epoch, iter_num)

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (curr_epoch, iter_num) == self.place:
            self.place = None
            raise Interrupted(f"in epoch {curr_epoch}, step {iter_num}")


def build(cls=Net):
    torch.manual_seed(0)
    return cls()


def batches_of(*sizes):
    rng = np.random.default_rng(1)
    shapes = {"data": 3, "label": 1}
    return [
        {name: rng.normal(size=(size, width)).astype(np.float32) for name, width in shapes.items()} for size in sizes
    ]


def trainer_of(path, network=None, **settings):
    defaults = {
        "losses": {"mse": MSE},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1, "momentum": 0.5},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(network or build(), path, **{**defaults, **settings})


def last_of(trainer):
    return trainer.load_state(trainer.checkpoints.path("last"))


def assert_same(left, right):
    """Bit for bit."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_same(left[name], right[name])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    else:
        assert left == right


# ---- accumulation counts the optimizer's own steps


@pytest.mark.parametrize("as_data", [list, Stream])
@pytest.mark.parametrize(
    ("sizes", "gen", "discr"),
    [
        ((4, 3, 2, 4, 5, 1, 1, 2), [(0, 2), (4, 6)], [(0, 1), (2, 3), (4, 5), (6, 7)]),
        ((4, 3, 2, 4, 5, 1), [(0, 2), (4,)], [(0, 1), (2, 3), (4, 5)]),  # "gen" has one left when the epoch ends
        ((4, 3, 2, 4, 5), [(0, 2), (4,)], [(0, 1), (2, 3), (4,)]),
        ((4, 3), [(0,)], [(0, 1)]),
    ],
)
def test_an_optimizer_that_steps_at_every_second_batch_accumulates_its_own_steps(as_data, sizes, gen, discr, tmp_path):
    network, batches = build(TwoNets), batches_of(*sizes)
    expected = copy.deepcopy(network)
    trainer = trainer_of(tmp_path, network, optim_fn=create_optims_gan_default_pytorch, gradient_accumulation_steps=2)
    trainer.train(2, as_data(batches))
    for name, groups in (("gen", gen), ("discr", discr)):
        layer = getattr(expected, name)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5)
        for group in groups * 2:
            joined = {key: torch.from_numpy(np.concatenate([batches[i][key] for i in group])) for key in batches[0]}
            optimizer.zero_grad()
            MSE(layer(joined["data"]), joined["label"]).backward()
            optimizer.step()
        assert trainer.optimizers[name].num_updates == 2 * len(groups)
        for ours, theirs in zip(getattr(network, name).parameters(), layer.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)


# ---- going on after an exception


#: 1: in the middle of a group; 3: after an update, before the schedule has heard of it
@pytest.mark.sampled("values")
@pytest.mark.parametrize("iter_num", [1, 3, 5])
@pytest.mark.parametrize("steps", [1, 4])
def test_after_an_exception_in_a_group_the_same_trainer_goes_on_as_if_unbroken(steps, iter_num, tmp_path):
    settings = {
        "gradient_accumulation_steps": steps,
        "lr_scheduler_cls": _lr.StepLR,
        "lr_scheduler_params": {"step_size": 1, "gamma": 0.9, "step_on": "iter"},
        "save_freq": 1,
    }
    data = BaseDataManager(batches_of(10)[0], batch_size=1)
    unbroken = trainer_of(tmp_path / "unbroken", **settings)
    unbroken.train(4, data)
    broken = trainer_of(tmp_path / "broken", callbacks=[InterruptOnce(3, iter_num)], **settings)
    with pytest.raises(Interrupted, match=f"in epoch 3, step {iter_num}"):
        broken.train(4, data)
    broken.train(4, data)
    assert_same(last_of(broken), last_of(unbroken))
    assert broken.state.history == unbroken.state.history
    resumed = trainer_of(tmp_path / "broken", **settings)
    for trainer in (resumed, unbroken):
        trainer.train(5, data)
    assert_same(last_of(resumed), last_of(unbroken))


def test_a_broken_group_without_any_checkpoint_cannot_be_taken_back(tmp_path):
    data = batches_of(4, 4, 4, 4)
    trainer = trainer_of(tmp_path, gradient_accumulation_steps=4, callbacks=[InterruptOnce(1, 1)])
    with pytest.raises(Interrupted, match="in epoch 1, step 1"):
        trainer.train(2, data)
    with pytest.raises(CheckpointError, match="an epoch was broken off and there is no checkpoint to go back to"):
        trainer.train(2, data)


# ---- checkpoints


def test_a_complete_checkpoint_with_pickled_objects_is_an_error_and_not_left_out(tmp_path):
    trainer = trainer_of(tmp_path, save_freq=1)
    trainer.train(2, batches_of(4))
    path = trainer.checkpoints.path("last")
    path.unlink()
    torch.save({"epoch": 2, "where": tmp_path}, path)
    with pytest.raises(CheckpointError, match=r"checkpoint_last\.pt holds pickled objects"):
        trainer_of(tmp_path)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5])
def test_a_schedule_of_schedules_continues_as_if_it_had_not_been_broken_off(epochs, tmp_path):
    def warm_up(optimizer):
        parts = [
            _lr.ConstantLR(optimizer, factor=0.5, total_iters=2),
            _lr.MultiStepLR(optimizer, milestones=[1, 3, 3], gamma=0.1),
        ]
        return _lr.SequentialLR(optimizer, parts, milestones=[2])

    settings = {"lr_scheduler_cls": warm_up, "save_freq": 1}
    data = batches_of(4, 4)
    unbroken = trainer_of(tmp_path / "unbroken", **settings)
    unbroken.train(7, data)
    assert len({record["lr"] for record in unbroken.state.history}) == 4
    trainer_of(tmp_path / "broken", **settings).train(epochs, data)
    resumed = trainer_of(tmp_path / "broken", **settings)
    resumed.train(7, data)
    assert resumed.state.history == unbroken.state.history
    assert_same(last_of(resumed), last_of(unbroken))


# ---- losses that cannot teach anything


class Detached(Net):
    def forward(self, x):
        return {"pred": super().forward(x)["pred"].detach()}


@pytest.mark.parametrize(
    ("cls", "loss", "match"),
    [
        (
            Net,
            lambda prediction, target: MSE(prediction, target).item(),
            r"the loss \(mse\) is a float, so there is no",
        ),
        (Net, lambda prediction, target: MSE(prediction.detach(), target), r"the loss \(mse\) depends on no parameter"),
        (Detached, MSE, r"the loss \(mse\) depends on no parameter"),
        (Net, torch.nn.MSELoss(reduction="none"), r"loss 'mse': a loss .* has the shape \(4, 1\).*reduction='mean'"),
    ],
)
def test_a_loss_without_a_gradient_is_refused_before_the_first_step(cls, loss, match, tmp_path):
    network = build(cls)
    before = copy.deepcopy(network.state_dict())
    trainer = trainer_of(tmp_path, network, losses={"mse": loss})
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, BaseDataManager(batches_of(4)[0], batch_size=4))
    assert trainer.state.global_step == 0
    assert_same(dict(network.state_dict()), dict(before))


@pytest.mark.parametrize("loss", [torch.nn.MSELoss(), torch.nn.L1Loss(), torch.nn.SmoothL1Loss()])
def test_a_target_that_would_be_broadcast_is_refused_before_the_first_step(loss, tmp_path):
    batch = batches_of(4)[0]
    data = BaseDataManager({**batch, "label": batch["label"][:, 0]}, batch_size=4)
    trainer = trainer_of(tmp_path, losses={"mse": loss})
    with pytest.raises(DataError, match=r"a loss \(mse\) does not fit its target: Using a target size"):
        trainer.train(1, data)
    assert trainer.state.global_step == 0


def test_a_loss_class_in_place_of_an_instance_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"losses\['mse'\] is the class MSELoss; pass an instance, MSELoss\(\)"):
        trainer_of(tmp_path, losses={"mse": torch.nn.MSELoss})


def test_a_key_mapping_of_an_argument_that_the_network_does_not_take_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"key_mapping names 'xx', but Net takes no such argument; did you mean 'x'"):
        trainer_of(tmp_path, key_mapping={"xx": "data"})
