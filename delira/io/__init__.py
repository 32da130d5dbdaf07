"""Checkpoints: how they are written, verified and found, and what each backend shows."""

from delira.io.checkpoint import CheckpointFolder
from delira.io.container import read_tree, verify_zip, write_tree
from delira.io.export import export, load_weights, save_weights
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
