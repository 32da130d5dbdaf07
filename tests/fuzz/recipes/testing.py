"""What backends are tested with: the toy backend in plain numpy, and the specification."""

import numpy as np
from fuzz_cases import Entry
from fuzz_values import (
    NAN,
    NOT_A_BOOL,
    NOT_A_SHARE,
    NOT_A_TEXT,
    NOT_CALLABLE,
    NOT_NEGATIVE_OR_ZERO,
    NOT_POSITIVE_INT,
    STRANGE,
    Fresh,
)
from spec_backends.toy import ToyUnderTest

from delira.contract.backend import place_of
from delira.testing import BackendUnderTest, ToyBackend, ToyNetwork, ToySGD, ToyTrainer, check_backend
from delira.testing.spec import FEATURES

RANDOM = np.random.default_rng(5)
PREDICTION, TARGET = RANDOM.normal(size=(4, 1)), RANDOM.normal(size=(4, 1))
NO_ARRAYS = ["x", NAN, None, [], {}, STRANGE, [["a"]], np.zeros(0), np.zeros((4, 1), complex), b"x"]
NO_BACKENDS = ["x", 5, NAN, None, [], {}, True, STRANGE, ToyUnderTest, BackendUnderTest, ToyTrainer, ToyBackend()]
#: a check that takes no time
FAST = "seeds-seeds_the_framework"


def hand_error(arguments):
    """The mean squared error, number by number."""
    flat = zip(np.ravel(arguments["prediction"]).tolist(), np.ravel(arguments["target"]).tolist(), strict=True)
    differences = [float(one) - float(other) for one, other in flat]
    return sum(difference**2 for difference in differences) / len(differences)


def steps(optimizer, folder):
    """The weight after three steps."""
    for gradient in GRADIENTS:
        optimizer.apply(gradient)
    return optimizer.weight


GRADIENTS = [np.array([1.0, -2.0]), np.array([0.5, 0.0]), np.array([-3.0, 1.0])]


def hand_steps(arguments):
    """The same with Python's numbers, one weight after the other."""
    weights = []
    for index, weight in enumerate([0.5, -1.5]):
        velocity = 0.0
        for gradient in GRADIENTS:
            velocity = arguments.get("momentum", 0.0) * velocity + float(gradient[index])
            weight -= arguments.get("lr", 0.1) * velocity
        weights.append(weight)
    return np.array(weights)


INPUTS = np.arange(1.0, 11.0)


def predicted(network, folder):
    """What the network makes of one sample, with known weights."""
    network.weight[...] = np.arange(len(network.weight)).reshape(-1, 1)
    return network(INPUTS[None, : len(network.weight)])["pred"].item()


def hand_predicted(arguments):
    return sum(index * INPUTS[index] for index in range(arguments.get("n_features", 3)))


def of_verb(verb, good, expected=None, use=None, **cases):
    """One verb of the toy backend; parameters are positions."""

    def ask(*arguments):
        role, _, name = place_of(verb).partition(".")
        return getattr(getattr(ToyBackend(), role), name)(*arguments)

    return Entry(
        name=f"delira.testing.ToyBackend#{verb}",
        good=lambda folder: {"*": good()},
        make=ask,
        expected=expected,
        use=use or (lambda got, folder: got),
        **cases,
    )


def drawn(backend, seed):
    backend.generators.seed(seed)
    kept = backend.generators.state()
    backend.generator.random(5)
    backend.generators.set_state(kept)
    return backend.generator.random(3)


def kit(**attributes):
    """The toy, filled in otherwise."""
    return type("Backend", (ToyUnderTest,), attributes)()


def checked(**attributes):
    """How many checks of an area the backend passes."""
    return check_backend(kit(**attributes), FAST).counts["passed"]


def with_weight(weight):
    """A network of these weights."""
    network = ToyNetwork(len(weight))
    network.weight = weight
    return network


LAYER = np.array([[0.5], [-1.0], [2.0]])

ENTRIES = [
    Entry(
        name="delira.testing.mean_squared_error",
        good=lambda folder: {"prediction": PREDICTION, "target": TARGET},
        expected=hand_error,
        right={
            "prediction": [np.zeros((4, 1)), np.arange(4, dtype=np.uint8).reshape(4, 1), np.eye(4, 1, dtype=bool)],
            "target": [np.ones((4, 1), np.float32), np.full((4, 1), 250, np.uint8)],
        },
        wrong={
            "prediction": [*NO_ARRAYS, PREDICTION.ravel(), PREDICTION[:3], PREDICTION.T],
            "target": [*NO_ARRAYS, TARGET.ravel(), TARGET[:1], 5],
        },
    ),
    Entry(
        name="delira.testing.ToySGD",
        good=lambda folder: {"weight": np.array([0.5, -1.5])},
        use=steps,
        expected=hand_steps,
        right={"lr": [0, 1, 0.25, np.float32(0.5)], "momentum": [0, 0.9, 1]},
        wrong={
            "weight": ["x", 5, NAN, None, [], [0.5], STRANGE, np.array([1, 2]), np.array(["a"])],
            "lr": [*NOT_NEGATIVE_OR_ZERO, None, True],
            "momentum": [*NOT_NEGATIVE_OR_ZERO, None, True],
        },
    ),
    Entry(
        name="delira.testing.ToyNetwork",
        good=lambda folder: {"n_features": 3},
        use=predicted,
        expected=hand_predicted,
        right={"n_features": [1, 2, 7, np.int64(4)], "dropout": [0, 0.5, 1]},
        wrong={"n_features": [*NOT_POSITIVE_INT, None], "dropout": [*NOT_A_SHARE, None, True]},
    ),
    of_verb(
        "devices",
        lambda: [(), None],
        expected=lambda arguments: ("cpu", "cpu"),
        right={"*1": ["cpu", "auto"]},
        wrong={"*0": [[0], (0, 1)], "*1": ["cuda", "nonsense", "gpu", 5, ""]},
        says={"*0": ["gpu_ids"]},
    ),
    of_verb(
        "read_scalars",
        lambda: [[1.5, np.float32(2), np.ones((1, 1))]],
        expected=lambda arguments: np.array([float(np.ravel(value)[0]) for value in arguments["*"][0]]),
        right={"*0": [[], [3, True], [NAN, np.inf]]},
        wrong={"*0": [[np.zeros(2)], [1, np.zeros((2, 1))], [np.zeros(0)]]},
        says={"*0": ["has the shape"]},
    ),
    of_verb(
        "average",
        lambda: [{"weight": LAYER}, with_weight(LAYER * 3), 0.75],
        expected=lambda arguments: [
            arguments["*"][2] * one + (1 - arguments["*"][2]) * 3 * one for one in LAYER.ravel().tolist()
        ],
        use=lambda got, folder: got["weight"].ravel().tolist(),
        right={"*2": [0, 1, 0.5]},
    ),
    of_verb(
        "load_named_weights",
        lambda: [ToyNetwork(3), {"weight": LAYER}],
        expected=lambda arguments: None,
        wrong={"*1": [{}, {"weight": LAYER[:2]}, {"wieght": LAYER}, {"weight": LAYER, "b": LAYER}]},
        says={"*1": ["weight"]},
    ),
    of_verb(
        "load_state_tree",
        lambda: [{"model": {"weight": LAYER}, "optimizer": {}}, ToyNetwork(3), {}],
        expected=lambda arguments: None,
        right={"*2": [{}]},
        wrong={"*0": [{}, {"model": {}}, {"model": {"weight": LAYER[:1]}}], "*2": [{"default": ToySGD(LAYER.copy())}]},
        says={"*0": ["weight"], "*2": ["'default'"]},
    ),
    Entry(
        name="delira.testing.ToyBackend#seed",
        good=lambda folder: {"seed": 3},
        make=lambda seed: drawn(ToyBackend(), seed),
        expected=lambda arguments: np.random.default_rng(arguments["seed"]).random(3),
        right={"seed": [0, 7, 2**63 - 1]},
    ),
    Entry(
        name="delira.testing.check_backend",
        good=lambda folder: {"tested": ToyUnderTest(), "only": FAST},
        use=lambda report, folder: [str(outcome.check) for outcome in report],
        expected=lambda arguments: [FAST],
        right={"only": [[FAST], lambda check: str(check) == FAST], "raises": [False]},
        wrong={
            "tested": [*NO_BACKENDS, Fresh("BackendUnderTest()", BackendUnderTest)],
            "only": ["nonsense", "", [], ["nonsense"], 5, NAN, STRANGE, True, [5], {}, lambda check: False],
            "raises": NOT_A_BOOL,
        },
        own=["only"],
        says={"tested": ["BackendUnderTest", "takes an instance"]},
    ),
    Entry(
        name="delira.testing.BackendUnderTest",
        good=lambda folder: {"rtol": 1e-12},
        make=checked,
        expected=lambda arguments: 1,
        right={"rtol": [1e-3, 0.5], "name": ["other"], "transposed": [True]},
        wrong={
            "name": [*NOT_A_TEXT, "", None],
            "trainer_cls": [*NOT_CALLABLE, None, ToyNetwork, ToyTrainer.backend],
            "experiment_cls": [*NOT_CALLABLE, None],
            "Linear": [*NOT_CALLABLE, None],
            "rtol": [*NOT_NEGATIVE_OR_ZERO, None, True],
            "transposed": [*NOT_A_BOOL, None],
            "exports": ["onnx", 5, None, [5], STRANGE],
            "lacks": [5, None, ["bias"], "bias", STRANGE, {"nonsense": "why"}, {"bias": 5}, {5: "why"}],
        },
        says={"lacks": ["features are"]},
    ),
    Entry(
        name="delira.testing.spec.Check",
        good=lambda folder: {
            "area": "fuzz",
            "name": "a_check",
            "promise": "It passes.",
            "function": lambda bench: None,
            "needs": (),
        },
        use=lambda check, folder: (str(check), check.run(ToyUnderTest())[0]),
        expected=lambda arguments: (
            f"{arguments['area']}-{arguments['name']}",
            "passed" if not set(arguments["needs"]) & {"bias", "adam"} else "not offered",
        ),
        right={"area": ["b"], "name": ["c"], "promise": ["Other."], "needs": [("named_weights",), ["bias"], ("adam",)]},
        wrong={
            "area": [*NOT_A_TEXT, "", None],
            "name": [*NOT_A_TEXT, "", None],
            "promise": [*NOT_A_TEXT, "", None],
            "function": [*NOT_CALLABLE, None],
            "needs": ["bias", 5, None, ("nonsense",), (5,), STRANGE, {next(iter(FEATURES)): 1}],
        },
        own=["function"],
    ),
]
