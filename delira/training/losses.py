"""Losses of the rooms, called as ``loss(prediction, target)``."""

from typing import TYPE_CHECKING

from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.torch import BCEFocalLossLogitPyTorch as BCEFocalLossLogitPyTorch
    from delira.backends.torch import BCEFocalLossPyTorch as BCEFocalLossPyTorch
    from delira.backends.torch import DiceCELossPyTorch as DiceCELossPyTorch
    from delira.backends.torch import DiceLossPyTorch as DiceLossPyTorch
    from delira.backends.torch import TverskyLossPyTorch as TverskyLossPyTorch

__getattr__, __dir__ = lazy_names(__name__)
