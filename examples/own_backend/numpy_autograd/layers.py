"""Layers, and how their weights are found by name."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from numpy_autograd.random import GENERATOR
from numpy_autograd.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is learned."""

    def __init__(self, data: Any):
        super().__init__(np.asarray(data, dtype=np.float64), requires_grad=True)


class Module:
    """A layer or a network: its tensors and layers are its attributes."""

    is_training = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute."""
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def children(self) -> Iterator[tuple[str, "Module"]]:
        """Layers by name; those of a list by number."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                yield from ((f"{name}.{number}", item) for number, item in enumerate(value) if isinstance(item, Module))

    def modules(self) -> Iterator["Module"]:
        """The layer and all below."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All that is kept with the network, by dotted name: parameters, and what layers note."""
        yield from ((name, value) for name, value in vars(self).items() if isinstance(value, Tensor))
        for prefix, child in self.children():
            yield from ((f"{prefix}.{name}", tensor) for name, tensor in child.named_tensors())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters by dotted name."""
        yield from ((name, tensor) for name, tensor in self.named_tensors() if isinstance(tensor, Parameter))

    def parameters(self) -> list[Parameter]:
        """All parameters."""
        return [parameter for _, parameter in self.named_parameters()]


class Linear(Module):
    """``x @ weight + bias``, with ``weight`` of shape (n_inputs, n_outputs)."""

    def __init__(self, n_inputs: int, n_outputs: int):
        limit = 1 / np.sqrt(n_inputs)
        self.weight = Parameter(GENERATOR.uniform(-limit, limit, size=(n_inputs, n_outputs)))
        self.bias = Parameter(GENERATOR.uniform(-limit, limit, size=n_outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of shape (..., n_inputs) gives (..., n_outputs)."""
        return x @ self.weight + self.bias


class Dropout(Module):
    """Leave numbers out at random while training, and scale the rest."""

    def __init__(self, probability: float = 0.5):
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        if not self.is_training or self.probability == 0:
            return x
        return x * ((GENERATOR.random(x.shape) >= self.probability) / (1 - self.probability))


class BatchNorm(Module):
    """Normalise each feature over the batch; what was seen is noted for the evaluation."""

    def __init__(self, n_features: int, momentum: float = 0.1, eps: float = 1e-5):
        self.weight, self.bias = Parameter(np.ones(n_features)), Parameter(np.zeros(n_features))
        self.running_mean, self.running_var = Tensor(np.zeros(n_features)), Tensor(np.ones(n_features))
        self.momentum, self.eps = momentum, eps

    def forward(self, x: Tensor) -> Tensor:
        """Shape (B, n_features)."""
        if self.is_training:
            mean = x.mean(axis=0)
            var = ((x - mean) ** 2).mean(axis=0)
            for noted, seen in ((self.running_mean, mean.data), (self.running_var, var.data)):
                noted.data[...] = (1 - self.momentum) * noted.data + self.momentum * seen
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) / (var + self.eps) ** 0.5 * self.weight + self.bias


class ReLU(Module):
    """Negative numbers become 0."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return x.relu()


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return x.tanh()


class Sequential(Module):
    """One layer after the other."""

    def __init__(self, *layers: Module):
        self.layers = list(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Whatever the first layer takes."""
        for layer in self.layers:
            x = layer(x)
        return x
