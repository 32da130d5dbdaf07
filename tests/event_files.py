"""What TensorBoard itself reads in event files."""

import sys
import types


def read_events(folder):
    """All events of a folder, as TensorBoard has them; without TensorFlow, which takes seconds to import."""
    sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("tensorboard.compat.notf"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0}).Reload()
