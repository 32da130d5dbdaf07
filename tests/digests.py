"""Results as values that are equal only if every bit and every type is."""

import numpy as np


def bits(value):
    """Anything as something that is equal only if every bit and every type is."""
    if isinstance(value, dict):
        return {repr(key): bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [bits(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return "objects", value.shape, [bits(item) for item in value.flat]
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def digest(result):
    """Everything in a result but what tells the time or the place."""
    own = ("fold", "train_indices", "val_indices", "test_indices", "metrics", "predictions", "targets", "history",
           "best_epoch", "best_score", "left_out")  # fmt: skip
    folds = []
    for fold in result.folds:
        states = [state for callback in fold.callbacks if (state := callback.state_dict())]
        folds.append({**{name: bits(getattr(fold, name)) for name in own}, "callbacks": bits(states)})
    oof = {name: bits(getattr(result.oof, name)) for name in ("predictions", "targets", "per_case", "fold", "counts")}
    return folds, oof, result.table()
