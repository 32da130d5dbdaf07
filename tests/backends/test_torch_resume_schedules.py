"""Runs of PyTorch that go on with schedules of schedules, or cannot since a checkpoint holds more than arrays."""

import pytest

from delira.errors import CheckpointError

torch = pytest.importorskip("torch")
from torch_trainings import _lr, assert_same, batches_of, last_of, trainer_of  # noqa: E402


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
