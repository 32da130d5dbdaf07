"""PyTorch for the tests of the Trial."""

import itertools

import numpy as np
import torch
from kits import Kit

from delira.state import X


class Free(torch.nn.Module):
    """Weights by name, and a function of the module and its inputs."""

    def __init__(self, weights, function):
        super().__init__()
        for name, value in weights.items():
            setattr(self, name, torch.nn.Parameter(torch.tensor(np.asarray(value, "f4"))))
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Stateful(Free):
    def forward(self, x, state):
        return self.function(self, x, state)


class TorchKit(Kit):
    name = "torch"
    module, state_module = Free, Stateful
    label_type = "i8"

    def __init__(self):
        self.sum, self.mean, self.exp, self.relu, self.sign = torch.sum, torch.mean, torch.exp, torch.relu, torch.sign
        self.softplus, self.norm = torch.nn.functional.softplus, torch.linalg.vector_norm
        self.concatenate, self.clip = torch.concatenate, torch.clamp
        self.mse, self.cross_entropy = torch.nn.functional.mse_loss, torch.nn.functional.cross_entropy

    def array(self, values):
        return torch.tensor(np.asarray(values))

    def numpy(self, value):
        return value.detach().cpu().numpy().copy() if isinstance(value, torch.Tensor) else np.asarray(value)

    def detached(self, value):
        return value.detach()

    def where(self, condition, one, other):
        return torch.where(torch.as_tensor(condition), one, other)

    def linear(self, weight):
        net = torch.nn.Linear(*np.shape(weight), bias=False)
        with torch.no_grad():
            net.weight.copy_(torch.tensor(np.asarray(weight, "f4").T))
        return net

    def weight(self, net):
        return net.weight.detach().numpy().T.copy()

    def weights(self, net):
        return {name: value.detach().numpy().copy() for name, value in net.named_parameters()}

    def parameters(self, net):
        return list(net.parameters())

    def set_weight(self, net, name, value):
        with torch.no_grad():
            getattr(net, name).copy_(torch.as_tensor(value))

    def set_linear(self, net, weight):
        net.weight.data.copy_(torch.tensor(weight).T)

    def sgd_of(self, net, rate):
        return torch.optim.SGD(net.parameters(), rate)

    def both(self, **nets):
        return torch.nn.ModuleDict(nets)

    def sgd(self, nets, rate, momentum=0.0):
        return torch.optim.SGD(_weights(nets), rate, momentum=momentum)

    def adam(self, nets, rate):
        return torch.optim.Adam(_weights(nets), rate)

    def amsgrad(self, nets, rate):
        return torch.optim.Adam(_weights(nets), rate, betas=(0.9, 0.99), amsgrad=True)

    def rmsprop(self, nets, rate):
        return torch.optim.RMSprop(_weights(nets), rate)

    def needs_gradient(self, value):
        return value.detach().requires_grad_()

    def input_gradient(self, state, criterion):
        """Of the loss, after the backward pass."""
        return state[X].grad

    def plain_weights(self, path):
        """The weights of a file, without delira."""
        return {name: value.numpy() for name, value in torch.load(path).items()}

    def stored(self, tree, path):
        """The tree, written to a file and read again."""
        torch.save(tree, path)
        return torch.load(path)  # weights_only: no code runs


def _weights(nets):
    nets = nets if isinstance(nets, (list, tuple)) else [nets]
    return list(itertools.chain.from_iterable(net.parameters() for net in nets))
