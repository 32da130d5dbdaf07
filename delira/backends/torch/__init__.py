"""The PyTorch backend.

PyTorch runs step by step and keeps gradients on the parameters, so the default closure is plain
Python, and what must happen between gradients and update (loss scaling, accumulation, clipping) sits in
a thin wrapper around each optimizer.
"""

import delira.utils.triton_first

# isort: split
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
