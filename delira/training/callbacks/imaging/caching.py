"""The first pictures of a pass, collected and shown together."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State
from delira.training.callbacks.imaging.callback import FromState, ImagingCallback
from delira.training.callbacks.imaging.grid import GridLayout, check_layout, make_grid
from delira.utils.checks import check_whole


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
        self._cache: list[np.ndarray] = []

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
            self._cache += self.source._pictures(state, for_others=True)

    def _last_pictures(self, state: State) -> list[np.ndarray]:
        self._cache += self.source._last_pictures(state)
        collected, self._cache = self._cache[: self.num_images], []
        return self._handled(self._given(collected, state), state) if collected else []

    def _given(self, collected: list[np.ndarray], state: State) -> Any:
        """What is made of the cache."""
        if len(shapes := {picture.shape for picture in collected}) > 1:
            raise ConfigError(
                f"{type(self).__name__}: pictures of several sizes were collected, {sorted(shapes)}; make them one by "
                "transform="
            )
        return self.on_cache(np.stack(collected), state)

    def _begin(self) -> None:
        super()._begin()
        self._cache = []
        self.source._begin()

    def _open(self, state: State) -> None:
        super()._open(state)
        self.source._open(state)

    def _close(self) -> None:
        super()._close()
        self.source._close()

    def _check_names(self, passes: frozenset[str]) -> None:
        super()._check_names(passes)
        self.source._check_names(passes)

    def state_dict(self) -> dict[str, Any]:
        """What was collected so far."""
        return {**super().state_dict(), "cache": list(self._cache), "source": self.source.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collect on."""
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
        :func:`delira.training.callbacks.imaging.make_grid`.

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
        """The grid."""
        return make_grid(cache, **self.layout)
