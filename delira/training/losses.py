"""Losses of the rooms, called as ``loss(prediction, target)``."""

from typing import TYPE_CHECKING

from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.jax import BCEFocalLossJax as BCEFocalLossJax
    from delira.backends.jax import BCEFocalLossLogitJax as BCEFocalLossLogitJax
    from delira.backends.jax import DiceCELossJax as DiceCELossJax
    from delira.backends.jax import DiceLossJax as DiceLossJax
    from delira.backends.jax import TverskyLossJax as TverskyLossJax
    from delira.backends.tensorflow import BCEFocalLossLogitTf as BCEFocalLossLogitTf
    from delira.backends.tensorflow import BCEFocalLossTf as BCEFocalLossTf
    from delira.backends.tensorflow import DiceCELossTf as DiceCELossTf
    from delira.backends.tensorflow import DiceLossTf as DiceLossTf
    from delira.backends.tensorflow import TverskyLossTf as TverskyLossTf
    from delira.backends.torch import BCEFocalLossLogitPyTorch as BCEFocalLossLogitPyTorch
    from delira.backends.torch import BCEFocalLossPyTorch as BCEFocalLossPyTorch
    from delira.backends.torch import DiceCELossPyTorch as DiceCELossPyTorch
    from delira.backends.torch import DiceLossPyTorch as DiceLossPyTorch
    from delira.backends.torch import TverskyLossPyTorch as TverskyLossPyTorch

__getattr__, __dir__ = lazy_names(__name__)
