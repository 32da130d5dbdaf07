"""One linear layer as a user writes it in every backend, with the same weights, and what it computes by numpy."""

from typing import Any

import numpy as np

#: backend -> package that it needs
BACKENDS = {"PyTorch": "torch", "TorchScript": "torch", "Tf": "tensorflow", "Jax": "flax"}
WEIGHT = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
BIAS = np.array([0.25, -2.0], np.float32)
INPUTS = np.array([[1, 2, 3], [-1, 0.5, 0], [0, 0, 0], [4, -4, 0.125]], np.float32)
OUTPUTS = INPUTS @ WEIGHT.T + BIAS


def linear(backend: str, **kwargs: Any) -> Any:
    """Return the network of a backend; further arguments are those of the user's own class."""
    return {"PyTorch": _torch, "TorchScript": _script, "Tf": _keras, "Jax": _flax}[backend](kwargs)


def filled(backend: str, **kwargs: Any) -> Any:
    """Return the network with the weights above."""
    network = linear(backend, **kwargs)
    weights = weights_of(backend)
    if BACKENDS[backend] == "torch":
        import torch

        network.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    elif backend == "Tf":
        network.linear.set_weights(list(weights.values()))
    else:
        network.linear.kernel[...], network.linear.bias[...] = weights.values()
    return network


def weights_of(backend: str) -> dict[str, np.ndarray]:
    """Return its weights by the names of the framework: kernels of Keras and flax have the inputs first."""
    if BACKENDS[backend] == "torch":
        return {"linear.weight": WEIGHT, "linear.bias": BIAS}
    return {"linear.kernel": WEIGHT.T.copy(), "linear.bias": BIAS}


def outputs_of(network: Any, inputs: np.ndarray = INPUTS) -> np.ndarray:
    """Return what it predicts, by its own batch preparation."""
    prepared = network.prepare_batch({"data": inputs}, "cpu", "cpu")
    made = network(prepared["data"])["pred"]
    return made.detach().numpy() if hasattr(made, "detach") else np.asarray(made)


def _torch(kwargs: dict[str, Any]) -> Any:
    import torch

    from delira.models import AbstractPyTorchNetwork

    class Linear(AbstractPyTorchNetwork):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            return {"pred": self.linear(x)}

    return Linear(**kwargs)


def _script(kwargs: dict[str, Any]) -> Any:
    import torch

    from delira.models import AbstractTorchScriptNetwork

    class Linear(AbstractTorchScriptNetwork):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.linear = torch.nn.Linear(3, 2)

        @torch.jit.script_method
        def forward(self, x):
            return {"pred": self.linear(x)}

    return Linear(**kwargs)


def _keras(kwargs: dict[str, Any]) -> Any:
    import keras

    from delira.models import AbstractTfNetwork

    class Linear(AbstractTfNetwork):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.linear = keras.layers.Dense(2)
            self.linear.build((None, 3))
            self.built = True

        def call(self, x):
            return {"pred": self.linear(x)}

    return Linear(**kwargs)


def _flax(kwargs: dict[str, Any]) -> Any:
    from flax import nnx

    from delira.models import AbstractJaxNetwork

    class Linear(AbstractJaxNetwork):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.linear = nnx.Linear(3, 2, rngs=self.rngs)

        def __call__(self, x):
            return {"pred": self.linear(x)}

    return Linear(**kwargs)
