"""What a class looks like to a network."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np

from delira import errors
from delira import state as keys
from delira.callbacks.abstract_callback import trainer_of
from delira.callbacks.imaging.callback import ImagingCallback
from delira.contract.calls import ModelCall
from delira.contract.kinds import Array, Network
from delira.state import State
from delira.trial.trial import Trial
from delira.utils import arrays, pictures, seeding

#: another class each time
RANDOM: Literal["random"] = "random"


class Conversions(TypedDict, total=False):
    """Further keywords of :class:`ClassAppearanceModel`."""

    in_transform: Callable[[Any], Any] | None
    transform: Callable[[np.ndarray], np.ndarray] | None
    channels_last: bool | None


class ClassAppearanceModel(ImagingCallback):
    """A picture that the network takes for a class: found by gradient ascent, once in each pass, after its first batch.

    The network is in evaluation mode meanwhile (in Keras it is called with ``training=False``). Its weights, its mode
    and all generators stay as they are.

    Parameters
    ----------
    nclasses
        Number of classes.
    input_size
        ``(c, h, w)`` of an input of the network.
    optimizer_factory
        Makes an optimizer of the framework of a list that holds the pixels, e.g.
        ``lambda weights: torch.optim.Adam(weights, lr=0.5)``; Keras and optax need no weights. None: that one.
    steps
        Updates of the pixels.
    logit_key
        Where the network puts its scores into the state; None: they are what it returns.
    target
        The class, or RANDOM: another one each time, by the seed of the fit.
    decay
        Weight of the sum of the squares of the pixels.
    **conversions
        ``in_transform``: applied to the pixels before the network, a function of arrays of the framework of shape
        ``(1, c, h, w)`` that gradients go through. ``transform``: applied to the result, an array of numpy of shape
        ``(c, h, w)``; without one its smallest number becomes 0 and its largest 1. ``channels_last``: whether the
        network's input has the shape ``(1, h, w, c)``; None: with TensorFlow and JAX.

    Raises
    ------
    ConfigError
        If an argument is impossible; during the fit, if the framework gives no gradients, or the network has another
        number of classes.

    References
    ----------
    Simonyan et al., Deep inside convolutional networks: visualising image classification models and saliency maps,
    arXiv:1312.6034 (2013).
    """

    def __init__(
        self,
        nclasses: int,
        input_size: tuple[int, int, int],
        optimizer_factory: Callable[[list[Any]], Any] | None = None,
        steps: int = 256,
        logit_key: Any = None,
        target: int | Literal["random"] = RANDOM,
        decay: float = 0.01,
        **conversions: Unpack[Conversions],
    ):
        errors.check_known(sorted(conversions), Conversions.__annotations__, "ClassAppearanceModel has no argument")
        transform = conversions.get("transform")
        super().__init__(pictures.stretched if transform is None else transform, channels_last=False)
        self.in_transform, self._is_last = conversions.get("in_transform"), conversions.get("channels_last")
        _check(nclasses, input_size, steps, target, decay)
        errors.check_functions(
            self, **errors.if_given(optimizer_factory=optimizer_factory, in_transform=self.in_transform)
        )
        errors.check_flags(self, **errors.if_given(channels_last=self._is_last))
        self.nclasses, self.input_size, self.steps, self.decay = nclasses, tuple(input_size), steps, decay
        self.optimizer_factory, self.logit_key, self.target = optimizer_factory, logit_key, target
        self._target_key: Any = None

    def target_to_key(self, key: Any) -> Self:
        """Put the class into the state whenever there is a picture of it; returns the callback."""
        self._target_key = key
        return self

    def on_batch(self, state: State) -> np.ndarray | None:
        """Make the picture."""
        if self._number:
            return None
        trainer = trainer_of(state)
        counters = (trainer.fold, state[keys.EPOCH])
        generator = np.random.default_rng(seeding.derive(trainer.seed, *counters, stream="class appearance"))
        target = int(generator.integers(self.nclasses)) if self.target == RANDOM else int(self.target)
        if self._target_key is not None:
            state[self._target_key] = target
        start = generator.normal(scale=0.1, size=(1, *self.input_size)).astype(np.float32)
        return self._ascend(trainer, state[keys.MODEL], target, start)

    def _ascend(self, trainer: Any, network: Network, target: int, start: np.ndarray) -> np.ndarray:
        """Pixels after all updates, shape (c, h, w)."""
        free_image = trainer.backend.free_image
        if free_image is None:
            name = trainer.backend.name
            raise errors.ConfigError(
                f"ClassAppearanceModel needs gradients of the input, which the backend {name!r} does not give"
            )
        is_last = trainer.backend.channels_last if self._is_last is None else self._is_last
        start = np.moveaxis(start, 1, -1).copy() if is_last else start
        module = free_image(start, functools.partial(self._loss, network, free_image.keywords, target))
        make = self.optimizer_factory
        optimizer = module.make_optimizer() if make is None else make([module.image])
        config = trainer.config
        inner = Trial(
            module, optimizer, keys.Y_PRED, verbose=0, device=config.device, gpu_ids=config.gpu_ids,
            save_on_signal=False, seed=seeding.derive_int(trainer.seed, stream="class appearance"),
        )  # fmt: skip
        with trainer.backend.calls.evaluating(network), _no_gradients(trainer.backend, network):
            inner.for_train_steps(self.steps).run(1)
        pixels = arrays.read_arrays([arrays.as_array(module.image)])[0][0]
        return np.moveaxis(pixels, -1, 0) if is_last else pixels

    def _loss(self, network: Network, keywords: Mapping[str, bool], target: int, pixels: Array, state: State) -> Any:
        given = pixels if self.in_transform is None else self.in_transform(pixels)
        scores = self._scores(ModelCall()(network, given, state, **keywords), state)
        return self.decay * arrays.ops_of(pixels).sum(pixels * pixels) - scores[0, target]

    def _scores(self, made: Any, state: State) -> Any:
        if self.logit_key is not None:
            made = state[self.logit_key]
        elif isinstance(made, Mapping) and len(made) == 1:
            made = next(iter(made.values()))
        shape = getattr(made, "shape", None)
        if shape is None or tuple(shape) != (1, self.nclasses):
            got = type(made).__name__ if shape is None else tuple(shape)
            raise errors.ConfigError(
                f"ClassAppearanceModel needs scores of shape (1, {self.nclasses}) of the network, got {got}; pass "
                "logit_key= if they are an entry of the state"
            )
        return made


@contextlib.contextmanager
def _no_gradients(backend: Any, network: Network) -> Iterator[None]:
    """Scope in which weights of PyTorch collect no gradients; elsewhere only those that are asked for are computed."""
    if not hasattr(network, "named_parameters"):
        yield
        return
    names = backend.weights.learned_names(network)
    backend.weights.set_learned_names(network, frozenset())
    try:
        yield
    finally:
        backend.weights.set_learned_names(network, names)


def _check(nclasses: int, input_size: Any, steps: int, target: Array, decay: float) -> None:
    who = "ClassAppearanceModel"
    errors.check_whole(who, at_least=1, nclasses=nclasses, steps=steps)
    errors.check_numbers(who, at_least=0, decay=decay)
    is_size = isinstance(input_size, (tuple, list)) and len(input_size) == 3
    errors.check_that(is_size, who, "input_size is (channels, height, width)", input_size)
    for length in input_size:
        errors.check_whole(who, at_least=1, input_size=length)
    is_one = isinstance(target, Integral) and not isinstance(target, bool) and 0 <= int(target) < nclasses
    errors.check_that(target == RANDOM or is_one, who, f"target is RANDOM or a class from 0 to {nclasses - 1}", target)
