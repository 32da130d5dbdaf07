from delira.backends.jax import load_checkpoint_jax as load_checkpoint_jax
from delira.backends.jax import save_checkpoint_jax as save_checkpoint_jax
from delira.backends.sklearn import load_checkpoint_sklearn as load_checkpoint_sklearn
from delira.backends.sklearn import save_checkpoint_sklearn as save_checkpoint_sklearn
from delira.backends.tensorflow import load_checkpoint_tf as load_checkpoint_tf
from delira.backends.tensorflow import save_checkpoint_tf as save_checkpoint_tf
from delira.backends.tensorflow import tf_load_checkpoint as tf_load_checkpoint
from delira.backends.tensorflow import tf_save_checkpoint as tf_save_checkpoint
from delira.backends.torch import load_checkpoint_torch as load_checkpoint_torch
from delira.backends.torch import save_checkpoint_torch as save_checkpoint_torch
from delira.backends.torch import torch_load_checkpoint as torch_load_checkpoint
from delira.backends.torch import torch_save_checkpoint as torch_save_checkpoint
from delira.backends.torchscript import load_checkpoint_torchscript as load_checkpoint_torchscript
from delira.backends.torchscript import save_checkpoint_torchscript as save_checkpoint_torchscript
from delira.io.checkpoint import CheckpointFolder as CheckpointFolder
from delira.io.container import read_tree as read_tree
from delira.io.container import verify_zip as verify_zip
from delira.io.container import write_tree as write_tree
from delira.io.export import export as export
from delira.io.export import load_weights as load_weights
from delira.io.export import save_weights as save_weights

__all__ = [
    "CheckpointFolder",
    "export",
    "load_weights",
    "read_tree",
    "save_weights",
    "verify_zip",
    "write_tree",
]
