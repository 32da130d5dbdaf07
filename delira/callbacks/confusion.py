"""Confusion matrices of passes over data, with the statistics of the library PyCM."""

import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from delira.callbacks.abstract_callback import is_first
from delira.callbacks.monitor import PassChoice, check_name, fill_in, path_of
from delira.errors import ConfigError, check_known, check_whole, if_given, import_optional
from delira.metrics.tree.counts import ConfusionMatrix
from delira.metrics.tree.metric import as_tree
from delira.state import Y_PRED, Y_TRUE, State
from delira.utils.arrays import Array

_log = logging.getLogger("delira")
#: arguments of pycm.ConfusionMatrix that say what is counted: the fit does
_NOT_GIVEN = ("actual_vector", "predict_vector", "matrix", "file", "threshold", "sample_weight")


class PyCM(PassChoice):
    """Count how often which label was taken for which, for a ``pycm.ConfusionMatrix`` at the end of the pass.

    The fluent methods say of which passes (of validations, if none says so), and what is done with the matrix. It is
    exact over batches of different sizes. Scores are argmaxed over the classes, as for the metric
    ``confusion_matrix``. A pass without targets has none.

    Parameters
    ----------
    num_classes
        By default as many as the scores have, or as labels occur.
    ignore_index
        Targets that do not count; None for none.
    pred_key, target_key
        Keys of the state.
    **kwargs
        Further arguments of ``pycm.ConfusionMatrix``, e.g. ``classes=["cat", "dog"]``, which names the labels 0 and 1,
        or ``digit``.

    Raises
    ------
    ConfigError
        If an argument is one of those that say what is counted; at the start of a fit, if PyCM does not take one, or
        if one pass would overwrite the file of another.
    MissingBackendError
        At the start of a fit, if pycm is not installed.

    References
    ----------
    Haghighi et al., PyCM: Multiclass confusion matrix library in Python, JOSS 2018, doi:10.21105/joss.00729.

    Examples
    --------
    >>> callback = PyCM(classes=["cat", "dog"]).on_val().to_console().to_html_file("confusion_{epoch:02d}")
    >>> sorted(callback.passes)
    ['val']
    """

    def __init__(
        self,
        num_classes: int | None = None,
        ignore_index: int | None = -100,
        pred_key: object = Y_PRED,
        target_key: object = Y_TRUE,
        **kwargs: Any,
    ):
        if taken := [name for name in _NOT_GIVEN if name in kwargs]:
            raise ConfigError(f"PyCM: {taken[0]} cannot be given: the labels are those of the fit")
        check_whole(self, at_least=1, **if_given(num_classes=num_classes))
        check_whole(self, **if_given(ignore_index=ignore_index))
        counts = ConfusionMatrix(num_classes, ignore_index=ignore_index, pred_key=pred_key, target_key=target_key)
        counts.name = "PyCM"  # by which its messages call it
        self._tree = as_tree(counts)  # it reads predictions of which nobody says what they are as metrics do
        self.num_classes, self.ignore_index, self.pred_key = num_classes, ignore_index, pred_key
        self.target_key, self.kwargs = target_key, kwargs
        self._handlers: list[Callable[[Any, State], Any]] = []
        self._names: list[str] = []
        self._has_seen = False
        #: ways in which predictions were read that were said
        self._told: set[str] = set()

    # ------------------------------------------------------------------ what is done with the matrix

    def with_handler(self, handler: Callable[[Any, State], Any]) -> Self:
        """Call a function with each matrix; returns the callback.

        Parameters
        ----------
        handler
            Gets the ``pycm.ConfusionMatrix`` and the state.
        """
        self._handlers.append(handler)
        return self

    def _in_first(self, handler: Callable[[Any, State], Any]) -> Self:
        """Call a function that writes or prints in the process that does."""
        return self.with_handler(lambda matrix, state: handler(matrix, state) if is_first(state) else None)

    def to_state(self, key: object) -> Self:
        """Put each matrix into the state; returns the callback.

        Parameters
        ----------
        key
            Under which it lies.
        """
        return self.with_handler(lambda matrix, state: state.update({key: matrix}))

    def to_console(self, statistics: bool = False) -> Self:
        """Write each matrix to the standard error stream; returns the callback.

        Parameters
        ----------
        statistics
            Whether its statistics follow, 170 lines.
        """

        def show(matrix: Array, state: State) -> None:
            text = str(matrix) if statistics else str(matrix).partition("Overall Statistics")[0].rstrip()
            sys.stderr.write(f"{text}\n")

        return self._in_first(show)

    def to_pycm_file(self, filename: str | Path, **kwargs: Any) -> Self:
        """Write each matrix and its statistics as a text; returns the callback.

        Parameters
        ----------
        filename
            A format over the state and its metrics, without ending, e.g. ``"confusion_{epoch}"``; ``.pycm`` is added,
            and ``_fold_1`` and so on for the further folds of an experiment if there is no ``{fold}``.
        **kwargs
            Further arguments of ``pycm.ConfusionMatrix.save_stat``.
        """
        return self._to_file("save_stat", filename, kwargs)

    def to_html_file(self, filename: str | Path, **kwargs: Any) -> Self:
        """Write each matrix and its statistics as a page; returns the callback.

        Parameters
        ----------
        filename
            As for :meth:`to_pycm_file`; ``.html`` is added.
        **kwargs
            Further arguments of ``pycm.ConfusionMatrix.save_html``.
        """
        return self._to_file("save_html", filename, kwargs)

    def to_csv_file(self, filename: str | Path, **kwargs: Any) -> Self:
        """Write the statistics of each matrix as a table, and the matrix beside it; returns the callback.

        Parameters
        ----------
        filename
            As for :meth:`to_pycm_file`; ``.csv`` and ``_matrix.csv`` are added.
        **kwargs
            Further arguments of ``pycm.ConfusionMatrix.save_csv``.
        """
        return self._to_file("save_csv", filename, kwargs)

    def to_obj_file(self, filename: str | Path, **kwargs: Any) -> Self:
        """Write each matrix so that ``pycm.ConfusionMatrix(file=...)`` reads it; returns the callback.

        Parameters
        ----------
        filename
            As for :meth:`to_pycm_file`; ``.obj`` is added.
        **kwargs
            Further arguments of ``pycm.ConfusionMatrix.save_obj``.
        """
        return self._to_file("save_obj", filename, kwargs)

    def to_pyplot(self, title: str = "Confusion matrix", **kwargs: Any) -> Self:
        """Show each matrix by matplotlib.pyplot; returns the callback.

        Parameters
        ----------
        title
            A format over the state and its metrics.
        **kwargs
            Further arguments of ``pycm.ConfusionMatrix.plot``, e.g. ``normalized=True``.
        """

        def show(matrix: Array, state: State) -> None:
            pyplot = import_optional("matplotlib.pyplot", "PyCM.to_pyplot", "matplotlib")
            matrix.plot(**{"number_label": True, "title": fill_in(title, state, "PyCM.to_pyplot"), **kwargs})
            pyplot.show()

        return self._in_first(show)

    def _to_file(self, method: str, filename: str | Path, kwargs: Mapping[str, Any]) -> Self:
        template = str(filename)

        def write(matrix: Array, state: State) -> None:
            path = self.file_of(template, path_of(template, state, "PyCM"), state)
            path.parent.mkdir(parents=True, exist_ok=True)
            # it leaves closing to the collector
            with warnings.catch_warnings(action="ignore", category=ResourceWarning):
                told = getattr(matrix, method)(str(path), **{"address": False, **kwargs})
            if not told["Status"]:
                raise OSError(f"PyCM: {path} cannot be written: {told['Message']}")

        self._names.append(template)
        return self._in_first(write)

    # ------------------------------------------------------------------ events

    def on_start(self, state: State) -> None:
        """Refuse what PyCM does not take, and names under which passes would overwrite each other's files."""
        known = list(inspect.signature(self._library().ConfusionMatrix.__init__).parameters)[1:]
        check_known(self.kwargs, known, "PyCM takes no argument")
        for name in self._names:
            check_name(name, self.passes, "PyCM")

    def on_start_validation(self, state: State) -> None:
        """Begin to count."""
        self._tree.reset(state)
        self._has_seen = False

    def _look(self, state: State) -> None:
        """Count the labels of a batch, on the device."""
        if state.get(self.target_key) is not None:
            self._tree.process(state)
            self._has_seen = True

    def _give_out(self, state: State) -> None:
        if not self._has_seen:
            return
        (found,) = self._tree.process_final(state).values()
        if (way := self._tree.way) and way not in self._told:
            self._told.add(way)
            _log.warning(
                "no known criterion and no output= says what predictions are, so by their values PyCM takes them for "
                "%s; say output='logits', 'probabilities' or 'labels'", way,
            )  # fmt: skip
        if not isinstance(found, list):  # every target was one of those that do not count
            return
        matrix = self._library().ConfusionMatrix(matrix=found, **{"classes": list(range(len(found))), **self.kwargs})
        for handler in self._handlers:
            handler(matrix, state)

    def _library(self) -> Any:
        return import_optional("pycm", "PyCM", "delira[logging]")

    def state_dict(self) -> dict[str, Any]:
        """Return what a pass that is continued has counted."""
        return {"counts": self._tree.state_dict(), "has_seen": self._has_seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the count of a checkpoint."""
        counts = state["counts"]
        self._tree.load_state_dict({"root": counts, "children": []} if "pairs" in counts else counts)
        self._has_seen = bool(state["has_seen"])
