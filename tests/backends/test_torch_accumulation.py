"""Groups of batches: each optimizer counts its own steps, and a group that was broken off goes on."""

import copy

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError

torch = pytest.importorskip("torch")
from torch_trainings import MSE, _lr, assert_same, batches_of, build, last_of, trainer_of  # noqa: E402

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import create_optims_gan_default_pytorch  # noqa: E402


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
