"""Ready networks of every backend: weights counted by hand, and the shapes of what they make of images."""

import itertools
import math

import numpy as np
from fuzz_cases import Entry
from fuzz_names import resolve
from fuzz_networks import BACKENDS
from fuzz_values import INFINITE, NAN, NOT_A_COUNT, NOT_A_TEXT, STRANGE

from delira.errors import DataError

SIZES = ["x", "3", [], {}, (1, 2), 1.5, NAN, INFINITE, np.float32(2), np.ones(2), STRANGE, 0, -1, True, False, None, 1j]


# ------------------------------------------------------------------ what a network has


def tensor_of(images, backend):
    """Images as the network of a backend takes them."""
    images = np.asarray(images, dtype=np.float32)
    if BACKENDS[backend] == "torch":
        import torch

        return torch.from_numpy(images)
    if backend == "Tf":
        import tensorflow

        return tensorflow.convert_to_tensor(images)
    import jax.numpy

    return jax.numpy.asarray(images)


def learned_count(network, backend):
    """How many numbers a network learns."""
    if BACKENDS[backend] == "torch":
        return sum(weight.numel() for weight in network.parameters())
    if backend == "Tf":
        return sum(math.prod(variable.shape) for variable in network.trainable_variables)
    import jax
    from flax import nnx

    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(network, nnx.Param)))


def shapes_of(network, images, backend):
    """Shapes of all outputs by name; nothing is computed where that can be told from shapes."""
    x = tensor_of(images, backend)
    if backend == "Jax":
        from flax import nnx

        made = nnx.eval_shape(lambda network, x: network(x), network, x)
    else:
        made = network(x) if backend != "TorchScript" else called(network, x)
    return {name: tuple(value.shape) for name, value in made.items()}


def called(script, x):
    """What a script makes; TorchScript has one class of errors, and carries the name and text of others."""
    import torch

    try:
        return script(x)
    except torch.jit.Error as error:
        if "delira.errors.DataError" not in str(error):
            raise
        raise DataError(str(error)) from error


def prepared_label(network, label):
    """Kind and values of what a network makes of the labels of a batch."""
    prepared = network.prepare_batch({"data": np.zeros((2, 1)), "label": label}, "cpu", "cpu")
    return kind_and_values(np.asarray(prepared["label"]))


def kind_and_values(label):
    """What is compared."""
    return label.dtype.kind, label.tolist()


# ------------------------------------------------------------------ labels by hand


def class_numbers(label):
    label = np.asarray(label)
    return (label[:, 0] if label.ndim == 2 and label.shape[1] == 1 else label).astype(int)


def values(label):
    return np.asarray(label, dtype=np.float32).reshape(len(label), -1)


def masks(n_axes):
    def by_hand(label):
        if label.ndim < n_axes + 2:
            return label.astype(int)
        return label[:, 0].astype(int) if label.shape[1] == 1 else label.astype(np.float32)

    return by_hand


NO_CLASSES = [np.array(wrong) for wrong in ([0.9, 1], [NAN, 1], [INFINITE, 1], [[0.5], [1]], [1e-3, 0])]
CLASSES = [np.array(right) for right in ([0, 2], [[1], [0]], [0.0, 3.0], [True, False])]
CLASSES += [np.array([1, 0], np.uint8), np.array([[2.0], [1]], np.float32)]


# ------------------------------------------------------------------ numbers of weights by hand


def layer(channels_in, channels_out, kernel, extra=1):
    """A layer with a bias (``extra`` 1), without one (0), with batch normalisation instead (2)."""
    return channels_in * channels_out * kernel + extra * channels_out


def residual(arguments):
    width, before = arguments["start_filts"], arguments["start_filts"]
    total = layer(arguments["in_channels"], width, 49, 2)
    for factor in (1, 2, 4, 8):
        after = width * factor
        total += layer(before, after, 9, 2) + 3 * layer(after, after, 9, 2)
        total += layer(before, after, 1, 2) if before != after else 0
        before = after
    return total + layer(before, arguments["n_outputs"], 1)


def vgg(arguments):
    width, before, total = arguments["start_filts"], arguments["in_channels"], 0
    for factor in (1, 2, 4, 4, 8, 8, 8, 8):
        total += layer(before, width * factor, 27, 2)
        before = width * factor
    return total + layer(before, before, 1) + layer(before, arguments["n_outputs"], 1)


def unet(arguments, n_axes):
    width, before, total = arguments["start_filts"], arguments["in_channels"], 0
    depth = arguments["depth"]
    for level in range(depth):
        after = width * 2**level
        total += layer(before, after, 3**n_axes) + layer(after, after, 3**n_axes)
        before = after
    doubled = 1 if arguments.get("up_mode") == "upsample" else 2**n_axes
    for level in reversed(range(depth - 1)):
        after = width * 2**level
        merged = after if arguments.get("merge_mode") == "add" else 2 * after
        total += layer(2 * after, after, doubled) + layer(merged, after, 3**n_axes) + layer(after, after, 3**n_axes)
    return total + layer(width, arguments["num_classes"], 1)


def residual_unet(arguments, n_axes):
    """With two units on each level on the way down, and as many levels as there are channels."""
    channels, before = arguments["channels"], arguments["in_channels"]
    strides = arguments.get("strides", 2)
    steps = strides if isinstance(strides, list) else [strides] * (len(channels) - 1)
    total = 0
    for width in channels:
        total += layer(before, width, 3**n_axes, 2) + 3 * layer(width, width, 3**n_axes, 2)
        total += layer(before, width, 1, 2) if before != width else 0
        before = width
    for (width, deeper), step in zip(itertools.pairwise(channels), steps, strict=True):
        total += layer(deeper, width, math.prod(np.broadcast_to(step, n_axes).tolist()))
        total += (
            layer(2 * width, width, 3**n_axes, 2) + layer(width, width, 3**n_axes, 2) + layer(2 * width, width, 1, 2)
        )
    heads = channels[: 1 + arguments.get("deep_supervision", 0)]
    return total + sum(layer(width, arguments["num_classes"], 1) for width in heads)


def dcgan(arguments):
    width, channels = arguments["start_filts"], arguments["n_channels"]
    generator = [arguments["noise_length"], 8 * width, 4 * width, 2 * width, width]
    discriminator = [width, 2 * width, 4 * width, 8 * width]
    pairs = [*itertools.pairwise(generator), *itertools.pairwise(discriminator)]
    plain = [(width, channels), (channels, width), (8 * width, 1)]
    return sum(layer(*pair, 16, 2) for pair in pairs) + sum(layer(*pair, 16, 0) for pair in plain)


def autoencoder(arguments):
    width, channels, latent = arguments["start_filts"], arguments["in_channels"], arguments["latent_dim"]
    pixels = 2 * width * math.prod(length // 4 for length in image_size(arguments))
    convolutions = [(channels, width), (width, 2 * width), (2 * width, width), (width, channels)]
    return sum(layer(*pair, 16) for pair in convolutions) + 2 * layer(pixels, latent, 1) + layer(latent, pixels, 1)


def image_size(arguments):
    """Height and width."""
    return np.broadcast_to(arguments["image_size"], 2).tolist()


# ------------------------------------------------------------------ entries


def entries_of(name, good, count, *, right, wrong=None, images=None, outputs=None, bad_images=(), labels=None, slow=()):
    """Entries of one ready network in all backends: how it is built, and which images it takes.

    Parameters
    ----------
    name
        Of the class, without the backend.
    good
        Arguments of a small one.
    count
        Number of learned weights, of the arguments.
    right, wrong
        As of entries; what is not in ``wrong`` is a size.
    images, outputs, bad_images
        Shape of a batch, shapes of the outputs, and shapes of batches that are refused.
    labels
        What is made of labels, by hand, and labels that are right and wrong; ``None``: nothing.
    slow
        Backends that take more than a tenth of a second.
    """
    sizes = dict.fromkeys(good, SIZES)
    for backend, needs in BACKENDS.items():
        full = f"delira.models.{name}{backend}"
        is_slow = backend in slow
        yield Entry(
            name=full,
            good=lambda folder: dict(good),
            use=lambda network, folder, backend=backend: learned_count(network, backend),
            expected=count,
            right=right,
            wrong={**sizes, **(wrong or {})},
            needs=needs,
            is_slow=is_slow,
        )
        yield Entry(
            name=f"{full}#images",
            good=lambda folder: {"images": np.zeros(images)},
            make=lambda images, backend=backend, full=full: shapes_of(network_of(full, good), images, backend),
            expected=lambda arguments: outputs,
            wrong={"images": [np.zeros(shape) for shape in bad_images]},
            says={"images": ["channels", "pixels", "shape"]},
            needs=needs,
            is_slow=is_slow or backend == "TorchScript",
        )
        if labels is not None:
            yield Entry(
                name=f"{full}#labels",
                good=lambda folder: {"label": labels[1][0]},
                make=lambda label, full=full: prepared_label(resolve(full), label),
                expected=lambda arguments: kind_and_values(labels[0](arguments["label"])),
                right={"label": labels[1][1:]},
                wrong={"label": labels[2]},
                needs=needs,
            )


def network_of(name, arguments):
    """The network, built."""
    return resolve(name)(**arguments)


def whole_image(name, count, n_axes, labels, slow):
    side = 8
    return entries_of(
        name,
        {"in_channels": 2, "n_outputs": 3, "start_filts": 1},
        count,
        right={"in_channels": [1, np.int64(3)], "n_outputs": [1, np.int32(2)], "start_filts": [2]},
        images=(2, 2, *[side] * n_axes),
        outputs={"pred": (2, 3)},
        bad_images=wrong_shapes(2, n_axes, side),
        labels=labels,
        slow=slow,
    )


def wrong_shapes(channels, n_axes, side):
    """Batches with other channels, with the channels last, and with an axis too few or too many."""
    return [
        (2, channels + 1, *[side] * n_axes),
        (2, *[side] * n_axes, channels),
        (2, channels, *[side] * (n_axes - 1)),
        (2, channels, *[side] * (n_axes + 1)),
        (channels, *[side] * n_axes),
        (2, channels),
    ]


def perceptron(slow):
    return entries_of(
        "MultilayerPerceptron",
        {"n_features": 4, "n_outputs": 3, "hidden": [5, 2]},
        lambda arguments: sum(layer(*pair, 1) for pair in itertools.pairwise(perceptron_sizes(arguments))),
        right={
            "n_features": [1, np.int64(3)],
            "n_outputs": [1],
            "hidden": [7, (), (2,), np.int64(3), np.array([3, 4])],
        },
        wrong={"hidden": ["x", "3", {}, 1.5, NAN, STRANGE, 0, -1, True, None, 1j, [2, 0], [1.5], ["2"]]},
        images=(2, 4),
        outputs={"pred": (2, 3)},
        slow=slow,
    )


def perceptron_sizes(arguments):
    """Sizes of all layers, the first and the last among them."""
    return [arguments["n_features"], *np.atleast_1d(arguments["hidden"]).astype(int).tolist(), arguments["n_outputs"]]


def segmentation(n_axes, slow):
    side = 4
    return entries_of(
        f"UNet{n_axes}d",
        {"num_classes": 3, "in_channels": 2, "depth": 2, "start_filts": 2},
        lambda arguments: unet(arguments, n_axes),
        right={
            "num_classes": [1, np.int64(2)],
            "in_channels": [1],
            "depth": [1, 3],
            "start_filts": [1],
            "up_mode": ["upsample", "transpose"],
            "merge_mode": ["add"],
        },
        wrong={
            "up_mode": [*NOT_A_TEXT, "", "upsampling", None],
            "merge_mode": [*NOT_A_TEXT, "", "concatenate", None],
        },
        images=(2, 2, *[side] * n_axes),
        outputs={"pred": (2, 3, *[side] * n_axes)},
        bad_images=[*wrong_shapes(2, n_axes, side), (2, 2, *[1] * n_axes)],
        labels=(masks(n_axes), masks_of(n_axes), [mask * 0.5 for mask in masks_of(n_axes)[:2]]),
        slow=slow,
    )


def residual_segmentation(n_axes, slow):
    side = 5
    return entries_of(
        f"ResidualUNet{n_axes}d",
        {"num_classes": 3, "in_channels": 2, "channels": (2, 3, 4)},
        lambda arguments: residual_unet(arguments, n_axes),
        right={
            "num_classes": [1, np.int64(2)],
            "in_channels": [1],
            "channels": [[3, 4], (2, 3, 4, 5)],
            "strides": [1, np.int64(3), [2, 1], [(1, 2, 2)[-n_axes:], 2]],
            "norm": ["batch"],
            "deep_supervision": [1],
        },
        wrong={
            "channels": [*CHANNELS, None],
            "strides": [*CHANNELS, None, 0, -1, True, [2, 2, 2], [2, (2, 2, 2, 2)], [2, "2"], [0, 2]],
            "norm": [*NOT_A_TEXT, "", "group", None],
            "deep_supervision": [*NOT_A_COUNT, 2],
        },
        images=(2, 2, *[side] * n_axes),
        outputs={"pred": (2, 3, *[side] * n_axes)},
        bad_images=[*wrong_shapes(2, n_axes, side), (2, 2, *[4] * n_axes)],
        labels=(masks(n_axes), masks_of(n_axes), [mask * 0.5 for mask in masks_of(n_axes)[:2]]),
        slow=slow,
    )


CHANNELS = ["x", "234", [], {}, {2, 3}, (1.5, 2), (2, NAN), (2, 0), [2, True], [2, None], 1.5, NAN, STRANGE, 1j]


def masks_of(n_axes):
    """Masks of two samples: without channels, with one and with two of them, in several types."""
    whole = np.arange(2 * 2 * 3**n_axes).reshape(2, 2, *[3] * n_axes) % 3
    return [whole[:, 0], whole[:, :1], whole, whole[:, 0].astype(np.float32), whole[:, :1] > 0, whole / 2]


SLOW = ("Tf", "Jax")
ENTRIES = [
    *whole_image("ClassificationNetworkBase", residual, 2, (class_numbers, CLASSES, NO_CLASSES), SLOW),
    *whole_image("RegressionNetworkBase", residual, 2, (values, [*CLASSES, np.array([0.5, -0.25])], []), SLOW),
    *whole_image("VGG3DClassificationNetwork", vgg, 3, (class_numbers, CLASSES, NO_CLASSES), SLOW),
    *perceptron(SLOW),
    *segmentation(2, SLOW),
    *segmentation(3, SLOW),
    *residual_segmentation(2, SLOW),
    *residual_segmentation(3, SLOW),
    *entries_of(
        "GenerativeAdversarialNetworkBase",
        {"n_channels": 2, "noise_length": 3, "start_filts": 1},
        dcgan,
        right={"n_channels": [1, np.int64(3)], "noise_length": [1, np.int64(2)], "start_filts": [2]},
        images=(2, 2, 64, 64),
        outputs={"fake_images": (2, 2, 64, 64), "discr_fake": (2, 1), "discr_real": (2, 1)},
        bad_images=[*wrong_shapes(2, 2, 64), (2, 2, 32, 32), (2, 2, 64, 65)],
        slow=SLOW,
    ),
    *entries_of(
        "VariationalAutoencoder",
        {"in_channels": 2, "image_size": 8, "latent_dim": 3, "start_filts": 2},
        autoencoder,
        right={
            "in_channels": [1],
            "image_size": [4, (8, 4), [4, 12], np.int64(8), np.array([4, 8])],
            "latent_dim": [1, np.int64(2)],
            "start_filts": [1],
        },
        wrong={"image_size": [*SIZES, 6, (8, 6), (8, 8, 8), (8,), [8, "8"], (0, 8), (-4, 8), "44", (8.0, 8), 8.0]},
        images=(2, 2, 8, 8),
        outputs={"pred": (2, 2, 8, 8), "mean": (2, 3), "log_var": (2, 3)},
        bad_images=[*wrong_shapes(2, 2, 8), (2, 2, 4, 4), (2, 2, 16, 4)],
        slow=SLOW,
    ),
]
