"""Messages call a sample by its number in the user's dataset, and by its file or case where the dataset knows one."""

import types

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, CachedDataset, ConcatDataset, WrappedDataset
from delira.data_loading.abstract_dataset import name_sample
from delira.data_loading.array_dataset import as_dataset

CASES = [f"P{number:02d}" for number in range(6)]
DATA = np.zeros((6, 2), np.float32)


class Folder:
    """As those of torchvision: ``samples`` lists the files, and what is read may fail."""

    def __init__(self, root, bad=None):
        self.samples = [(str(root / f"{case}.png"), 0) for case in CASES]
        self.bad = bad

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError("broken")
        return DATA[index], self.samples[index][1]


@pytest.mark.parametrize("key", ["case", "patient_id", "filename", "id"])
def test_cases_of_what_is_in_memory_are_named(key):
    for data in ({"data": DATA, key: np.array(CASES)}, [{"data": DATA[0], key: case} for case in CASES]):
        dataset = as_dataset(data)
        assert name_sample(dataset, 4) == f"sample 4 of {type(dataset).__name__} ({key} 'P04')"
        assert name_sample(dataset.get_subset([5, 3]), 1) == f"sample 3 of {type(dataset).__name__} ({key} 'P03')"
    assert name_sample(as_dataset({"data": DATA, key: np.arange(10, 16)}), 4).endswith(f"({key} 14)")


def test_a_sample_without_a_case_has_its_number_alone():
    assert name_sample(as_dataset({"data": DATA, "case": DATA, "id": np.ones(6)}), 4) == "sample 4 of DictDataset"
    assert name_sample(as_dataset([{"data": DATA[0], "name": None}]), 0) == "sample 0 of IterableDataset"
    assert name_sample(WrappedDataset(list(DATA)), 2) == "sample 2 of WrappedDataset"


def test_the_files_of_a_wrapped_dataset_are_named_whatever_looks_at_it(tmp_path):
    wrapped = WrappedDataset(Folder(tmp_path))
    view = types.SimpleNamespace(dataset=Folder(tmp_path), indices=[5, 2])  # as PyTorch's Subset
    file = str(tmp_path / "P02.png")
    view_of = type(
        "View", (), {"__len__": lambda self: 2, "__getitem__": lambda self, i: view.dataset[view.indices[i]]}
    )()
    vars(view_of).update(vars(view))
    for dataset, index in (
        (wrapped, 2),
        (wrapped.get_subset([0, 2]), 1),
        (CachedDataset(wrapped, tmp_path / "cache"), 2),
        (WrappedDataset(view_of), 1),
        (ConcatDataset(as_dataset({"data": DATA}), wrapped), 8),
    ):
        assert name_sample(dataset, index).endswith(f"({file})"), dataset


def test_columns_of_a_table_of_rows_name_the_case():
    class Table:
        """As a dataset of Hugging Face."""

        def __init__(self):
            self.column_names, self.features = ["image", "patient"], {}

        def __len__(self):
            return len(CASES)

        def __getitem__(self, key):
            if key == "patient":
                return CASES
            raise ValueError("broken")

    assert name_sample(WrappedDataset(Table()), 3) == "sample 3 of WrappedDataset (patient 'P03')"


@pytest.mark.parametrize("is_cached", [False, True])
def test_an_error_of_a_wrapped_dataset_names_the_file(tmp_path, is_cached):
    dataset = WrappedDataset(Folder(tmp_path, bad=4))
    if is_cached:
        dataset = CachedDataset(dataset, tmp_path / "cache")
    with pytest.raises(ValueError, match="broken") as caught:
        list(BaseDataManager(dataset, batch_size=3, n_process_augmentation=0))
    told = "\n".join(caught.value.__notes__)
    assert f"while sample 4 of {type(dataset).__name__} ({tmp_path / 'P04.png'}) was loaded" in told
    if is_cached:
        made = f"while sample 4 of WrappedDataset ({tmp_path / 'P04.png'}) was made for the cache in {dataset.path}"
        assert made in told
