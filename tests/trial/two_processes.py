"""One of two processes that train together by callbacks alone: ``two_processes.py rank store result``."""

import sys

import numpy as np
import torch
import torch.distributed as dist

import delira
from delira.state import GRADIENTS, MODEL
from delira.training.callbacks.decorators import on_backward, on_init


@on_init
def broadcast(state):
    for weight in state[MODEL].parameters():
        dist.broadcast(weight.data, 0)


@on_backward
def average(state):
    for gradient in state[GRADIENTS].values():
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def data():
    """x of shape (16, 3) and y of shape (16, 2)."""
    rng = np.random.default_rng(7)
    return rng.normal(size=(16, 3)).astype("f4"), rng.normal(size=(16, 2)).astype("f4")


def batches(rank):
    """For each of two steps, the half of a batch of 8 that a process takes."""
    x, y = data()
    rows = [slice(8 * step + 4 * rank, 8 * step + 4 * rank + 4) for step in (0, 1)]
    return [(x[part], y[part]) for part in rows]


def run(rank, store, result):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(rank)  # each begins elsewhere; the first one's weights are those of both
    net = torch.nn.Linear(3, 2)
    start = {name: weight.detach().numpy().copy() for name, weight in net.named_parameters()}
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    trial = delira.Trial(net, optimizer, torch.nn.functional.mse_loss, [], [broadcast, average], verbose=0)
    trial.with_train_generator(batches(rank)).run(3)
    weights = {f"end_{name}": weight.detach().numpy() for name, weight in net.named_parameters()}
    np.savez(result, **weights, **start)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(int(sys.argv[1]), *sys.argv[2:])
