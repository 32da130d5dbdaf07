"""One of two processes that train together by callbacks alone: ``two_backends.py backend rank socket result``."""

import sys
from multiprocessing.connection import Client, Listener

import numpy as np
from kits import build_kit, quiet
from two_processes_data import batches

from delira.callbacks.decorators import on_backward, on_init
from delira.state import GRADIENTS


def meet(rank, socket):
    """The other process."""
    if rank == 0:
        with Listener(socket, "AF_UNIX") as listener:
            return listener.accept()
    while True:  # until the other listens
        try:
            return Client(socket, "AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            continue


def run(backend, rank, socket, result):
    kit, other = build_kit(backend), meet(rank, socket)
    start = np.random.default_rng(rank).normal(size=(3, 2)).astype("f4")  # each begins elsewhere
    net = kit.linear(start)

    @on_init
    def broadcast(state):
        if rank == 0:
            other.send(kit.weight(net))
        else:
            kit.set_linear(net, other.recv())

    @on_backward
    def average(state):
        gradients = state[GRADIENTS]
        for name in sorted(gradients):
            own = kit.numpy(gradients[name])
            other.send(own)
            gradients[name] = kit.array((own + other.recv()) / 2)

    trial = quiet(net, kit.sgd(net, 0.1), kit.mse, callbacks=[broadcast, average])
    trial.with_train_generator(batches(rank)).run(3)
    np.savez(result, start=start, end=kit.weight(net))


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
