"""What makes optimizers of a network, and numpy arrays of tensors, in each backend; finders of rates and sizes."""

import numpy as np
from fuzz_cases import Entry
from fuzz_training import BATCH, INPUTS, RATE, TARGETS, network
from fuzz_values import (
    INFINITE,
    NAN,
    NOT_A_BOOL,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_POSITIVE,
    NOT_POSITIVE_INT,
    STRANGE,
)
from small_backends import build_kit

#: backend -> its name in functions of old, what must be installed, and what says how fast it learns
BACKENDS = {
    "torch": ("pytorch", "torch", "lr"),
    "tensorflow": ("tf", "tensorflow", "learning_rate"),
    "jax": ("jax", "flax", "lr"),
}
NO_OPTIMIZER = ["x", 5, NAN, [], {}, STRANGE, None, True, int, len]
NO_NETWORK = ["x", 5, NAN, [], {}, STRANGE, True]
RATES = ["x", [], {}, STRANGE, None, b"x"]


def rate_of(optimizer):
    """The learning rate of an optimizer of any backend; of a pair with its layer, too."""
    optimizer = optimizer[0] if isinstance(optimizer, tuple) else optimizer
    if hasattr(optimizer, "param_groups"):
        return optimizer.param_groups[0]["lr"]
    return float(optimizer.rate if hasattr(optimizer, "rate") else optimizer.learning_rate)


def rates_by_name(optimizers, folder):
    return {name: round(float(rate_of(optimizer)), 6) for name, optimizer in optimizers.items()}


class Pair:
    """Two networks as those of a GAN."""

    def __init__(self, gen, discr):
        self.gen, self.discr = gen, discr


def builder(backend, is_gan):
    """The function that makes one optimizer, or those of a GAN."""
    suffix, needs, rate = BACKENDS[backend]

    def good(folder):
        kit = build_kit(backend)
        model = Pair(kit.build(), kit.build()) if is_gan else kit.build()
        return {"model": model, "optim_cls": kit.optimizer_cls, rate: RATE}

    def expected(arguments):
        given = arguments.get("learning_rate", arguments.get("lr", RATE))
        return {name: round(float(given), 6) for name in (("gen", "discr") if is_gan else ("default",))}

    return Entry(
        name=f"delira.training.create_optims{'_gan' if is_gan else ''}_default_{suffix}",
        good=good,
        use=rates_by_name,
        expected=expected,
        right={rate: [0.5, 1, 0.25], "momentum": [0.5]},
        wrong={
            **({} if suffix == "tf" and not is_gan else {"model": [*NO_NETWORK, None]}),
            "optim_cls": NO_OPTIMIZER,
            rate: [value for value in RATES if value is not None] + [NAN, -1.0, INFINITE],
            "nonsense": [1],
        },
        says={"optim_cls": ["optimizer"], "model": ["network", "weights"], rate: ["learning_rate", "lr", "rate"]},
        free={"model": "the optimizer finds its weights when the trainer is made"} if suffix == "tf" else {},
        needs=needs,
    )


def tensors_of(backend):
    """Makes a tensor of a backend of an array."""

    def make(array):
        if backend == "torch":
            import torch

            return torch.tensor(array, requires_grad=array.dtype.kind == "f")
        if backend == "tensorflow":
            import tensorflow as tf

            return tf.constant(array)
        import jax.numpy as jnp

        return jnp.asarray(array)

    return make


def arrays_of(made, folder):
    """Values and types of what was converted."""
    return described(made)


def described(made):
    positional, named = made
    return [[kind_of(value) for value in positional], {name: kind_of(value) for name, value in named.items()}]


def kind_of(value):
    if isinstance(value, dict):
        return {name: kind_of(part) for name, part in value.items()}
    if isinstance(value, list):
        return [kind_of(part) for part in value]
    is_array = isinstance(value, np.ndarray)
    return (type(value).__name__, str(value.dtype), value.tolist()) if is_array else value


ARRAYS = [np.arange(6.0, dtype=np.float32).reshape(2, 3), np.array([1, 2], np.int32), np.array([True, False])]


def converter(backend):
    suffix = {"torch": "torch_tensor", "tensorflow": "tf_tensor", "jax": "jax_array"}[backend]

    def good(folder):
        make = tensors_of(backend)
        return {"*": [make(ARRAYS[0]), "a text", 5], "named": {"a": [make(ARRAYS[1])]}, "one": make(np.float32(3))}

    def expected(arguments):
        # a single number becomes an array of one
        one = ("ndarray", "float32", [3.0])
        named = arguments["named"]
        nested = {"a": [kind_of(ARRAYS[1])]} if isinstance(named, dict) else named
        positional = [kind_of(np.asarray(value)) if hasattr(value, "shape") else value for value in host(arguments)]
        return [positional, {"named": nested, "one": one}]

    def host(arguments):
        values = arguments["*"]
        return [value.detach().numpy() if hasattr(value, "detach") else value for value in values]

    return Entry(
        name=f"delira.training.convert_{suffix}_to_npy",
        good=good,
        use=arrays_of,
        expected=expected,
        right={
            "*0": [ARRAYS[0], ARRAYS[1], ARRAYS[2], "x", None, 1.5],
            "named": ["x", 5, None],
        },
        needs=BACKENDS[backend][1],
    )


# ---------------------------------------------------------------------- JAX


def linear():
    from flax import nnx

    return nnx.Linear(3, 1, rngs=nnx.Rngs(0))


def of_optax(folder):
    import optax

    return {"module": linear(), "transformation": optax.sgd(RATE)}


def updated(optimizer, folder):
    """How far one update with gradients of ones moves the weights."""
    import jax
    from flax import nnx

    module = optimizer.module
    before = np.asarray(module.kernel.get_value())
    gradients = jax.tree.map(lambda weight: weight * 0 + 1, nnx.state(module, nnx.Param))
    optimizer.update(module, gradients)
    return np.asarray(module.kernel.get_value()) - before


# ---------------------------------------------------------------------- finders


def trial(**changed):
    """A trial on the small problem."""
    import torch

    from delira import Trial

    model = network()
    parts = {"optimizer": torch.optim.SGD(model.parameters(), lr=RATE), "criterion": torch.nn.MSELoss(), **changed}
    made = Trial(model, metrics=["loss"], verbose=0, seed=0, **parts)
    return made.with_train_data(INPUTS, TARGETS, batch_size=BATCH, shuffle=False)


def tried(search, folder):
    """The rates, and the losses at them."""
    return np.concatenate([search.rates, search.losses])


def search_by_hand(arguments):
    """One update at each rate, over and over through the data, until the smoothed loss is far above its lowest."""
    import torch

    rates = np.geomspace(arguments.get("start", 1e-7), arguments.get("end", 10.0), int(arguments.get("steps", 100)))
    smoothing, divergence = arguments.get("smoothing", 0.9), arguments.get("divergence", 4.0)
    model = network()
    losses, smoothed, mean = [], [], 0.0
    for number, rate in enumerate(rates):
        rows = slice(BATCH * (number % 2), BATCH * (number % 2 + 1))
        loss = torch.nn.functional.mse_loss(model(torch.tensor(INPUTS[rows])), torch.tensor(TARGETS[rows]))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= float(rate) * parameter.grad
        losses.append(float(loss.detach()))
        mean = smoothing * mean + (1 - smoothing) * losses[-1]
        smoothed.append(mean / (1 - smoothing ** (number + 1)))
        lowest = min(smoothed)
        if smoothed[-1] > lowest + (divergence - 1) * max(abs(lowest), smoothed[0] - lowest):
            break
    return np.concatenate([rates[: len(losses)], losses])


FINDERS_OF = ["x", 5, NAN, [], {}, STRANGE, None, True]
CURVE = np.array([4.0, 4.0, 3.9, 3.0, 1.0, 0.5, 0.6, 3.0, 9.0, 30.0, 90.0])


def suggested(search, folder):
    """The rate, and that there is a picture."""
    return [search.suggestion, len(search.plot().axes)]


def steepest(arguments):
    """The rate where the line through three neighbours falls the fastest, before the lowest loss."""
    losses, rates = np.asarray(arguments["smoothed"]), np.asarray(arguments["rates"])
    begin, lowest = int(arguments.get("n_unsettled", 0)), int(np.argmin(losses))
    slopes = {place: losses[place + 1] - losses[place - 1] for place in range(begin + 1, lowest)}
    return [float(rates[min(slopes, key=slopes.get)]), 1]


def of_search(folder):
    return {"rates": np.geomspace(1e-4, 1, len(CURVE)), "losses": CURVE, "smoothed": CURVE}


NO_CURVE = ["x", 5, NAN, [], {}, STRANGE, None, True, CURVE[:3], CURVE.reshape(1, -1), CURVE.astype(str)]

ENTRIES = [
    *(builder(backend, is_gan) for backend in BACKENDS for is_gan in (False, True)),
    *map(converter, BACKENDS),
    Entry(
        name="delira.training.JaxOptimizer",
        good=of_optax,
        use=updated,
        expected=lambda arguments: np.full((3, 1), -RATE),
        wrong={"module": [*NO_NETWORK, None], "transformation": NO_OPTIMIZER},
        says={"module": ["no weights"]},
        needs="flax",
    ),
    Entry(
        name="delira.training.finders.find_learning_rate",
        good=lambda folder: {"of": trial(), "end": 0.1, "steps": 5},
        use=tried,
        expected=search_by_hand,
        right={
            "start": [1e-3, 1e-2],
            "end": [1e-4, 100.0],
            "steps": [3, 20, np.int64(4)],
            "smoothing": [0, 0.5],
            "divergence": [1.5, 100],
        },
        wrong={
            "of": FINDERS_OF,
            "data": [[(INPUTS, TARGETS)], 5],
            "start": [*NOT_POSITIVE, 1.0],
            "end": [*NOT_POSITIVE, 1e-8],
            "steps": [*NOT_POSITIVE_INT, 1, 2],
            "smoothing": [*NOT_FINITE, -0.1, 1, 2],
            "divergence": [*NOT_FINITE, 1, 0.5, -1],
        },
        says={"start": ["rates go"], "end": ["rates go"], "of": ["Trial", "trainer"]},
        needs="torch",
        is_slow=True,
    ),
    Entry(
        name="delira.training.finders.find_batch_size",
        good=lambda folder: {"of": trial(), "max_batch_size": 20},
        expected=lambda arguments: arguments["max_batch_size"],
        right={"max_batch_size": [2, 7, np.int64(4)], "start": [1, 20], "steps": [1, 3], "is_exact": [True, False]},
        wrong={
            "of": FINDERS_OF,
            "data": [[(INPUTS, TARGETS)], 5],
            "max_batch_size": [*NOT_POSITIVE_INT, None, 1],
            "start": [*NOT_POSITIVE_INT, 21],
            "steps": NOT_POSITIVE_INT,
            "is_exact": NOT_A_BOOL,
        },
        says={"of": ["Trial", "trainer"]},
        needs="torch",
        is_slow=True,
    ),
    Entry(
        name="delira.training.finders.RateSearch",
        good=of_search,
        use=suggested,
        expected=steepest,
        right={"n_unsettled": [0, 1], "losses": [CURVE * 2]},
        wrong={
            "rates": NO_CURVE,
            "losses": NO_CURVE,
            "smoothed": NO_CURVE,
            "n_unsettled": [*NOT_A_NUMBER, NAN, -1, 1.5],
        },
        says={"smoothed": ["rates, losses"], "losses": ["rates, losses"], "rates": ["rates, losses"]},
    ),
]
