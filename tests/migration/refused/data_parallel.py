"""Networks in a wrapper for several GPUs: on one device it is the network itself."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import (
    AbstractPyTorchNetwork,
    DataParallelPyTorchNetwork,  # refused
)
from delira.models.backends.tf_eager import DataParallelTfEagerNetwork  # refused

network = DataParallelPyTorchNetwork(torch.nn.Linear(2, 1), device_ids=[0, 1], output_device=1)
assert isinstance(network, torch.nn.Linear)
other = lambda module: DataParallelTfEagerNetwork(module, ["/gpu:0", "/gpu:1"])
assert other(network) is network
assert issubclass(AbstractPyTorchNetwork, torch.nn.Module) and BaseDataManager and SequentialSampler
assert np.ones(1).sum() == 1
