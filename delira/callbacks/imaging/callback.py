"""A callback that makes pictures of the state, of one batch or of the first of a pass, and what is done with them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from delira import state as keys
from delira.callbacks.imaging.grid import GridLayout, as_pictures, check_layout, make_grid
from delira.callbacks.imaging.outputs import PictureOutputs
from delira.callbacks.pass_choice import PassChoice, check_name
from delira.errors import ConfigError
from delira.logging.writers import close_writer
from delira.state import State
from delira.utils.checks import check_flags, check_functions, check_whole, if_given
from delira.utils.pixels import visible


class ImagingCallback(PictureOutputs, PassChoice):
    """Override :meth:`on_batch`, which makes a picture; the fluent methods say when, and what is done with it.

    Names of files and titles are formats over the state and its metrics, which those of grids find at the end of the
    pass; ``{index}`` is the number of the picture in the pass, from 0, and ``{fold}`` the fold. An evaluation or a
    prediction leaves alone what a fit has written.

    Parameters
    ----------
    transform
        Applied to each picture, an array of numpy of shape ``(c, h, w)``; it returns one of any size.
    channels_last
        Whether the channels are the last axis of what :meth:`on_batch` returns; None: as the framework has it, so they
        are in arrays of TensorFlow and JAX.

    Examples
    --------
    >>> from delira.state import INPUT, Y_PRED
    >>> class Difference(ImagingCallback):
    ...     def on_batch(self, state):
    ...         return abs(state[Y_PRED] - state[INPUT])
    >>> callback = Difference().on_val().make_grid(num_images=4, nrow=2).to_file("difference_{epoch}.png")
    """

    not_hooks = (*PassChoice.not_hooks, "on_batch", "on_cache")

    def __init__(self, transform: Callable[[np.ndarray], np.ndarray] | None = None, channels_last: bool | None = None):
        super().__init__()
        check_functions(self, **if_given(transform=transform))
        check_flags(self, **if_given(channels_last=channels_last))
        self.transform, self.channels_last = transform, channels_last

    def on_batch(self, state: State) -> Any:
        """Make a picture of a batch that is done.

        Returns
        -------
        Array of shape ``(c, h, w)`` of any framework, numbers in [0, 1] or bytes; ``(n, c, h, w)`` for several
        pictures; None for none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_batch")

    # ------------------------------------------------------------------ several pictures

    def cache(self, num_images: int = 16) -> "CachingImagingCallback":
        """Return a callback that collects the first pictures of each pass, and gives them at its end.

        Parameters
        ----------
        num_images
            How many.
        """
        return CachingImagingCallback(self, num_images)

    def make_grid(self, num_images: int = 16, **layout: Unpack[GridLayout]) -> "MakeGrid":
        """Return a callback whose picture is the first pictures of each pass, as a grid; see :class:`MakeGrid`.

        Parameters
        ----------
        num_images
            How many pictures.
        **layout
            See :func:`delira.callbacks.imaging.make_grid`.
        """
        return MakeGrid(self, num_images, **layout)

    # ------------------------------------------------------------------ moments

    def on_start(self, state: State) -> None:
        """Refuse names under which passes would overwrite each other's pictures; open what they are written to."""
        outputs = [(one, output) for one in self._chain() for output in one._outputs]
        for one, output in outputs:
            if output.name is not None:
                check_name(output.name, self.passes, type(one).__name__)
        for one, output in outputs if self.looks_in(state) else ():
            if output.place is not None:
                output.place.open(one, state)

    def on_start_validation(self, state: State) -> None:
        """Begin to count."""
        for one in self._chain():
            one._number, one._written, one._cache = 0, set(), []

    def on_end(self, state: State) -> None:
        """Close the writers that nobody else uses."""
        for one in self._chain():
            for output in one._outputs:
                if output.place is not None:
                    close_writer(output.place.log_dir, one, output.place.visdom)

    def _chain(self) -> "list[ImagingCallback]":
        """Return this callback, and those that its pictures come from."""
        return [self]

    # ------------------------------------------------------------------ the way of a picture

    def _look(self, state: State) -> None:
        """Make a picture of the batch, if anybody wants a further one."""
        if not self._outputs or any(output.wants_from(self._number) for output in self._outputs):
            self._handle(self.on_batch(state), state)

    def _give_out(self, state: State) -> list[np.ndarray]:
        """Return what is left at the end of a pass."""
        return []

    def _handle(self, made: object, state: State) -> list[np.ndarray]:
        """Return pictures with numbers as they are, beyond [0, 1] too; those who want them get them cut off."""
        if made is None:
            return []
        who = type(self).__name__
        pictures = [*as_pictures(made, self.channels_last, who)]
        if self.transform is not None:
            pictures = [as_pictures(self.transform(one), False, f"the transform of {who}")[0] for one in pictures]
        for picture in pictures:
            for output in self._outputs:
                if output.wanted is None or self._number in output.wanted:
                    output.handle(self, visible(picture), state, self._number)
            self._number += 1
        return pictures

    def state_dict(self) -> dict[str, Any]:
        """Return how many pictures the pass has had, and under which names."""
        return {"number": self._number, "written": sorted(map(str, self._written))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the count of a checkpoint."""
        self._number, self._written = int(state["number"]), set(map(Path, state["written"]))


class FromState(ImagingCallback):
    """A picture is an entry of the state; where there is none, or it is None, there is no picture.

    Parameters
    ----------
    key
        Of the entry: an array as :meth:`ImagingCallback.on_batch` returns it.
    transform, channels_last
        As for :class:`ImagingCallback`.
    """

    def __init__(
        self,
        key: object,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
        channels_last: bool | None = None,
    ):
        super().__init__(transform, channels_last)
        self.key = key

    def on_batch(self, state: State) -> Any:
        """Return the entry of the state."""
        return state.get(self.key)


class CachingImagingCallback(ImagingCallback):
    """Collect the first pictures of each pass, and call :meth:`on_cache` at its end, when its metrics are there.

    Parameters
    ----------
    source
        Where they come from: a key of the state, or another :class:`ImagingCallback`, which must not be given to the
        fit as well; what was to be done with its pictures is done.
    num_images
        How many are collected.
    transform, channels_last
        As for :class:`ImagingCallback`; ``channels_last`` is about an entry of the state.

    Raises
    ------
    ConfigError
        If ``num_images`` is impossible; during the fit, if pictures have several sizes.
    """

    def __init__(
        self,
        source: Any = keys.INPUT,
        num_images: int = 16,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
        channels_last: bool | None = None,
    ):
        super().__init__(transform, channels_last=False)
        check_whole(self, at_least=1, num_images=num_images)
        is_callback = isinstance(source, ImagingCallback)
        self.source: ImagingCallback = source if is_callback else FromState(source, channels_last=channels_last)
        self.num_images = num_images
        self._chosen = self.source._chosen

    def on_cache(self, cache: np.ndarray, state: State) -> Any:
        """Make a picture of what was collected; all of it as it is unless this is overridden.

        Parameters
        ----------
        cache
            Shape ``(n, c, h, w)``, float32; numbers as they were, beyond [0, 1] too.
        state
            Of the fit.

        Returns
        -------
        As :meth:`ImagingCallback.on_batch`; of numpy, the channels come first.
        """
        return cache

    def on_batch(self, state: State) -> None:
        """Collect."""
        if len(self._cache) < self.num_images:
            self._cache += self.source._handle(self.source.on_batch(state), state)

    def _give_out(self, state: State) -> list[np.ndarray]:
        collected = [*self._cache, *self.source._give_out(state)][: self.num_images]
        self._cache = []
        if len(shapes := {picture.shape for picture in collected}) > 1:
            raise ConfigError(
                f"{type(self).__name__}: pictures of several sizes were collected, {sorted(shapes)}; make them one by "
                "transform="
            )
        return self._handle(self.on_cache(np.stack(collected), state), state) if collected else []

    def _chain(self) -> list[ImagingCallback]:
        return [self, *self.source._chain()]

    def state_dict(self) -> dict[str, Any]:
        """Return what was collected so far."""
        return {**super().state_dict(), "cache": list(self._cache), "source": self.source.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with what a checkpoint has collected."""
        super().load_state_dict(state)
        self._cache = [np.asarray(one) for one in state["cache"]]
        self.source.load_state_dict(state["source"])


class MakeGrid(CachingImagingCallback):
    """The first pictures of each pass as one: a grid.

    Parameters
    ----------
    source
        A key of the state, or another :class:`ImagingCallback`.
    num_images
        How many pictures.
    transform, channels_last
        As for :class:`CachingImagingCallback`; ``transform`` gets the grid.
    **layout
        ``nrow=8``, ``padding=2``, ``normalize=False``, ``norm_range=None``, ``scale_each=False``, ``pad_value=0``: see
        :func:`delira.callbacks.imaging.make_grid`.

    Raises
    ------
    ConfigError
        If an argument is unknown or impossible.

    Examples
    --------
    >>> from delira.state import TARGET
    >>> targets = MakeGrid(TARGET, num_images=64).on_test().to_file("targets.png")
    """

    def __init__(
        self,
        source: Any = keys.INPUT,
        num_images: int = 16,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
        channels_last: bool | None = None,
        **layout: Unpack[GridLayout],
    ):
        super().__init__(source, num_images, transform, channels_last)
        self.layout = check_layout(type(self).__name__, **layout)

    def on_cache(self, cache: np.ndarray, state: State) -> np.ndarray:
        """Return the grid of the pictures."""
        return make_grid(cache, **self.layout)
