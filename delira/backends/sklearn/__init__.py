"""The scikit-learn backend.

An estimator brings its own loss and its own optimizer, so a training has neither. One that learns batch by
batch (``partial_fit``) does so in every epoch; any other one is fitted once, at the end of the first epoch, on
all of its samples. skops writes estimators without pickle.
"""

import sklearn  # whoever asks for a name without the framework hears of it at once

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
