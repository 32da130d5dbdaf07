"""Samplers and loaders of the user's own, in the spelling of 0.4."""

import numpy as np

from delira.data_loading import AbstractDataset, AbstractSampler, BaseDataLoader, BaseDataManager, LambdaSampler


class Numbers(AbstractDataset):
    def __init__(self):
        super().__init__(None, None)

    def __getitem__(self, index):
        return {"data": np.array([index], np.float32), "label": index % 2}

    def __len__(self):
        return 7

    def get_sample_from_index(self, index):
        return self[index]


class Backwards(AbstractSampler):
    def __init__(self, indices):
        super().__init__(indices)
        self._indices = list(indices)

    @classmethod
    def from_dataset(cls, dataset, **kwargs):
        return cls(range(len(dataset)), **kwargs)

    def _get_indices(self, n_indices):
        start = self._global_index
        self._global_index = start + n_indices
        return self._indices[::-1][start : start + n_indices]

    def __len__(self):
        return len(self._indices)


def batches(manager):
    return [batch["data"].ravel().tolist() for batch in manager.get_batchgen()]


manager = BaseDataManager(Numbers(), 3, 1, transforms=None, sampler_cls=Backwards)
assert batches(manager) == [[6, 5, 4], [3, 2, 1], [0]]
assert batches(manager) == [[6, 5, 4], [3, 2, 1], [0]]
sampler = Backwards.from_dataset(Numbers())
assert list(sampler(3)) == [6, 5, 4]
assert batches(manager.get_subset([0, 1, 2, 3])) == [[3, 2, 1], [0]]

manager = BaseDataManager(
    Numbers(), 2, 0, None, LambdaSampler, {"sampling_fn": lambda indices, n: [indices[0]] * n}
)  # fmt: skip
assert batches(manager) == [[0, 0], [0, 0], [0, 0], [0]]


class Doubled(BaseDataLoader):
    def _get_sample(self, index):
        sample = super()._get_sample(index)
        return {**sample, "data": sample["data"] * 2}


assert batches(BaseDataManager(Numbers(), 4, 0, None, data_loader_cls=Doubled)) == [[0, 2, 4, 6], [8, 10, 12]]
assert batches(BaseDataManager({"data": np.arange(3.0)}, 2, 0, None, data_loader_cls=Doubled)) == [[0, 2], [4]]


class Queued(BaseDataLoader):
    def __init__(self, dataset, sampler_queues, batch_size=1, num_batches=None, seed=1):
        super().__init__(dataset, sampler_queues, batch_size, num_batches, seed)

    def generate_train_batch(self):
        indices = self.sampler_queues[self.thread_id].get()
        samples = [self._data[index] for index in indices]
        return {
            "data": np.stack([sample["data"] for sample in samples]) + 100,
            "n": np.full(len(samples), len(samples)),
        }


manager = BaseDataManager(Numbers(), 4, 0, None, data_loader_cls=Queued)
assert batches(manager) == [[100, 101, 102, 103], [104, 105, 106]]
assert [batch["n"].tolist() for batch in manager.get_batchgen()] == [[4] * 4, [3] * 3]
manager.n_process_augmentation = 2
assert batches(manager) == [[100, 101, 102, 103], [104, 105, 106]]


class Extended(BaseDataLoader):
    def generate_train_batch(self):
        batch = super().generate_train_batch()
        return {**batch, "data": -batch["data"]}


assert batches(BaseDataManager(Numbers(), 4, 0, None, data_loader_cls=Extended)) == [[0, -1, -2, -3], [-4, -5, -6]]
assert batches(BaseDataManager(Numbers(), 4, n_process_loading=1)) == [[0, 1, 2, 3], [4, 5, 6]]
