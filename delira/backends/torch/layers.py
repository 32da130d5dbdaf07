"""What layers of PyTorch compute with besides weights."""

from typing import Any

import torch
from torch.nn.modules import batchnorm, conv

from delira.models.layer_settings import Settings, conv_settings


def layer_settings(layer: Any) -> Settings:
    """Settings of a normalisation or a convolution by the names of every backend; of others none."""
    if isinstance(layer, torch.nn.GroupNorm):
        return {"epsilon": float(layer.eps), "groups": int(layer.num_groups)}
    if isinstance(layer, (batchnorm._NormBase, torch.nn.LayerNorm)):
        return {"epsilon": float(layer.eps)}
    if isinstance(layer, torch.nn.RMSNorm):
        return {"epsilon": float(torch.finfo(torch.float32).eps if layer.eps is None else layer.eps)}
    if not isinstance(layer, conv._ConvNd):
        return {}
    padding: Any = layer.padding
    if layer.transposed:
        ends: Any = zip(layer.padding, layer.output_padding, strict=True)
        padding = [(own, own - more) for own, more in ends]
    elif not isinstance(padding, str):
        padding = [(own, own) for own in padding]
    how = layer.kernel_size, layer.stride, layer.dilation, padding
    return {**conv_settings(*how, is_transposed=layer.transposed), "groups": int(layer.groups)}
