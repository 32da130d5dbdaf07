"""Losses worked out by hand, the same for every backend."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

LN2, LN4 = math.log(2), math.log(4)  # the logit ln 4 is the probability 0.8


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of a loss and its value."""

    loss: str
    """Name without the ending of the backend."""
    arguments: Mapping[str, Any]
    prediction: Any
    target: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.loss}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"


#: entries (0.2^2 ln 0.8) and (0.3^2 ln 0.7): the probability 0.8 of a positive, 0.3 of a negative
FOCAL = (0.04 * -math.log(0.8), 0.09 * -math.log(0.7))
LOGITS = [[LN4, math.log(3 / 7)]]
#: one sample, one channel, two positions: I = 0.8, sum p = 1.2, sum t = 1, FP = 0.4, FN = 0.2
P, T = [[[0.8, 0.4]]], [[[1, 0]]]
#: two samples of that shape; the second has I = 0.5, sum p = 1, sum t = 2
TWO_P, TWO_T = [[[0.8, 0.4]], [[0.5, 0.5]]], [[[1, 0]], [[1, 1]]]
#: one sample, two channels, two positions: the probabilities are (0.8, 0.2) and (0.2, 0.8)
TWO_CLASSES = [[[LN4, 0.0], [0.0, LN4]]]
ONLY_P = {"activation": None, "smooth": 0.0}

CASES = [
    Case("BCEFocalLoss", {}, [[0.8, 0.3]], [[1, 0]], sum(FOCAL) / 2),
    Case("BCEFocalLoss", {"reduction": "mean"}, [[0.8, 0.3]], [[1, 0]], sum(FOCAL) / 2),
    Case("BCEFocalLoss", {"reduction": "sum"}, [[0.8, 0.3]], [[1, 0]], sum(FOCAL)),
    Case("BCEFocalLoss", {"reduction": "none"}, [[0.8, 0.3]], [[1, 0]], [FOCAL]),
    Case("BCEFocalLoss", {"alpha": 0.25, "reduction": "sum"}, [[0.8, 0.3]], [[1, 0]], FOCAL[0] / 4 + FOCAL[1] * 3 / 4),
    Case("BCEFocalLoss", {"gamma": 0, "reduction": "sum"}, [[0.8, 0.3]], [[1, 0]], -math.log(0.8) - math.log(0.7)),
    Case("BCEFocalLoss", {"gamma": 1}, [[0.5]], [0], LN2 / 2),
    Case("BCEFocalLoss", {}, [[1.0, 0.0]], [[1, 0]], 0.0),
    Case("BCEFocalLossLogit", {"reduction": "none"}, LOGITS, [[1, 0]], [FOCAL]),
    Case("BCEFocalLossLogit", {"alpha": 0.25}, LOGITS, [[1, 0]], (FOCAL[0] / 4 + FOCAL[1] * 3 / 4) / 2),
    Case("BCEFocalLossLogit", {}, [[0.0]], [[1]], LN2 / 4),
    Case("BCEFocalLossLogit", {}, [[1e4, -1e4]], [[1, 0]], 0.0),
    Case("BCEFocalLossLogit", {}, [[1e4, -1e4]], [[0, 1]], 1e4),
    Case("DiceLoss", ONLY_P, P, T, 1 - 1.6 / 2.2),
    Case("DiceLoss", {"activation": None, "smooth": 1.0}, P, T, 1 - 2.6 / 3.2),
    Case("DiceLoss", {**ONLY_P, "squared": True}, P, T, 1 - 1.6 / 1.8),
    Case("DiceLoss", {"smooth": 0.0}, [[[LN4, math.log(2 / 3)]]], T, 1 - 1.6 / 2.2),
    Case("DiceLoss", {"smooth": 0.0}, [[[LN4, math.log(2 / 3)]]], [[1, 0]], 1 - 1.6 / 2.2),
    Case("DiceLoss", {**ONLY_P, "reduction": "none"}, TWO_P, TWO_T, [[1 - 1.6 / 2.2], [1 - 2 / 3]]),
    Case("DiceLoss", {**ONLY_P, "reduction": "sum"}, TWO_P, TWO_T, 2 - 1.6 / 2.2 - 2 / 3),
    Case("DiceLoss", {**ONLY_P, "batch": True, "reduction": "none"}, TWO_P, TWO_T, [1 - 3.6 / 5.2]),
    Case("DiceLoss", {"smooth": 0.0}, TWO_CLASSES, [[0, 1]], 0.2),
    Case("DiceLoss", {"smooth": 0.0}, TWO_CLASSES, [[[0, 1]]], 0.2),
    Case("DiceLoss", {"smooth": 0.0}, TWO_CLASSES, [[[1, 0], [0, 1]]], 0.2),
    Case("DiceLoss", {"smooth": 0.0, "include_background": False}, TWO_CLASSES, [[0, 0]], 1.0),
    Case("DiceLoss", {"smooth": 0.0, "reduction": "none"}, TWO_CLASSES, [[0, 0]], [[1 - 2 / 3, 1.0]]),
    Case("DiceLoss", {"activation": None}, [[[0.0, 0.0]]], [[[0, 0]]], 0.0),
    Case("TverskyLoss", ONLY_P, P, T, 1 - 0.8 / 1.06),
    Case("TverskyLoss", {**ONLY_P, "alpha": 0.5, "beta": 0.5}, P, T, 1 - 1.6 / 2.2),
    Case("TverskyLoss", {"activation": None, "smooth": 1.0}, P, T, 1 - 1.8 / 2.06),
    Case("TverskyLoss", {**ONLY_P, "batch": True}, TWO_P, TWO_T, 1 - 1.8 / (1.8 + 0.3 * 0.4 + 0.7 * 1.2)),
    Case("TverskyLoss", {"smooth": 0.0, "include_background": False}, TWO_CLASSES, [[0, 1]], 0.2),
    Case("TverskyLoss", {"activation": None}, [[[0.0, 0.0]]], [[[0, 0]]], 0.0),
    Case("DiceCELoss", {"smooth": 0.0}, TWO_CLASSES, [[0, 1]], 0.2 - math.log(0.8)),
    Case("DiceCELoss", {"smooth": 0.0, "ce_weight": 0.5}, TWO_CLASSES, [[0, 1]], 0.2 - math.log(0.8) / 2),
    Case("DiceCELoss", {"smooth": 0.0, "dice_weight": 2.0}, TWO_CLASSES, [[[0, 1]]], 0.4 - math.log(0.8)),
    Case("DiceCELoss", {"dice_weight": 0.0}, TWO_CLASSES, [[1, 1]], -math.log(0.8) / 2 - math.log(0.2) / 2),
    Case("DiceCELoss", {"dice_weight": 0.0}, [[[LN4, 0.0]]], [[1, 0]], (-math.log(0.8) + LN2) / 2),
    Case(
        "DiceCELoss", {"dice_weight": 0.0, "activation": "sigmoid"}, TWO_CLASSES, [[0, 1]], LN2 / 2 - math.log(0.8) / 2
    ),
    Case("DiceCELoss", {"dice_weight": 0.0}, [[[1e4, -1e4]]], [[0, 0]], 5e3),
]
