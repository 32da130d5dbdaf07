"""The TensorFlow backend.

TensorFlow is fast where it computes a graph, so a step is traced once for each kind of batch and Python runs no more
than that. What a step decides by Python is decided before it (its place in an accumulation, what is frozen); what it
decides by numbers (batches left out, the scale of a loss) it decides inside the graph. Keras gives weights their shapes
with the first batch, keeps generators inside the layers and numbers its names through the process: the backend names
variables by their place in the network.
"""

import delira.utils.triton_first

# isort: split
import keras  # whoever asks for a name without the framework hears of it at once

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
