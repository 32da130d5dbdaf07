"""Messages as event files of TensorBoard, written by tensorboardX."""

import logging
from pathlib import Path
from typing import Any

from delira.logging.handlers import MessageHandler, Place, as_picture, own_appendix
from delira.logging.messages import PASSED_ON, Message
from delira.logging.writers import EventFiles, since, write_values
from delira.utils.checks import check_paths
from delira.utils.optional import import_optional


class TensorboardXLoggingHandler(MessageHandler):
    """Write messages for TensorBoard. In a run, what belongs to steps goes to the folder ``steps`` inside.

    Parameters
    ----------
    log_dir
        Where the event files go.
    level
        Records below it are left out.
    **kwargs
        Handed to ``tensorboardX.SummaryWriter``.

    Raises
    ------
    MissingBackendError
        If tensorboardX is not installed.

    Examples
    --------
    >>> import logging, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     logger, handler = logging.Logger("mine"), TensorboardXLoggingHandler(folder)
    ...     logger.addHandler(handler)
    ...     logger.info({"scalar": {"tag": "loss", "scalar_value": 0.5, "global_step": 1}})
    ...     handler.close()
    """

    def __init__(self, log_dir: str | Path, level: int | str = logging.NOTSET, **kwargs: Any):
        import_optional("tensorboardX", type(self).__name__, "delira[logging]")
        super().__init__(level)
        check_paths(self, log_dir=log_dir)
        self.log_dir, self.kwargs = Path(log_dir).absolute(), kwargs
        self._files = EventFiles(self.log_dir, **kwargs)

    def continue_from(self, epoch: int, step: int) -> None:
        """Hide what was written after a checkpoint: in files that are opened from now on."""
        self._files.continue_at({"": since(epoch, step), "steps": since(step, epoch)})

    def show(self, message: Message, place: Place | None) -> None:
        """Write one message."""
        writer = self._files.writer("steps" if place is not None and place.axis == "step" else "")
        name, step = message.name + own_appendix(message, place), message.step or 0
        picture = None if message.kind == "histogram" else as_picture(message)
        if message.kind in PASSED_ON:
            getattr(writer, f"add_{message.kind}")(*message.args, **_as_tensorboard(message, step))
        elif message.kind in ("scalar", "scalars"):
            write_values(writer, name, message.value, step)
        elif message.kind == "text":
            writer.add_text(name, message.value, step)
        elif picture is None:
            writer.add_histogram(name, message.value, step)
        else:
            writer.add_image(name, picture, step)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._files.flush()

    def close(self) -> None:
        """Close the files."""
        self._files.close()
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.log_dir)!r})"


def _as_tensorboard(message: Message, step: int) -> dict[str, Any]:
    """Return the keywords of what is only passed on, by the names that ``tensorboardX`` has for them."""
    options = {name: value for name, value in message.options.items() if name != "env_appendix"}
    if message.kind == "hparams":
        return options
    for old, new in (("name", "tag"), ("counter", "global_step"), ("step", "global_step")):
        if old in options:
            options[new] = options.pop(old)
    return {"global_step": step, **options}
