"""What layers compute with besides weights, in the words of every backend: networks that differ in it differ."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Settings = dict[str, Any]
"""Names of settings and plain values; ``"padding"`` as :func:`conv_settings` has it."""


def conv_settings(
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: object,
    *,
    is_transposed: bool = False,
) -> Settings:
    """Settings of a convolution.

    Parameters
    ----------
    kernel, strides, dilation
        By axis.
    padding
        ``"same"``, ``"valid"``, ``"causal"``, or pairs by axis: what is added before and after the image, or, of a
        transposed convolution, what is cut off its result.
    is_transposed
        Whether it is a transposed convolution.
    """
    word = padding.lower() if isinstance(padding, str) else None
    pairs: Any = padding
    if word == "valid":
        pairs = [(0, 0)] * len(kernel)
    elif word is not None:
        sizes = zip(kernel, strides, dilation, strict=True)
        pairs = [_added(word, *size, is_transposed) for size in sizes]
    known = pairs if pairs is None or None in pairs else tuple((int(low), int(high)) for low, high in pairs)
    ends = f'"{word}" with strides' if known is not None and None in known else known
    settings = {"strides": tuple(map(int, strides)), "dilation": tuple(map(int, dilation))}
    return {**settings, "padding": (word not in (None, "valid"), ends)}


def _added(word: str, size: int, stride: int, dilation: int, is_transposed: bool) -> tuple[int, int] | None:
    """Return what is added before and after an axis; ``None`` if that depends on its length."""
    reach = (size - 1) * dilation + 1
    if is_transposed:
        cut = max(reach - stride, 0)
        return cut // 2, cut - cut // 2
    if word == "causal":
        return reach - 1, 0
    if stride == 1 or reach == 1:
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    return None


def differences(source: Mapping[str, Any], target: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that both have, and that differ, each with both values.

    Explicit padding is compared only with padding by a word: layers of their own may add the rest.
    """
    found = []
    for name in source.keys() & target.keys():
        ours, theirs = source[name], target[name]
        if name == "padding":
            (is_word, ours), (is_other_word, theirs) = ours, theirs
            if not is_word and not is_other_word:
                continue
        is_close = isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=1e-3)
        if ours is not None and theirs is not None and ours != theirs and not is_close:
            found.append((name, ours, theirs))
    return sorted(found)
