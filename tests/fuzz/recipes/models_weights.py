"""Networks of one's own, their weights by name, and weights that go from one backend to another."""

import numpy as np
from fuzz_cases import Entry
from fuzz_names import resolve
from fuzz_networks import BACKENDS, OUTPUTS, WEIGHT, filled, linear, outputs_of, weights_of
from fuzz_values import INFINITE, NAN, NOT_A_BOOL, NOT_A_MAPPING, STRANGE, Fresh

from delira.models import AbstractNetwork, load_named_weights, named_weights

NO_NETWORK = [5, None, "x", NAN, [], {}, STRANGE, dict, AbstractNetwork, b"x", np.zeros(2)]
#: what a user's own arguments may be
ARGUMENTS = [1, 0.5, None, "x", True, [1, 2], {"a": 1}, (), range(3)]


class Own(AbstractNetwork):
    """A network of no backend."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


def own_arguments(network, folder):
    """What it keeps of the arguments that it was built with."""
    return dict(network.init_kwargs)


def computed_and_kept(network, folder):
    """What it predicts, and what it keeps of its arguments."""
    return outputs_of(network).tolist(), dict(network.init_kwargs)


def as_lists(weights, folder):
    """Weights in the order of their names."""
    return {name: (array.dtype.name, array.tolist()) for name, array in sorted(weights.items())}


def own_network(backend):
    return Entry(
        name=f"delira.models.Abstract{backend}Network",
        good=lambda folder: {"note": 1},
        make=lambda backend=backend, **kwargs: filled(backend, **kwargs),
        use=computed_and_kept,
        expected=lambda arguments: (OUTPUTS.tolist(), arguments),
        right={"note": ARGUMENTS},
        free={"optimize": "historic, of no effect"},
        needs=BACKENDS[backend],
    )


def prepared(backend):
    """Kinds of numbers that a batch is prepared to: "data" in single precision, doubles too, integers as they are."""
    kinds = {"data": "float32", "label": "int64", "weight": "float32", "mask": "bool"}
    kinds |= {"label": "int32"} if backend == "Jax" else {}
    kinds |= dict.fromkeys(("label", "mask"), "float32") if backend == "TorchScript" else {}

    def prepare(data, label):
        batch = {"data": data, "label": label, "weight": np.ones(2), "mask": np.array([True, False]), "file": "a.png"}
        made = linear(backend).prepare_batch(batch, "cpu", "cpu")
        assert made.pop("file") == "a.png"
        arrays = {name: np.asarray(value) for name, value in made.items()}
        return {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()}

    def by_hand(arguments):
        values = {**arguments, "weight": [1, 1], "mask": [1, 0]}
        return {name: (kind, np.asarray(values[name], kind).tolist()) for name, kind in kinds.items()}

    return Entry(
        name=f"delira.models.Abstract{backend}Network#prepare_batch",
        good=lambda folder: {"data": np.array([[0.5, 2], [1, 4]]), "label": np.array([1, 2])},
        make=prepare,
        expected=by_hand,
        right={
            "data": [
                np.array([[1, 2], [3, 4]]),
                np.array([True, False]),
                np.array([[1.5, 2]], ">f8"),
                np.ones((3, 4))[:, ::-2],
                np.array([1, 2], np.uint8),
                np.array([0.5], np.float16),
                np.array([NAN, INFINITE])[1:],
                [[0.5, 1.0]],
            ],
        },
        wrong={"data": [np.array([1 + 1j, 2])], "label": [np.array([2**40, 1])] if backend == "Jax" else []},
        says={"data": ["complex"]},
        needs=BACKENDS[backend],
    )


def with_backend(backend):
    """Weights of a network of one backend by name."""
    own = weights_of(backend)
    first = next(iter(own))
    rest = {name: array for name, array in own.items() if name != first}
    other_name = first.replace("linear", "liner")
    yield Entry(
        name=f"delira.models.named_weights#{backend}",
        good=lambda folder: {"network": filled(backend)},
        use=as_lists,
        expected=lambda arguments: as_lists(own, None),
        wrong={"network": NO_NETWORK},
        says={"network": ["belongs to no backend"]},
        needs=BACKENDS[backend],
    )
    yield Entry(
        name=f"delira.models.load_named_weights#{backend}",
        good=lambda folder: {"network": linear(backend), "weights": own},
        make=lambda network, weights: load_named_weights(network, weights) or network,
        use=lambda network, folder: as_lists(named_weights(network), folder),
        expected=lambda arguments: as_lists(arguments["weights"], None),
        right={"weights": [{name: array * 0.5 for name, array in own.items()}]},
        wrong={
            "network": NO_NETWORK,
            "weights": [
                *NOT_A_MAPPING,
                None,
                {},
                rest,
                {**rest, other_name: own[first]},
                {**own, "head.weight": WEIGHT},
                {**own, 5: WEIGHT},
                {**own, first: own[first].T},
                {**own, first: own[first].ravel()},
                {**own, first: own[first][..., :1]},
                {**own, first: own[first].astype(np.float64)},
                {**own, first: own[first].astype(int)},
                {**own, first: own[first].tolist()},
                {**own, first: own[first].astype(object)},
                {**own, first: 0.5},
                {**own, first: None},
                {**own, first: "x"},
            ],
        },
        says={"network": ["belongs to no backend"], "weights": ["weights do not fit", first]},
        needs=BACKENDS[backend],
    )


# ------------------------------------------------------------------ from one backend to another


def transfer(**arguments):
    """Transfer the weights, and give what the destination computes then."""
    from delira.models import transfer_weights

    transfer_weights(**arguments)
    return outputs_of(arguments["dst"])


def between(source, target):
    return Entry(
        name=f"delira.models.transfer_weights#{source} to {target}",
        good=lambda folder: {"src": filled(source), "dst": linear(target)},
        make=transfer,
        expected=lambda arguments: OUTPUTS,
        right={
            "mapping": [None, {}, {"linear": "linear"}, {"linear.weight": "linear.weight"}],
            "flattened": [{"linear": (3, 1, 1)}, {"linear": (1, 3)}, {}],
            "check_settings": [False],
        },
        wrong={
            "src": NO_NETWORK,
            "dst": NO_NETWORK,
            "mapping": [
                *NOT_A_MAPPING,
                {"liner": "linear"},
                {"linear": "liner"},
                {"linear.weight": "linear.bias"},
                {"linear": 5},
                {5: "linear"},
                {"linear": None},
                {"": "linear"},
            ],
            "flattened": [
                *NOT_A_MAPPING,
                {"liner": (3, 1, 1)},
                {"linear": (2, 2, 1)},
                {"linear": 3},
                {"linear": "3"},
                {"linear": (1.5, 2)},
                {"linear": (-3, -1)},
                {"linear": ()},
                {"linear": None},
                {5: (3, 1, 1)},
            ],
            "check_settings": NOT_A_BOOL,
        },
        says={
            "src": ["belongs to no backend"],
            "dst": ["belongs to no backend"],
            "mapping": ["the destination has nothing that takes", "the source has no", "of the source is"],
        },
        needs=(BACKENDS[source], BACKENDS[target]),
    )


# ------------------------------------------------------------------ a U-Net by numpy

IMAGE = np.random.default_rng(2).normal(size=(2, 4, 6)).astype(np.float32)


def convolved(image, weights, name):
    """A padded convolution, channels first, in double precision."""
    kernel = weights[f"{name}.weight"].astype(float)
    around = kernel.shape[-1] // 2
    wide = np.pad(image, ((0, 0), (around, around), (around, around)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel.shape[2:], axis=(1, 2))
    return np.einsum("chwij,ocij->ohw", windows, kernel) + weights[f"{name}.bias"][:, None, None]


def doubled(image, weights, name, mode):
    """Twice the resolution."""
    if mode == "upsample":
        return np.kron(convolved(image, weights, name), np.ones((1, 2, 2)))
    kernel, bias = weights[f"{name}.weight"].astype(float), weights[f"{name}.bias"]
    apart = np.einsum("chw,coij->ohiwj", image, kernel)
    return apart.reshape(len(bias), 2 * image.shape[1], 2 * image.shape[2]) + bias[:, None, None]


def unet_by_hand(network, up_mode, merge_mode):
    """Two levels: down, up, and the level of full resolution beside what comes up."""
    weights = {name.removeprefix("module."): array for name, array in named_weights(network).items()}

    def both(image, name):
        for layer in ("conv1", "conv2"):
            image = np.maximum(convolved(image, weights, f"{name}.{layer}"), 0)
        return image

    first = both(IMAGE.astype(float), "down_convs.0")
    n_channels, height, width = first.shape
    pooled = first.reshape(n_channels, height // 2, 2, width // 2, 2).max((2, 4))
    up = doubled(both(pooled, "down_convs.1"), weights, "up_convs.0.upconv", up_mode)
    merged = np.concatenate([up, first]) if merge_mode == "concat" else up + first
    return convolved(both(merged, "up_convs.0"), weights, "conv_final")[None]


def unet(backend, **more):
    """A small one, with the weights that it starts with."""
    sizes = {"num_classes": 3, "in_channels": 2, "depth": 2, "start_filts": 2}
    return resolve(f"delira.models.UNet2d{backend}")(**{**sizes, **more})


def transfer_unet(**arguments):
    """Transfer the weights, and give what the destination makes of an image."""
    resolve("delira.models.transfer_weights")(**arguments)
    return outputs_of(arguments["dst"], IMAGE[None]).astype(float)


def between_unets(target, up_mode, merge_mode):
    modes = {"up_mode": up_mode, "merge_mode": merge_mode}
    other = [{"start_filts": 3}, {"depth": 1}, {"depth": 3}, {"in_channels": 1}, {"num_classes": 2}]
    return Entry(
        name=f"delira.models.transfer_weights#UNet, {up_mode}, {merge_mode}, to {target}",
        good=lambda folder: {"src": unet("PyTorch", **modes), "dst": unet(target, **modes)},
        make=transfer_unet,
        expected=lambda arguments: unet_by_hand(arguments["src"], **modes),
        wrong={"dst": [Fresh(str(more), lambda more=more: unet(target, **{**modes, **more})) for more in other]},
        says={"dst": ["do not fit", "cannot be transferred"]},
        needs=(BACKENDS["PyTorch"], BACKENDS[target]),
        is_slow=True,
    )


ENTRIES = [
    Entry(
        name="delira.models.AbstractNetwork",
        good=lambda folder: {"note": 1},
        make=Own,
        use=own_arguments,
        expected=lambda arguments: arguments,
        right={"note": ARGUMENTS},
    ),
    *map(own_network, BACKENDS),
    *map(prepared, BACKENDS),
    *(entry for backend in BACKENDS for entry in with_backend(backend)),
    *(between(source, target) for source in ("PyTorch", "Jax") for target in BACKENDS),
    *(
        between_unets(target, *modes)
        for modes in (("transpose", "concat"), ("transpose", "add"), ("upsample", "concat"))
        for target in BACKENDS
    ),
]
