"""A callback that makes pictures of the state, of one batch or of the first of a pass, and what is done with them."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack

import numpy as np

from delira.callbacks.abstract_callback import is_first, trainer_of
from delira.callbacks.monitor import PassChoice, check_name, fill_in, path_of
from delira.errors import ConfigError, check_flags, check_functions, check_that, check_whole, if_given, import_optional
from delira.logging.writers import VisdomParams, close_writer, get_writer
from delira.state import INPUT, PHASE, State
from delira.utils.pictures import GridLayout, as_bytes, as_pictures, check_layout, make_grid, visible, write_picture

#: numbers of the pictures of a pass, from 0; None: all
Index = int | Iterable[int] | None
Handle = Callable[[Any, np.ndarray, State, int], Any]
#: folder of a writer, whether it is a server of visdom, and which
_Place = tuple[str, bool, VisdomParams | None]


class _Output(NamedTuple):
    """What is done with pictures.

    Parameters
    ----------
    handle
        Gets the callback, which may be a copy of the one that it was made by, a picture of shape ``(c, h, w)`` in
        [0, 1], the state, and the picture's number in the pass.
    wanted
        Numbers of the pictures that it gets; None: all.
    name
        Format of the name that each gets, if it gets any.
    place
        Where a writer puts it that is to be open before the first picture.
    is_shown
        Whether it writes or shows them, which of several processes the first does.
    """

    handle: Handle
    wanted: frozenset[int] | None
    name: str | None = None
    place: _Place | None = None
    is_shown: bool = True


def _open(place: _Place, user: object, state: State) -> None:
    """Let a writer be there before the first picture is, and say what is missing."""
    fitted, (log_dir, visdom, params) = trainer_of(state).state, place
    # files are named, and read in the order of, seconds: another run within one would write over the file before
    arguments: dict[str, Any] = {} if visdom else {"filename_suffix": f".{time.time_ns()}"}
    if state[PHASE] == "fit" and fitted.global_step and not visdom:
        arguments["purge_step"] = fitted.epoch + 1  # hides what was written before it was broken off
    get_writer(log_dir, user, visdom, params, **arguments)


def _write(template: str, place: _Place, user: object, picture: np.ndarray, state: State, number: int) -> None:
    """Write a picture, in a fit at the number of the running epoch, else of the last one."""
    name = fill_in(template, state, type(user).__name__, {"index": number})
    log_dir, visdom, params = place
    writer = get_writer(log_dir, user, visdom, params)
    pixels = np.round(picture * 255).astype(np.uint8)
    writer.add_image(name, pixels, trainer_of(state).state.epoch + (state[PHASE] == "fit"))
    writer.flush()


class ImagingCallback(PassChoice):
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
        check_functions(self, **if_given(transform=transform))
        check_flags(self, **if_given(channels_last=channels_last))
        self.transform, self.channels_last = transform, channels_last
        self._outputs: list[_Output] = []
        #: pictures of the pass so far, names of their files, and those that are collected
        self._number = 0
        self._written: set[Path] = set()
        self._cache: list[np.ndarray] = []

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

    # ------------------------------------------------------------------ what is done with pictures

    def with_handler(self, handler: Callable[[np.ndarray, State], Any], index: Index = None) -> Self:
        """Call a function with each picture; returns the callback.

        Parameters
        ----------
        handler
            Gets an array of shape ``(c, h, w)``, float32 in [0, 1], and the state.
        index
            Numbers of the pictures of a pass that it gets; None: all.
        """
        return self._add(lambda owner, picture, state, number: handler(picture, state), index, is_shown=False)

    def to_state(self, key: object, index: Index = None) -> Self:
        """Put each picture into the state; returns the callback.

        Parameters
        ----------
        key
            Under which it lies, an array of shape ``(c, h, w)``, float32 in [0, 1].
        index
            See :meth:`with_handler`.
        """
        return self._add(lambda owner, picture, state, number: state.update({key: picture}), index, is_shown=False)

    def to_file(self, filename: str | Path, index: Index = None) -> Self:
        """Write each picture to a file, completely or not at all; returns the callback.

        Parameters
        ----------
        filename
            A format, e.g. ``"{fold}_{epoch}_{index}.png"``; a file of an earlier pass is replaced. The ending says what
            kind of file it is, of those that Pillow writes; without one it is ``.png``. ``_fold_1`` and so on is added
            for the further folds of an experiment if there is no ``{fold}``.
        index
            See :meth:`with_handler`.

        Raises
        ------
        ConfigError
            During the fit, if a second picture of a pass has the same name, or one pass the name of another.
        """
        template, who = str(filename), f"{type(self).__name__}.to_file"

        def write(owner: Self, picture: np.ndarray, state: State, number: int) -> None:
            path = owner.file_of(template, path_of(template, state, who, {"index": number}), state)
            if path in owner._written:
                raise ConfigError(
                    f"{who}: {path} would be overwritten by another picture of the same pass; put {{index}} into the "
                    "name, choose a picture by index=, or lay them out by make_grid()"
                )
            owner._written.add(path)
            write_picture(path, picture, who)

        return self._add(write, index, template)

    def to_pyplot(
        self, title: str | None = None, index: Index = None, show: bool = True, normalize: bool = False
    ) -> Self:
        """Show each picture by matplotlib.pyplot, in a window that is drawn anew in each pass; returns the callback.

        Parameters
        ----------
        title
            A format; None: no title.
        index
            See :meth:`with_handler`.
        show
            Whether windows are shown at once; else ``matplotlib.pyplot.show`` does it.
        normalize
            Whether the smallest number of a picture is drawn black, and the largest white.
        """
        who, figures = f"{type(self).__name__}.to_pyplot", dict[int, Any]()
        check_flags(self, show=show, normalize=normalize)

        def draw(owner: Self, picture: np.ndarray, state: State, number: int) -> None:
            pyplot = import_optional("matplotlib.pyplot", who, "matplotlib")
            text = "" if title is None else fill_in(title, state, who, {"index": number})
            figure = figures.get(number)
            if figure is None or not pyplot.fignum_exists(figure.number):  # else it is drawn anew
                figure = figures[number] = pyplot.figure()
            figure.clear()
            axes = figure.add_subplot()
            if normalize:
                picture = (picture - picture.min()) / max(float(np.ptp(picture)), 1e-12)
            axes.imshow(as_bytes(picture, who), cmap="gray", vmin=0, vmax=255)
            axes.set_axis_off()
            axes.set_title(text)
            if show:
                pyplot.show()

        return self._add(draw, index)

    def to_tensorboard(self, name: str = "image", log_dir: str | Path = "./logs", index: Index = None) -> Self:
        """Write each picture into event files of TensorBoard, at the number of its epoch; returns the callback.

        Parameters
        ----------
        name
            A format.
        log_dir
            Where the event files go.
        index
            See :meth:`with_handler`.
        """
        place = (str(log_dir), False, None)
        return self._add(functools.partial(_write, name, place), index, name, place)

    def to_visdom(
        self,
        name: str = "image",
        visdom_params: VisdomParams | None = None,
        log_dir: str | Path = "./logs",
        index: Index = None,
    ) -> Self:
        """Show each picture in a window of visdom; returns the callback.

        Parameters
        ----------
        name
            A format.
        visdom_params
            Where the server is.
        log_dir
            The environment has its name, if ``visdom_params`` name none.
        index
            See :meth:`with_handler`.
        """
        place = (str(log_dir), True, visdom_params)
        return self._add(functools.partial(_write, name, place), index, name, place)

    def _add(
        self, handle: Handle, index: Index, name: str | None = None, place: _Place | None = None, is_shown: bool = True
    ) -> Self:
        wanted = None if index is None else frozenset([index] if isinstance(index, int) else index)
        is_right = all(isinstance(number, int) and number >= 0 for number in wanted or ())
        check_that(is_right, self, "index counts pictures of a pass from 0", index)
        self._outputs.append(_Output(handle, wanted, name, place, is_shown))
        return self

    # ------------------------------------------------------------------ events

    def on_start(self, state: State) -> None:
        """Refuse names under which passes would overwrite each other's pictures; open what they are written to."""
        outputs = [(one, output) for one in self._chain() for output in one._outputs]
        for one, output in outputs:
            if output.name is not None:
                check_name(output.name, self.passes, type(one).__name__)
        for one, output in outputs if self.looks_in(state) and is_first(state) else ():
            if output.place is not None:
                _open(output.place, one, state)

    def on_start_validation(self, state: State) -> None:
        """Begin to count."""
        for one in self._chain():
            one._number, one._written, one._cache = 0, set(), []

    def on_end(self, state: State) -> None:
        """Close the writers that nobody else uses."""
        for one in self._chain():
            for output in one._outputs:
                if output.place is not None:
                    log_dir, visdom, _ = output.place
                    close_writer(log_dir, one, visdom)

    def _chain(self) -> "list[ImagingCallback]":
        """Return this callback, and those that its pictures come from."""
        return [self]

    # ------------------------------------------------------------------ the way of a picture

    def _look(self, state: State) -> None:
        """Make a picture of the batch, if anybody wants a further one."""
        wanted = [output.wanted for output in self._outputs]
        if not wanted or any(numbers is None or max(numbers, default=-1) >= self._number for numbers in wanted):
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
        outputs = [output for output in self._outputs if is_first(state) or not output.is_shown]
        for picture in pictures:
            for output in outputs:
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
    key
        Another name of ``source``.

    Raises
    ------
    ConfigError
        If ``num_images`` is impossible; during the fit, if pictures have several sizes.
    """

    #: ``source`` has it
    key = None

    def __init__(
        self,
        source: Any = INPUT,
        num_images: int = 16,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
        channels_last: bool | None = None,
        key: Any = None,
    ):
        super().__init__(transform, channels_last=False)
        check_whole(self, at_least=1, num_images=num_images)
        source = source if key is None else key
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
        source: Any = INPUT,
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
