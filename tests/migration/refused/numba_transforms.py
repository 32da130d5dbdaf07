"""Transforms that numba compiled: each is the transform itself."""

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.data_loading.numba_transform import NumbaCompose, NumbaTransform, NumbaTransformWrapper  # refused


class Scale:
    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, **batch):
        return {**batch, "data": batch["data"] * self.factor}


def shift(**batch):
    return {**batch, "data": batch["data"] + 1}


transforms = NumbaCompose(
    [
        NumbaTransform(Scale, nopython=False, factor=3.0),
        NumbaTransformWrapper(shift, target="cpu"),
    ]
)
data = BaseDataManager({"data": np.arange(4.0)}, 2, 1, transforms, sampler_cls=SequentialSampler)
values = np.concatenate([batch["data"] for batch in data.get_batchgen()])
np.testing.assert_array_equal(values, np.arange(4) * 3 + 1)
