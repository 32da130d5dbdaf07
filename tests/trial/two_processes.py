"""One of two processes that train together by callbacks alone: ``two_processes.py rank store result``."""

import sys

import numpy as np
import torch
import torch.distributed as dist
from two_processes_data import batches

import delira
from delira.callbacks.decorators import on_backward, on_init
from delira.state import GRADIENTS, MODEL


@on_init
def broadcast(state):
    for weight in state[MODEL].parameters():
        dist.broadcast(weight.data, 0)


@on_backward
def average(state):
    for gradient in state[GRADIENTS].values():
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def run(rank, store, result):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(rank)  # each begins elsewhere; the first one's weights are those of both
    net = torch.nn.Linear(3, 2)
    start = {name: weight.detach().numpy().copy() for name, weight in net.named_parameters()}
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    trial = delira.Trial(net, optimizer, torch.nn.functional.mse_loss, [], [broadcast, average], seed=0, verbose=0)
    trial.with_train_generator(batches(rank)).run(3)
    weights = {f"end_{name}": weight.detach().numpy() for name, weight in net.named_parameters()}
    np.savez(result, **weights, **start)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(int(sys.argv[1]), *sys.argv[2:])
