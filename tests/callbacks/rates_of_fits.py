"""Rates of a fit, and those of PyTorch's own schedules."""

import pytest


def of_torch(name, params, n, entry="lr", **settings):
    """What PyTorch's own schedule gives for the first ``n`` steps, of each group."""
    torch = pytest.importorskip("torch", reason="the comparison is with PyTorch")
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [weight]} for weight in weights]
    optimizer = settings.pop("cls", torch.optim.SGD)(groups, 0.1, **settings)
    schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **params)
    seen = [[group[entry] for group in optimizer.param_groups]]
    for _ in range(n - 1):
        optimizer.step()
        schedule.step()
        seen.append([group[entry] for group in optimizer.param_groups])
    return seen
