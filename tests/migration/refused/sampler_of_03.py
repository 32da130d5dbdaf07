"""The weights of a sampler of 0.3, whose sums were not given."""

import numpy as np

import delira.data_loading.sampler as samplers

indices = list(range(4))
sampler = samplers.WeightedRandomSampler(indices, weights=[0, 0, 1, 0], cum_weights=None)  # refused
np.testing.assert_array_equal(sampler(3), [2, 2, 2])
