"""Notes on errors: samples by number in the user's dataset and by file; which part, epoch and shapes."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.errors import DataError

SPLITS = {"num_splits": 2, "shuffle": True, "random_seed": 1, "val_split": 0.25}


def notes(caught):
    return "\n".join(getattr(caught.value, "__notes__", ()))


def lazy(tmp_path, bad=None, n=12, wrong_shape=False, since=None):
    """Samples in files, one of which is bad once it is not the first that is looked at."""
    files = []
    for number in range(n):
        files.append(tmp_path / f"case_{number:02d}.npy")
        np.save(files[-1], np.full(3, float(number)))

    def load(file):
        values = np.load(file)
        is_time = since is None or any(since.rglob("cases.json"))  # each case was read once, before the training
        if bad is not None and values[0] == bad and is_time:
            if wrong_shape:
                return {"data": np.zeros(5), "label": np.zeros(1)}
            raise ValueError("broken")
        return {"data": values, "label": values[:1]}

    return BaseDataManager(BaseLazyDataset([str(file) for file in files], load), 3)


def test_a_sample_of_a_fold_is_named_by_its_number_in_the_dataset_and_by_its_file(tmp_path):
    kit = build_kit("toy")
    good = kit.experiment(tmp_path / "good").kfold(lazy(tmp_path), **SPLITS)
    for part, role in (("train", "training"), ("val", "validation"), ("test", "test")):
        bad = int(getattr(good.folds[0], f"{part}_indices")[-1])
        with pytest.raises(ValueError, match="broken") as caught:
            kit.experiment(tmp_path / part).kfold(lazy(tmp_path, bad, since=tmp_path / part), **SPLITS)
        told = notes(caught)
        assert f"while sample {bad} of BaseLazyDataset ({tmp_path / f'case_{bad:02d}.npy'}) was loaded" in told
        assert f" {role}" in told
        (batch,) = (line for line in told.splitlines() if line.startswith("while batch"))
        listed = {int(one.partition(" ")[0]) for one in batch.partition("samples ")[2].split(", ")}
        assert bad in listed
        assert listed <= set(getattr(good.folds[0], f"{part}_indices").tolist())


def test_a_sample_of_another_shape_is_named_by_its_number_in_the_dataset(tmp_path):
    data = lazy(tmp_path, bad=9, wrong_shape=True).get_subset([7, 8, 9])
    with pytest.raises(DataError, match=r"entry 'data' of sample 9 has shape \(5,\), .*\(that of sample 7\)"):
        data.first_batch(0)


def test_a_worker_names_a_sample_of_a_subset_by_its_number_in_the_dataset(tmp_path):
    data = lazy(tmp_path, bad=9).get_subset([7, 8, 9])
    data.n_process_augmentation = 1
    with pytest.raises(ValueError, match="broken") as caught:
        list(data)
    assert "while sample 9 of BaseLazyDataset" in notes(caught)
    assert "while batch 1 (fold 0, seed 1; samples 7 (case_07), 8 (case_08), 9 (case_09)) was made" in notes(caught)
    data.close()


@pytest.mark.parametrize("role", ["training", "validation"])
def test_epochs_are_counted_from_1_and_the_part_is_said(tmp_path, manager, role):
    calls = []

    def failing(batch):
        calls.append(1)
        if len(calls) > 4:
            raise ValueError("augmented too much")
        return batch

    augmented = manager(4)
    augmented.transforms = failing
    data = (augmented, manager(4)) if role == "training" else (manager(4), augmented)
    with pytest.raises(ValueError, match="augmented") as caught:
        build_kit("toy").experiment(tmp_path, training={"num_epochs": 9}).run(*data)
    told = notes(caught)
    assert f"in the {role} of fold 0, epoch 4" in told  # the first of the calls looked at a batch beforehand
    assert "while batch 1 of epoch 4 (fold 0, seed 0; samples" in told


@pytest.mark.parametrize("role", ["training", "validation", "test"])
def test_a_case_that_the_network_refuses_is_named(kit, tmp_path, manager, role):
    class Refusing(kit.network):
        """A network that knows no number 7."""

        def __call__(self, *args, **kwargs):
            if (np.asarray([*args, *kwargs.values()][0]) == 7).any():
                raise ValueError("no such number")
            return super().__call__(*args, **kwargs)

    data = manager(10, 2)
    data.dataset.case_names = [f"patient_{number}" for number in range(10)]
    data.dataset.data["data"][:] = 0.5
    data.dataset.data["data"][5] = 7
    good, bad = data.get_subset([0, 1, 2, 3]), data.get_subset([8, 9, 5, 6])
    experiment = kit.experiment(tmp_path, cls=Refusing, training={"num_epochs": 1, "compiled": False})
    do = {
        "training": lambda: experiment.run(bad, good),
        "validation": lambda: experiment.run(good, bad),
        "test": lambda: experiment.test(experiment.run(good), bad),
    }[role]
    with pytest.raises(ValueError, match="no such number") as caught:
        do()
    told = notes(caught)
    assert "5 (patient_5)" in told
    assert f"in the {role}" in told


def test_an_error_inside_of_forward_tells_entries_and_shapes(kit, tmp_path, manager):
    class Failing(kit.network):
        """A network whose forward fails at its third batch."""

        n = 0

        def __call__(self, *args, **kwargs):
            type(self).n += 1
            if type(self).n > 2:
                raise ValueError("cannot be reshaped")
            return super().__call__(*args, **kwargs)

    experiment = kit.experiment(tmp_path, cls=Failing, training={"num_epochs": 3, "compiled": False})
    with pytest.raises(ValueError, match="cannot be reshaped") as caught:
        experiment.run(manager())
    told = notes(caught)
    assert "in a training step on a batch of " in told
    assert "'data': " in told
    assert "of shape (" in told
    assert "in the training of fold 0, epoch 1" in told


def test_an_error_inside_of_forward_in_a_test_tells_shapes(tmp_path, manager):
    kit = build_kit("toy")

    class Failing(kit.network):
        def __call__(self, *args, **kwargs):
            raise ValueError("cannot be reshaped")

    with pytest.raises(ValueError, match="cannot be reshaped") as caught:
        kit.experiment(tmp_path).test(kit.build(cls=Failing), manager())
    assert "the network was called with 'data' of shape (4, 3)" in notes(caught)
    assert "in the test" in notes(caught)
