"""What the tests of the Trial need of each framework, and which case they show on which of them."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import delira

#: backend -> its framework's package, and the class of its kit in ``kit_<backend>``
KITS = {
    "torch": ("torch", "TorchKit"),
    "tensorflow": ("tensorflow", "TensorFlowKit"),
    "jax": ("flax", "JaxKit"),
    "sklearn": ("sklearn", "SklearnKit"),
}
DIFFERENTIABLE = ("torch", "tensorflow", "jax")
#: cases that an estimator shows, too
OF_ESTIMATORS = frozenset((1, 3, 4, 5, 6, 7, 8, 12, 13, 16, 22, 26, 28, 30))
#: case -> what it demands, in a few words
TITLES = {
    1: "Two-line training",
    2: "Differentiable programming, without data",
    3: "Inference on saved models",
    4: "The state resumes exactly",
    5: "Callbacks change the fit",
    6: "Functions as callbacks",
    7: "State keys do not collide",
    8: "Errors arrive as they are",
    9: "Weight-decay callback",
    10: "Weight decay without a criterion",
    11: "Built-in weight decay",
    12: "Decorated metric",
    13: "A metric is computed once per batch",
    14: "GAN: a model that returns nothing",
    15: "GAN: the model receives the state",
    16: "GAN: metrics of state keys",
    17: "GAN: each network has its own gradient",
    18: "GAN: two optimizers",
    19: "SVM",
    20: "VAE",
    21: "Accuracy of an unknown criterion is refused",
    22: "Inputs and predictions of the test pass, once",
    23: "Himmelblau with several optimizers",
    24: "AMSGrad's counter-example",
    25: "Adversarial examples (FGSM)",
    26: "Custom loader",
    27: "Several inputs and outputs",
    28: "History as a table; replay",
    29: "Distributed by callbacks",
    30: "Serialisation both ways",
}
#: case -> backend -> "yes", or why not
SHOWN: dict[int, dict[str, str]] = {number: {} for number in TITLES}


BACKENDS = pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
TORCH = pytest.mark.parametrize("kit", ["torch"], indirect=True)
#: of a linear network
WEIGHT = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]], "f4")


def needs_checkpoints(kit: Any) -> None:
    """Skip a test that writes the state of a trial where a package is missing for that."""
    if type(kit).__name__ == "SklearnKit":
        pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")


def quiet(*args: Any, **settings: Any) -> delira.Trial:
    """A trial that prints nothing, of seed 0 unless another one is named."""
    return delira.Trial(*args, verbose=0, **{"seed": 0, **settings})


def linear_trial(
    kit: Any, *callbacks: Any, criterion: Any = None, metrics: Any = ("loss",), rate: float = 0.05, **settings: Any
) -> delira.Trial:
    """A trial of a linear network without bias, by gradient descent on the mean squared error or another criterion."""
    net = kit.linear(WEIGHT)
    return quiet(net, kit.sgd(net, rate), criterion or kit.mse, metrics, callbacks, **settings)


def tunable_trial(
    kit: Any, *callbacks: Any, metrics: Any = ("loss",), rate: float = 0.05, **settings: Any
) -> tuple[Any, delira.Trial]:
    """The network of a trial as :func:`linear_trial` makes it, and the trial; its rate may be changed."""
    net = kit.linear(WEIGHT)
    return net, quiet(net, kit.tunable_sgd(net, rate), kit.mse, metrics, callbacks, **settings)


def descend(weight: np.ndarray, batches: Any, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent on the mean squared error of ``x @ weight`` in float64; returns losses and weight."""
    weight, losses = np.asarray(weight, "f8").copy(), []
    for x, y in batches:
        error = x.astype("f8") @ weight - y
        losses.append((error**2).mean())
        weight -= rate * 2 * x.astype("f8").T @ error / error.size
    return np.array(losses), weight


def case(
    number: int,
    *backends: str,
    without: Mapping[str, str] | None = None,
    fails: Mapping[str, str] | None = None,
    only: str = "",
) -> Callable[[Any], Any]:
    """Mark a test as one of an acceptance case; it gets the ``kit`` of each backend.

    Parameters
    ----------
    number
        Of the case in the contract.
    *backends
        Where it runs; all differentiable ones if none is named.
    without
        Backend -> why the case is not for it.
    fails
        Backend -> what is wrong in the library: the test is expected to fail there.
    only
        Why the case is for the named backends alone.
    """
    backends, fails, without = backends or DIFFERENTIABLE, fails or {}, dict(without or {})
    if number not in OF_ESTIMATORS:
        without.setdefault("sklearn", "an estimator learns by itself: no gradients")
    shown = SHOWN[number]
    for backend in KITS:
        if backend in fails:
            shown[backend] = f"not yet: {fails[backend]}"
        elif backend in backends and not shown.get(backend, "").startswith("not yet"):
            shown[backend] = "yes"
        else:
            if reason := without.get(backend, only):
                shown.setdefault(backend, reason)
    params = [
        pytest.param(backend, marks=[pytest.mark.xfail(reason=fails[backend], strict=True)] if backend in fails else [])
        for backend in backends
    ]
    return pytest.mark.parametrize("kit", params, indirect=True)


def build_kit(backend: str) -> Any:
    """The kit of a backend, or a skipped test where its framework is not installed."""
    package, name = KITS[backend]
    pytest.importorskip(package, reason=f"the {backend} backend needs the package {package!r}, which is not installed")
    return getattr(importlib.import_module(f"kit_{backend}"), name)()


def table() -> str:
    """The cases as a table of Markdown, with the reasons below it."""
    backends, reasons = list(KITS), []
    lines = ["| Case | What | " + " | ".join(backends) + " |", "|---|---|" + "---|" * len(backends)]
    for number, title in TITLES.items():
        cells = []
        for backend in backends:
            found = SHOWN[number].get(backend, "no test")
            if found != "yes" and found not in reasons:
                reasons.append(found)
            cells.append("yes" if found == "yes" else f"- ({reasons.index(found) + 1})")
        lines.append(f"| AC-{number} | {title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"{n}. {reason}" for n, reason in enumerate(reasons, 1))])


class Kit:
    """What is the same in each backend.

    A kit has: ``array``, ``numpy``, ``linear`` (``y = x @ weight``), ``module`` (weights by name, and a function of the
    network and its inputs), ``state_module`` (the same, and the state), ``sgd``, ``adam``, ``mse``, ``cross_entropy``
    (with labels), ``weights`` (by name), ``parameters`` (what is differentiated), ``set_weight``, and the operations
    ``norm``, ``sum``, ``exp``, ``relu``, ``softplus``, ``detached``, ``concatenate``, ``sign``, ``clip``.
    """

    def tunable_sgd(self, nets: Any, rate: float) -> Any:
        """Gradient descent whose rate a schedule may change."""
        return self.sgd(nets, rate)  # type: ignore[attr-defined]

    def mlp(self, n_in: int = 2, n_hidden: int = 8, n_out: int = 2, seed: int = 0) -> Any:
        """A network with one hidden layer whose first weights are those of the seed."""
        rng = np.random.default_rng(seed)
        weights = {
            "first": rng.normal(size=(n_in, n_hidden)), "first_bias": rng.normal(size=n_hidden),
            "second": rng.normal(size=(n_hidden, n_out)) / np.sqrt(n_hidden), "second_bias": np.zeros(n_out),
        }  # fmt: skip
        relu = self.relu  # type: ignore[attr-defined]

        def compute(net: Any, x: Any) -> Any:
            return relu(x @ net.first + net.first_bias) @ net.second + net.second_bias

        return self.module(weights, compute)  # type: ignore[attr-defined]
