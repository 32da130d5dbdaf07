"""Every module of 0.4 and 0.5 that is no file any more shows what it showed."""

import importlib

import numpy as np
import torch

import delira
from delira.data_loading.augmenter import Augmenter
from delira.data_loading.data_manager import Augmenter as same_augmenter
from delira.data_loading.sampler.lambda_sampler import LambdaSampler
from delira.data_loading.sampler.random_sampler import RandomSampler
from delira.data_loading.sampler.sequential_sampler import PrevalenceSequentialSampler, SequentialSampler
from delira.data_loading.sampler.weighted_sampler import WeightedPrevalenceRandomSampler, WeightedRandomSampler
from delira.io import torch as io_torch
from delira.io.torch import load_checkpoint, save_checkpoint
from delira.logging.multistream_handler import MultiStreamHandler
from delira.models.abstract_network import AbstractNetwork, AbstractPyTorchNetwork
from delira.models.classification import ClassificationNetworkBasePyTorch
from delira.models.classification.classification_network_3D import VGG3DClassificationNetworkPyTorch
from delira.models.gan import GenerativeAdversarialNetworkBasePyTorch
from delira.models.segmentation.unet import UNet2dPyTorch, UNet3dPyTorch
from delira.training.abstract_trainer import AbstractNetworkTrainer
from delira.training.base_trainer import BaseNetworkTrainer
from delira.training.callbacks.early_stopping import EarlyStopping
from delira.training.callbacks.pytorch_schedulers import ReduceLROnPlateauCallback, StepLRCallback
from delira.training.experiment import BaseExperiment, PyTorchExperiment
from delira.training.pytorch_trainer import PyTorchNetworkTrainer
from delira.training.train_utils import convert_batch_to_numpy_identity, float_to_pytorch_tensor
from delira.utils import bounding_box, calculate_origin_offset, max_energy_slice
from delira.utils.codecs import Decoder, Encoder
from delira.utils.context_managers import DebugDisabled, DebugEnabled, DefaultOptimWrapperTorch
from delira.utils.decorators import dtype_func, make_deprecated
from delira.utils.imageops import bounding_box as same_box

assert Augmenter is same_augmenter and same_box is bounding_box
assert AbstractPyTorchNetwork is delira.models.AbstractPyTorchNetwork
assert issubclass(AbstractPyTorchNetwork, AbstractNetwork)
assert AbstractNetworkTrainer is BaseNetworkTrainer and issubclass(PyTorchNetworkTrainer, BaseNetworkTrainer)
assert issubclass(PyTorchExperiment, BaseExperiment)
assert io_torch.save_checkpoint is save_checkpoint is delira.io.save_checkpoint_torch
assert load_checkpoint is delira.io.load_checkpoint_torch
assert StepLRCallback is delira.callbacks.StepLRCallbackPyTorch
assert ReduceLROnPlateauCallback.__name__.startswith("ReduceLROnPlateau") and EarlyStopping("loss").patience == 0
for network in (ClassificationNetworkBasePyTorch, VGG3DClassificationNetworkPyTorch, UNet2dPyTorch, UNet3dPyTorch,
                GenerativeAdversarialNetworkBasePyTorch):  # fmt: skip
    assert issubclass(network, AbstractPyTorchNetwork)
for sampler in (LambdaSampler, RandomSampler, PrevalenceSequentialSampler, SequentialSampler, WeightedRandomSampler,
                WeightedPrevalenceRandomSampler):  # fmt: skip
    assert sampler is getattr(delira.data_loading, sampler.__name__)
assert importlib.import_module("delira.utils.imageops").max_energy_slice is max_energy_slice
assert "TORCH" in delira.get_backends()

# ---- functions that were gone
mask = np.zeros((4, 5, 6))
mask[1:3, 2:4, 3:5] = 1
assert bounding_box(mask) == (1, 2, 2, 3, 3, 4)
assert bounding_box(mask, (1, 0, 9)) == (0, 3, 2, 3, 0, 5)
assert max_energy_slice(mask * np.arange(4)[:, None, None]) == 2
np.testing.assert_allclose(calculate_origin_offset((2, 2, 2), (1, 1, 4)), (0.5, 0.5, -1))
(number,), named = convert_batch_to_numpy_identity(np.array(2.0), a=np.array([1, 2]))
assert number.shape == (1,) and named["a"].shape == (2,)
assert float_to_pytorch_tensor(2).dtype is torch.float32
assert Decoder().decode(Encoder().encode({"a": (1, 2.5)})) == {"a": (1, 2.5)}
with DebugEnabled():
    assert delira.get_current_debug_mode()
    with DebugDisabled():
        assert not delira.get_current_debug_mode()
assert not delira.get_current_debug_mode()
weight = torch.ones(1, requires_grad=True)
optimizer = DefaultOptimWrapperTorch(torch.optim.SGD([weight], lr=0.5))
with optimizer.scale_loss(weight.sum()) as loss:
    loss.backward()
optimizer.step()
assert weight.item() == 0.5
assert list(optimizer.state_dict()) == ["state", "param_groups"]


@dtype_func(np.ndarray)
def total(array):
    return array.sum()


@make_deprecated("total")
def sum_of(array):
    return total(array)


assert sum_of(np.ones(3)) == 3
try:
    total([1])
except Exception as error:
    assert "ndarray" in str(error)
else:
    raise AssertionError("a list is no array")

handler = MultiStreamHandler()
assert handler.level == 0

# ---- the augmenter of both versions
samples = {"data": np.arange(10.0)}
loader = delira.data_loading.BaseDataLoader(samples, batch_size=4)
old = Augmenter(loader, None, 0, SequentialSampler(10), [])
assert old.num_batches == 3 and [batch["data"].tolist() for batch in old][2] == [8, 9]
new = Augmenter(loader, 5, SequentialSampler(10), 0, None, 1, True)
assert [len(batch["data"]) for batch in new] == [5, 5]
assert new.next()["data"].tolist() == [0, 1, 2, 3, 4]
namespace = {}
exec("from delira.models import *", namespace)
assert "AbstractPyTorchNetwork" in namespace and "AbstractNetwork" in namespace
