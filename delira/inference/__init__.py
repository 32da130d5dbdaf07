"""Ways of prediction: windows over whole images and volumes, and test-time augmentation."""

from delira.inference.tta import TestTimeAugmentation
from delira.inference.way import Inference, joined
from delira.inference.windows import SlidingWindow
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
