"""After a training the network predicts: in evaluation mode, in every backend."""

import numpy as np
import pytest
from small_rooms import ROOMS, build_room, normed_network

import delira


def predicted(room, network, data):
    """What the network itself says, called as a user would."""
    batch = network.prepare_batch({"data": data, "label": data[:, :1]}, "cpu", "cpu")
    return room.backend.arrays.to_numpy(network(batch["data"]))["pred"]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("room", [*ROOMS], indirect=True)
@pytest.mark.parametrize("is_run", [False, True])
def test_dropout_is_over_after_train_and_run(is_run, room, tmp_path, manager):
    if is_run:
        experiment = room.experiment(tmp_path, {"dropout": 0.5})
        network = experiment.run(manager(), manager(7), num_epochs=1)
    else:
        network = room.trainer(tmp_path, room.build(dropout=0.5)).train(1, manager(), manager(7))
    data = np.random.default_rng(0).normal(size=(64, 3))
    expected = data @ np.asarray(room.read(network), dtype=np.float64)
    np.testing.assert_allclose(predicted(room, network, data), expected, rtol=1e-4, atol=1e-5)


def test_one_sample_is_enough_for_batch_statistics(tmp_path, manager):
    torch = pytest.importorskip("torch")
    room = build_room("torch")

    network = room.experiment(tmp_path, cls=normed_network(room)).run(manager(), num_epochs=1)
    before = network.norm.running_mean.clone()
    network(torch.ones(1, 3))  # in training mode it raises
    assert torch.equal(network.norm.running_mean, before)


def test_a_further_train_learns_with_dropout_again(room, tmp_path, manager):
    unbroken = room.trainer(tmp_path / "unbroken", room.build(dropout=0.5)).train(2, manager())
    trainer = room.trainer(tmp_path / "broken", room.build(dropout=0.5))
    trainer.train(1, manager())
    assert room.same(room.read(trainer.train(2, manager())), room.read(unbroken))


def test_a_trial_leaves_its_module_in_evaluation_mode_too():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    trial = delira.Trial(module, torch.optim.SGD(module.parameters(), 0.1), torch.nn.MSELoss(), verbose=0)
    trial.with_train_data(torch.zeros(8, 2), torch.zeros(8, 1), batch_size=4).run(1)
    assert not any(each.training for each in module.modules())
