"""Training with workers: what they do to a run, and what a run does to them."""

import signal
import time

import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.errors import WorkerError
from delira.training.callbacks import AbstractCallback

pytestmark = [pytest.mark.forks, pytest.mark.turns]

N = 24
PATIENT = {"time_limit": 0.5}


@pytest.fixture
def lazy(regression):
    """Datasets whose reading of one sample does something else."""
    arrays = regression(N)

    def make(bad, does):
        def load(index):
            if index == bad:
                does()
            return {"data": arrays["data"][index], "label": arrays["label"][index]}

        return BaseLazyDataset(range(N), load)

    return make


def loop():
    while True:
        time.sleep(0.01)


@pytest.mark.sampled("pairs")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("bad", [0, 20])
@pytest.mark.parametrize("kfold", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("does", [loop, lambda: signal.raise_signal(signal.SIGKILL)], ids=["loop", "kill"])
def test_a_sample_that_never_comes_ends_a_run_with_an_error(kit, lazy, tmp_path, does, kfold, bad):
    manager = BaseDataManager(lazy(bad, does), 4, 2, worker_settings=PATIENT)
    experiment = kit.experiment(tmp_path)
    with pytest.raises(WorkerError, match="while it loaded sample"):
        experiment.kfold(manager, num_splits=2) if kfold else experiment.run(manager)


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:sample .* is left out:UserWarning")
def test_or_is_left_out(kit, lazy, tmp_path):
    manager = BaseDataManager(lazy(0, loop), 4, 2, worker_settings=PATIENT, bad_samples="skip")
    result = kit.experiment(tmp_path).kfold(manager, num_splits=2)
    reason = "the worker that read it did not answer for 0.5 s (time_limit)"
    assert {index: why for fold in result.folds for index, why in fold.left_out.items()} == {0: reason}


class Noise:
    """A transform whose strength somebody else may change."""

    strength = 0.0

    def __call__(self, batch, rng):
        return {**batch, "data": batch["data"] + self.strength * rng.normal(size=batch["data"].shape)}


class Louder(AbstractCallback):
    """Makes the noise a function of the epoch."""

    def at_epoch_begin(self, trainer, curr_epoch, **facts):
        trainer.train_data.transforms.strength = 0.1 * curr_epoch


@pytest.mark.sampled("values")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_callback_changes_the_transforms_of_the_run(kit, manager, tmp_path, workers):
    def trained(name, **more):
        data = manager(12, n_process_augmentation=workers, transforms=Noise())
        trainer = kit.trainer(tmp_path / name, **more)
        trainer.train(3, data)
        return [entry["mse"] for entry in trainer.state.history]

    plain, louder = trained("plain"), trained("louder", callbacks=[Louder()])
    assert len({*plain} & {*louder}) == 0


def test_what_a_callback_changes_is_the_same_with_workers(kit, manager, tmp_path):
    histories = []
    for workers in (0, 2):
        data = manager(12, n_process_augmentation=workers, transforms=Noise())
        trainer = kit.trainer(tmp_path / str(workers), callbacks=[Louder()])
        trainer.train(3, data)
        histories.append(trainer.state.history)
    assert histories[0] == histories[1]


def test_outside_of_a_training_there_are_no_data(kit, tmp_path):
    assert kit.trainer(tmp_path).train_data is None
