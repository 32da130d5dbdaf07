"""What is done with pictures: fluent methods of a callback."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from delira import state as keys
from delira.callbacks.monitor import trainer_of
from delira.callbacks.names import fill_in, path_of
from delira.errors import ConfigError
from delira.logging.writers import get_writer
from delira.state import State
from delira.utils.optional import import_optional
from delira.utils.pixels import as_bytes, write_picture

if TYPE_CHECKING:
    from delira.logging.writers import VisdomParams

#: numbers of the pictures of a pass, from 0; None: all
Index = int | Iterable[int] | None
Handle = Callable[[Any, np.ndarray, State, int], Any]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where writers of TensorBoard or visdom put pictures.

    Parameters
    ----------
    log_dir
        Folder of the event files.
    visdom
        Whether it is a server of visdom.
    params
        Which server.
    """

    log_dir: str
    visdom: bool = False
    params: "VisdomParams | None" = None

    def open(self, user: object, state: State) -> None:
        """Be there before the first picture is, and say what is missing."""
        fitted = trainer_of(state).state
        # files are named, and read in the order of, seconds: another run within one would write over the file before
        arguments: dict[str, Any] = {} if self.visdom else {"filename_suffix": f".{time.time_ns()}"}
        if state[keys.PHASE] == "fit" and fitted.global_step and not self.visdom:
            arguments["purge_step"] = fitted.epoch + 1  # hides what was written before it was broken off
        get_writer(self.log_dir, user, self.visdom, self.params, **arguments)

    def write(self, user: object, name: str, picture: np.ndarray, state: State) -> None:
        """Write a picture, in a fit at the number of the running epoch, else of the last one."""
        writer = get_writer(self.log_dir, user, self.visdom, self.params)
        pixels = np.round(picture * 255).astype(np.uint8)
        writer.add_image(name, pixels, trainer_of(state).state.epoch + (state[keys.PHASE] == "fit"))
        writer.flush()


@dataclasses.dataclass(frozen=True)
class _Output:
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
        What writes it, if that is to be opened.
    """

    handle: Handle
    wanted: frozenset[int] | None
    name: str | None = None
    place: _Place | None = None

    def wants_from(self, number: int) -> bool:
        """Return True if it wants any picture from this number on."""
        return self.wanted is None or max(self.wanted, default=-1) >= number


class PictureOutputs:
    """Adds ``to_file()`` and its like to a callback, which hands its pictures to what they make."""

    #: that of :class:`PassChoice`, with which it is mixed
    file_of: Callable[[str, Path, State], Path]

    def __init__(self) -> None:
        self._outputs: list[_Output] = []
        #: pictures of the pass so far, names of their files, and those that are collected
        self._number = 0
        self._written: set[Path] = set()
        self._cache: list[np.ndarray] = []

    def with_handler(self, handler: Callable[[np.ndarray, State], Any], index: Index = None) -> Self:
        """Call a function with each picture; returns the callback.

        Parameters
        ----------
        handler
            Gets an array of shape ``(c, h, w)``, float32 in [0, 1], and the state.
        index
            Numbers of the pictures of a pass that it gets; None: all.
        """
        return self._add(lambda owner, picture, state, number: handler(picture, state), index)

    def to_state(self, key: object, index: Index = None) -> Self:
        """Put each picture into the state; returns the callback.

        Parameters
        ----------
        key
            Under which it lies, an array of shape ``(c, h, w)``, float32 in [0, 1].
        index
            See :meth:`with_handler`.
        """
        return self._add(lambda owner, picture, state, number: state.update({key: picture}), index)

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

    def to_pyplot(self, title: str | None = None, index: Index = None) -> Self:
        """Show each picture by matplotlib.pyplot, in a window that is drawn anew in each pass; returns the callback.

        Parameters
        ----------
        title
            A format; None: no title.
        index
            See :meth:`with_handler`.
        """
        who, figures = f"{type(self).__name__}.to_pyplot", dict[int, Any]()

        def show(owner: Self, picture: np.ndarray, state: State, number: int) -> None:
            pyplot = import_optional("matplotlib.pyplot", who, "matplotlib")
            text = "" if title is None else fill_in(title, state, who, {"index": number})
            figure = figures.get(number)
            if figure is None or not pyplot.fignum_exists(figure.number):  # else it is drawn anew
                figure = figures[number] = pyplot.figure()
            figure.clear()
            axes = figure.add_subplot()
            axes.imshow(as_bytes(picture, who), cmap="gray", vmin=0, vmax=255)
            axes.set_axis_off()
            axes.set_title(text)
            pyplot.show()

        return self._add(show, index)

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
        return self._write_to(name, _Place(str(log_dir)), index)

    def to_visdom(
        self,
        name: str = "image",
        visdom_params: "VisdomParams | None" = None,
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
        return self._write_to(name, _Place(str(log_dir), True, visdom_params), index)

    def _write_to(self, template: str, place: _Place, index: Index) -> Self:
        def write(owner: Self, picture: np.ndarray, state: State, number: int) -> None:
            name = fill_in(template, state, type(owner).__name__, {"index": number})
            place.write(owner, name, picture, state)

        return self._add(write, index, template, place)

    def _add(self, handle: Handle, index: Index, name: str | None = None, place: _Place | None = None) -> Self:
        wanted = None if index is None else frozenset([index] if isinstance(index, int) else index)
        if wanted is not None and any(not isinstance(number, int) or number < 0 for number in wanted):
            raise ConfigError(f"{type(self).__name__}: index counts pictures of a pass from 0, got {index!r}")
        self._outputs.append(_Output(handle, wanted, name, place))
        return self
