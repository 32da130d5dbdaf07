"""Historic import path of the rooms' small functions."""

from typing import TYPE_CHECKING

from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.jax import convert_jax_array_to_npy as convert_jax_array_to_npy
    from delira.backends.jax import create_optims_default_jax as create_optims_default_jax
    from delira.backends.jax import create_optims_gan_default_jax as create_optims_gan_default_jax
    from delira.backends.tensorflow import convert_tf_tensor_to_npy as convert_tf_tensor_to_npy
    from delira.backends.tensorflow import create_optims_default_tf as create_optims_default_tf
    from delira.backends.tensorflow import create_optims_gan_default_tf as create_optims_gan_default_tf
    from delira.backends.torch import convert_torch_tensor_to_npy as convert_torch_tensor_to_npy
    from delira.backends.torch import create_optims_default_pytorch as create_optims_default_pytorch
    from delira.backends.torch import create_optims_gan_default_pytorch as create_optims_gan_default_pytorch

__getattr__, __dir__ = lazy_names(__name__)
