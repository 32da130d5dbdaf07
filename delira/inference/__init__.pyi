from delira.inference.tta import TestTimeAugmentation as TestTimeAugmentation
from delira.inference.way import Inference as Inference
from delira.inference.way import joined as joined
from delira.inference.windows import SlidingWindow as SlidingWindow

__all__ = [
    "Inference",
    "SlidingWindow",
    "TestTimeAugmentation",
    "joined",
]
