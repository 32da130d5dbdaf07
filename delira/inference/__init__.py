"""Ways of prediction: windows over whole images and volumes, and test-time augmentation."""

from delira.inference.tta import TestTimeAugmentation
from delira.inference.way import Inference, joined
from delira.inference.windows import SlidingWindow
