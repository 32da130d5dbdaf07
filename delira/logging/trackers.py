"""Handlers that hand messages to other tools: TensorBoard, MLflow, Weights & Biases, and loggers of trixi."""

import contextlib
import html
import importlib.util
import inspect
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, MissingBackendError, check_choice, check_paths, check_texts, import_optional
from delira.logging.handlers import MessageHandler, Place, as_picture, file_name, name_of
from delira.logging.messages import KINDS, PASSED_ON, Message, plain, read, read_messages, split
from delira.logging.writers import close_all, numbers_of, open_events, since, write_values
from delira.utils.pictures import as_bytes

#: what MLflow allows in the name of a metric
_NOT_MLFLOW = re.compile(r"[^\w\-. /:]")
#: schemes of databases, which mlflow-skinny cannot open
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
#: places without a scheme that are no folders
_SERVICES = ("databricks", "databricks-uc", "uc")
#: parameters that MLflow takes at once
_MOST_PARAMETERS = 100
#: MLflow's own would wait four minutes and more for a server that is not there
_WAITING = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
_SERVER_HINT = (
    ". Is the server running, and its address right? The environment variables MLFLOW_HTTP_REQUEST_TIMEOUT "
    "(seconds) and MLFLOW_HTTP_REQUEST_MAX_RETRIES let a slow one have more time"
)


#: seconds until readers see what was written for TensorBoard
_BETWEEN_FLUSHES = 1


class MLflowHandler(MessageHandler):
    """Write messages to MLflow: numbers as metrics, pictures, plots and texts as artifacts.

    Parameters
    ----------
    tracking_uri
        Where MLflow keeps its runs; None: where MLflow itself would (``MLFLOW_TRACKING_URI``).
    experiment
        Name of the experiment, which is made if there is none.
    run_name
        Name of the run.
    run_id
        A run that is continued; None makes a new one.
    level
        Records below it are left out.

    Raises
    ------
    MissingBackendError
        If MLflow is not installed, or without what ``tracking_uri`` needs.
    ConfigError
        If MLflow cannot make the run, or its server does not answer within 10 seconds, twice;
        ``MLFLOW_HTTP_REQUEST_TIMEOUT`` and ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` change that.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str = "delira",
        run_name: str | None = None,
        run_id: str | None = None,
        level: int | str = logging.NOTSET,
    ):
        # Python closes every handler at its end, also one that could not be made
        self.run_id: str = ""
        super().__init__(level)
        given = {"tracking_uri": tracking_uri, "run_name": run_name, "run_id": run_id}
        check_texts(self, experiment=experiment, **{name: text for name, text in given.items() if text is not None})
        mlflow = import_optional("mlflow", type(self).__name__, "mlflow-skinny")
        check_store(tracking_uri)
        try:
            with _short_waiting():
                # a client, not mlflow.start_run: that would be the run of the whole process
                self._client = client = mlflow.MlflowClient(tracking_uri)
                if run_id is not None:
                    client.update_run(run_id, status="RUNNING")
                else:
                    found = client.get_experiment_by_name(experiment)
                    number = found.experiment_id if found else client.create_experiment(experiment)
                    run_id = client.create_run(number, run_name=run_name).info.run_id
                self.run_id = run_id
        except mlflow.exceptions.MlflowException as error:
            uri = str(tracking_uri or mlflow.get_tracking_uri())
            hint = _SERVER_HINT if uri.startswith(("http:", "https:")) else ""
            raise ConfigError(f"MLflow cannot write to {uri!r}: {error}{hint}") from error
        except ModuleNotFoundError as error:
            uri = tracking_uri or mlflow.get_tracking_uri()
            raise MissingBackendError(
                f"MLflow needs the package {error.name!r} for {uri!r}; install it, or choose another tracking_uri"
            ) from error

    def describe_run(self, facts: Mapping[str, Any]) -> None:
        """Write parameters, seed, fold and versions as MLflow's parameters; those of a continued run stay."""
        param = importlib.import_module("mlflow.entities").Param
        known = self._client.get_run(self.run_id).data.params
        told = {_NOT_MLFLOW.sub("_", name): str(value) for name, value in facts.items()}
        new = [param(name, value) for name, value in told.items() if name not in known]
        for start in range(0, len(new), _MOST_PARAMETERS):
            self._client.log_batch(self.run_id, params=new[start : start + _MOST_PARAMETERS])

    def show(self, message: Message, place: Place | None) -> None:
        """Write one message."""
        name, step = name_of(message, place), message.step or 0
        if message.kind in ("scalar", "scalars"):
            for key, value in numbers_of(name, message.value):
                self._client.log_metric(self.run_id, _NOT_MLFLOW.sub("_", key), value, step=step)
        elif message.kind == "text":
            self._client.log_text(self.run_id, message.value, f"texts/{file_name(name)}_{step:06d}.txt")
        elif (picture := as_picture(message)) is not None:
            pixels = as_bytes(picture, type(self).__name__)
            self._client.log_image(self.run_id, pixels, f"images/{file_name(name)}_{step:06d}.png")

    def close(self) -> None:
        """Tell MLflow that the run has ended."""
        if self.run_id:
            self._client.set_terminated(self.run_id, status="FAILED" if self.has_failed else "FINISHED")
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run_id={self.run_id!r})"


class WandbHandler(MessageHandler):
    """Write messages for Weights & Biases: into files of this machine, unless ``mode="online"``.

    Numbers of epochs are drawn over ``epoch``, those of steps over ``step``.

    Parameters
    ----------
    project
        Name of the project.
    folder
        Where the files go; ``wandb sync`` sends them later.
    mode
        ``"offline"`` or ``"online"``.
    level
        Records below it are left out.
    **kwargs
        Handed to ``wandb.init``, e.g. ``name`` or ``id`` of the run.

    Raises
    ------
    MissingBackendError
        If wandb is not installed.
    """

    def __init__(
        self,
        project: str = "delira",
        folder: str | Path | None = None,
        mode: str = "offline",
        level: int | str = logging.NOTSET,
        **kwargs: Any,
    ):
        # Python closes every handler at its end, also one that could not be made
        self._run: Any = None
        self.project = project
        super().__init__(level)
        check_texts(self, project=project)
        check_choice(self, ("offline", "online", "disabled", "shared"), mode=mode)
        self._wandb = import_optional("wandb", type(self).__name__, "wandb")
        if folder is not None:
            check_paths(self, folder=folder)
            Path(folder).mkdir(parents=True, exist_ok=True)
        settings = self._wandb.Settings(silent=True, console="off", disable_git=True)
        # a run beside others of the process: trainings may be nested, or in threads
        self._run = self._wandb.init(
            project=project, dir=folder, mode=mode, **{"reinit": "create_new", "settings": settings, **kwargs}
        )
        self.run_id: str = self._run.id
        self._axes: dict[str, str] = {}

    def describe_run(self, facts: Mapping[str, Any]) -> None:
        """Write parameters, seed, fold and versions into the configuration of the run."""
        self._run.config.update(dict(facts), allow_val_change=True)

    def show(self, message: Message, place: Place | None) -> None:
        """Write one message."""
        name, axis = name_of(message, place), "step" if place is None else place.axis
        values: dict[str, Any] = {}
        if message.kind in ("scalar", "scalars"):
            values = dict(numbers_of(name, message.value))
        elif message.kind == "histogram":
            values = {name: self._wandb.Histogram(message.value[np.isfinite(message.value)])}
        elif message.kind == "text":
            values = {name: self._wandb.Html(f"<pre>{html.escape(message.value, quote=False)}</pre>", inject=False)}
        elif (picture := as_picture(message)) is not None:
            values = {name: self._wandb.Image(as_bytes(picture, type(self).__name__))}
        for key in values.keys() - self._axes.keys():
            self._axes[key] = axis
            self._run.define_metric(key, step_metric=axis)
        if values:
            self._run.log({**values, axis: message.step})

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish(exit_code=int(self.has_failed))
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.project!r})"


def check_store(tracking_uri: str | Path | None) -> None:
    """Refuse a place that the installed MLflow cannot write to; nothing is opened.

    Parameters
    ----------
    tracking_uri
        As for :class:`MLflowHandler`.

    Raises
    ------
    MissingBackendError
        If it is a database, and MLflow was installed without what opens one.
    ConfigError
        If it is a folder, which MLflow takes only if it is told to.
    """
    mlflow = import_optional("mlflow", "MLflowHandler", "mlflow-skinny")
    uri = str(tracking_uri or mlflow.get_tracking_uri())
    if uri in _SERVICES:
        return
    scheme = uri.partition(":")[0].partition("+")[0] if ":" in uri else "file"
    # an older MLflow takes folders without being told
    allowed = getattr(mlflow.environment_variables, "MLFLOW_ALLOW_FILE_STORE", None)
    missing = [name for name in ("sqlalchemy", "alembic") if importlib.util.find_spec(name) is None]
    where = f"MLflow would write to {uri!r}" + ("" if tracking_uri else ", as no tracking_uri is given")
    folder = "MLFLOW_ALLOW_FILE_STORE=true and give logging_kwargs={'tracking_uri': 'file:mlruns'}"
    if scheme in _DATABASES and missing:
        raise MissingBackendError(
            f"{where}, a database, for which the package {missing[0]!r} is not installed: mlflow-skinny does not bring "
            f"it. Install it with: pip install mlflow. Without it, set the environment variable {folder}, or give the "
            "tracking_uri of a server"
        )
    if scheme == "file" and allowed is not None and not allowed.get():
        raise ConfigError(
            f"{where}, a folder, which MLflow takes only if the environment variable MLFLOW_ALLOW_FILE_STORE is 'true'"
            "; set it before the trainer is made, or give the tracking_uri of a server"
        )


@contextlib.contextmanager
def _short_waiting() -> Iterator[None]:
    """Let MLflow give up soon on a server that does not answer, unless the user said how long it waits."""
    own = {name: value for name, value in _WAITING.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


class TensorboardXLoggingHandler(MessageHandler):
    """Write messages for TensorBoard. In a run, what belongs to steps goes to the folder ``steps`` inside.

    Parameters
    ----------
    log_dir
        Where the event files go.
    level
        Records below it are left out.
    **kwargs
        Handed to ``tensorboardX.SummaryWriter``; ``flush_secs`` is 1 unless it is given: readers see what was written
        after a second.

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
        #: by folder inside of it; and the arguments of those that are opened from now on
        self._writers: dict[str, Any] = {}
        self._places: dict[str, dict[str, Any]] = {}

    def continue_from(self, epoch: int, step: int) -> None:
        """Hide what was written after a checkpoint: in files that are opened from now on."""
        close_all(self._writers)
        self._places = {"": since(epoch, step), "steps": since(step, epoch)}

    def show(self, message: Message, place: Place | None) -> None:
        """Write one message."""
        folder = "steps" if place is not None and place.axis == "step" else ""
        if folder not in self._writers:
            arguments = {"flush_secs": _BETWEEN_FLUSHES, **self._places.get(folder, {}), **self.kwargs}
            self._writers[folder] = open_events(self.log_dir / folder, **arguments)
        writer = self._writers[folder]
        name, step = name_of(message, place), message.step or 0
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
        """Do nothing: a thread of each writer syncs its file, by ``flush_secs``, and no epoch waits for that."""

    def close(self) -> None:
        """Close the files."""
        close_all(self._writers)
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


PREFIXES = ("show_", "plot_", "save_", "get_", "")
#: kind -> what trixi calls it, and its value
_TRIXI = {
    "scalar": ("value", "value"),
    "image": ("image", "image"),
    "image_grid": ("image_grid", "image_array"),
    "histogram": ("histogram", "array"),
    "text": ("text", "text"),
    "figure": ("matplot_plt", "plt"),
    "line": ("lineplot", "y_vals"),
    "scatter": ("scatterplot", "array"),
    "bar": ("barplot", "array"),
    "pie": ("piechart", "array"),
    "boxplot": ("boxplot", "array"),
    "contour": ("contourplot", "x_vals"),
    "surface": ("surfaceplot", "x_vals"),
}


class TrixiHandler(MessageHandler):
    """Hand messages to a logger of trixi: a message ``{"value": {...}}`` to its method ``show_value``.

    For each key of a message every method is called that the logger has of ``show_<key>``, ``plot_<key>``,
    ``save_<key>``, ``get_<key>`` and ``<key>``, with the arguments of the message. If there is none, the message is
    handed over as trixi calls its kind. What the logger has no method for is left out.

    Parameters
    ----------
    logging_cls
        The class of the logger, or a logger; any object with methods ``show_...``.
    level
        Records below it are left out.
    *args, **kwargs
        Arguments of the class.

    Raises
    ------
    ConfigError
        If the class has no method ``show_...``.

    Examples
    --------
    >>> import logging
    >>> class Printer:
    ...     def show_value(self, value, name, counter=None):
    ...         print(name, value)
    >>> logger = logging.Logger("mine")
    >>> logger.addHandler(TrixiHandler(Printer))
    >>> logger.info({"value": {"args": [0.5], "kwargs": {"name": "loss"}}})
    loss 0.5
    """

    takes_any_kind = True

    def __init__(self, logging_cls: object, level: int | str = logging.NOTSET, *args: Any, **kwargs: Any):
        if not is_trixi(logging_cls):
            raise ConfigError(f"TrixiHandler takes a logger with methods like show_value, or its class; {logging_cls!r}"
                              " has none")  # fmt: skip
        if not isinstance(logging_cls, type) and (args or kwargs):
            raise ConfigError("TrixiHandler was given a logger that is made already, and arguments to make it with")
        # Python closes every handler at its end, also one that could not be made
        self.logger: Any = None
        super().__init__(level)
        self.logger = logging_cls(*args, **kwargs) if isinstance(logging_cls, type) else logging_cls

    def emit(self, record: logging.LogRecord) -> None:
        """Call the methods of the logger for every key of a message."""
        if not isinstance(record.msg, Mapping):
            return
        place = getattr(record, "place", None)
        known = getattr(record, "messages", None)
        for position, (key, content) in enumerate(record.msg.items()):
            try:
                if not (isinstance(key, str) and self._call(key, *split(content))) and key in KINDS:
                    message = known[position] if known else read(*read_messages({key: content}))
                    self.show(self._placed(message, place), place)
            except Exception:
                self.handleError(record)

    def show(self, message: Message, place: Place | None) -> None:
        """Hand a message over as trixi calls it."""
        if message.kind not in _TRIXI:
            return
        key, value_name = _TRIXI[message.kind]
        named = {value_name: message.value, "name": message.name, "counter": message.step, **message.options}
        if message.appendix:
            named["env_appendix"] = message.appendix
        self._call(key, [], named)

    def _call(self, key: str, args: list[Any], named: dict[str, Any]) -> bool:
        """Call every method for a key; whether there is one."""
        methods = [getattr(self.logger, prefix + key, None) for prefix in PREFIXES]
        called = [method for method in methods if callable(method)]
        for method in called:
            method(*map(_readable, args), **_accepted(method, {name: _readable(each) for name, each in named.items()}))
        return bool(called)

    def flush(self) -> None:
        """Let the logger write what it holds, if it can."""
        if callable(flush := getattr(self.logger, "flush", None)):
            flush()

    def close(self) -> None:
        """Close the logger, if it can be, or its writer."""
        for owner in (self.logger, getattr(self.logger, "writer", None)):
            if callable(close := getattr(owner, "close", None)):
                close()
                break
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.logger).__name__})"


def is_trixi(candidate: object) -> bool:
    """Return True if something has methods like ``show_value``."""
    return any(name.startswith("show_") and callable(getattr(candidate, name, None)) for name in dir(candidate))


def _readable(value: object) -> Any:
    """As loggers of old know it: an array of a framework as one of numpy, one of a single number as that number."""
    value = plain(value)
    return value.item() if isinstance(value, np.ndarray) and not value.shape else value


def _accepted(method: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords without step and appendix, unless the method takes them."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return named
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return named
    return {
        name: value for name, value in named.items() if name in parameters or name not in ("counter", "env_appendix")
    }
