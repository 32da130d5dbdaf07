"""Metrics as tables, and what a fit consists of, as texts for TensorBoard or visdom."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.callbacks.tensorboard_scalars import TensorBoard
from delira.logging.writers import VisdomParams
from delira.state import State
from delira.utils.checks import check_flags

_SUMMARY = (keys.MODEL, keys.OPTIMIZER, keys.CRITERION, keys.METRIC_LIST, keys.CALLBACK_LIST)


class TensorBoardText(TensorBoard):
    """Write the metrics of epochs, and of batches if asked for, as tables, and once what the fit consists of.

    Parameters
    ----------
    log_dir
        Where the folders go, see :class:`AbstractTensorBoard`.
    write_epoch_metrics
        Whether epochs are written, as ``epoch``.
    write_batch_metrics
        Whether training steps are written, as ``batch``.
    log_trial_summary
        Whether network, optimizer, criterion, metrics and callbacks are written, as ``trial``, where a fit begins.
    batch_step_size
        Batches from one that is written to the next; each waits for the values.
    comment
        Part of the folder's name.
    visdom, visdom_params
        As for :class:`AbstractTensorBoard`.

    Raises
    ------
    ConfigError
        If ``batch_step_size`` is impossible.

    Examples
    --------
    >>> TensorBoardText("logs", write_batch_metrics=True, batch_step_size=50).batch_step_size
    50
    """

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        log_dir: str | Path = "./logs",
        write_epoch_metrics: bool = True,
        write_batch_metrics: bool = False,
        log_trial_summary: bool = True,
        batch_step_size: int = 100,
        comment: str = "delira",
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
    ):
        super().__init__(
            log_dir, False, write_batch_metrics, batch_step_size, write_epoch_metrics, comment, visdom, visdom_params
        )
        check_flags(self, log_trial_summary=log_trial_summary)
        self.log_trial_summary = log_trial_summary

    def on_start(self, state: State) -> None:
        """Open the writer, and write the summary."""
        super().on_start(state)
        if self.log_trial_summary and state[keys.EPOCH] == 0 < state[keys.MAX_EPOCHS]:
            there = {str(key): state[key] for key in _SUMMARY if key in state}
            self.get_writer().add_text("trial", table({name: _text(value) for name, value in there.items()}), 0)

    def write_metrics(self, writer: Any, of: str, values: Mapping[str, Any], step: int) -> None:
        """Write a table of the values of an epoch or a batch, as ``of`` says."""
        writer.add_text(of, table(values), step)


def table(values: Mapping[str, Any]) -> str:
    """Return a table of HTML: a row for each value.

    Parameters
    ----------
    values
        By name; numbers, or texts, which may have several lines.
    """
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in values.items())
    return f"<table>{rows}</table>"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    # a reader of Markdown takes an empty line for the end of the table, and leading spaces for code
    lines = [html.escape(line).replace("  ", "&nbsp;&nbsp;") for line in str(value).splitlines() if line.strip()]
    return "<br/>".join(lines)


def _text(value: object) -> str:
    """Return a line for each of several, such as callbacks."""
    return "\n".join(map(str, value)) if hasattr(value, "__iter__") and not callable(value) else str(value)
