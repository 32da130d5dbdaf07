"""The random sampler of 0.4 draws with replacement."""

import numpy as np

from delira.data_loading import BaseDataManager, RandomSampler

data = BaseDataManager(
    {"data": np.arange(1000)},
    100,
    0,
    transforms=None,
    sampler_cls=RandomSampler,  # means otherwise
)
drawn = np.concatenate([batch["data"] for batch in data.get_batchgen()])
assert len(drawn) == 1000
# of n draws with replacement n (1 - 1/e) are different
assert abs(len(np.unique(drawn)) - 1000 * (1 - np.exp(-1))) < 50

sampler = RandomSampler(range(1000))  # means otherwise
assert len({int(index) for index in sampler(1000)}) < 700
