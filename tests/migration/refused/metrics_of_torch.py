"""Metrics of 0.3 on tensors, with tensors as values."""

import numpy as np
import torch

from delira.training import AccuracyMetricPyTorch, AurocMetricPyTorch  # refused

logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.5, 0.4]])
labels = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
metrics = {"accuracy": AccuracyMetricPyTorch(), "auroc": AurocMetricPyTorch()}
values = {name: metric(logits, labels).item() for name, metric in metrics.items()}
assert values["accuracy"] == 3 / 4
# of the four pairs of a case of each class two are in order
scores, truth = (logits[:, 1] - logits[:, 0]).numpy(), labels[:, 0].numpy() == 1
assert values["auroc"] == np.mean(scores[truth][:, None] > scores[~truth][None])
