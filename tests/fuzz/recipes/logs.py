"""Handlers and loggers: refused when they are made, not at the first message."""

import io
import logging

from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_COUNT, NOT_A_MAPPING, NOT_A_PATH, NOT_A_TEXT, NOT_CALLABLE, STRANGE

from delira.logging import MessageHandler, close_logger, make_logger

NAMES = [5, NAN, [], {}, STRANGE, True, ""]
LEVELS = ["nonsense", 1.5, NAN, [], {}, STRANGE, None]
STREAMS = ["x", 5, NAN, STRANGE, None]
FREQUENCIES = ["x", 0, -1, 1.5, NAN, [], STRANGE, {"a": 0}, {"a": "x"}, True]
REDUCTIONS = ["nonsense", 5, NAN, STRANGE, {"a": "nonsense"}, {"a": 5}]
PORTS = [*NOT_A_COUNT, 70000]


class Shows:
    """A logger as those of trixi are."""

    def show_value(self, value, name, counter=None):
        pass


def entry(name, good, wrong, **more):
    return Entry(name=f"delira.logging.{name}", good=good, wrong=wrong, **more)


def closed(logger, folder):
    """Its name; the log is gone afterwards."""
    logger.close()
    close_logger(logger.name)
    return logger.name


def made(folder):
    """A log that is known by its name."""
    close_logger("known")
    make_logger("known", MessageHandler())
    return {"*": ["known"]}


ENTRIES = [
    entry(
        "MessageHandler",
        lambda folder: {},
        {"level": LEVELS},
        use=lambda handler, folder: handler.level,
        expected=lambda arguments: logging.getLevelName("INFO") if arguments.get("level") == "INFO" else 0,
        right={"level": ["INFO", 0]},
    ),
    entry("MessageFileHandler", lambda folder: {"path": folder / "x.jsonl"}, {"path": NOT_A_PATH, "level": LEVELS}),
    entry(
        "ImgSaveHandler",
        lambda folder: {"folder": folder / "x"},
        {"folder": NOT_A_PATH, "level": LEVELS, "file_format": [*NOT_A_TEXT, "nonsense"]},
    ),
    entry(
        "MultiStreamHandler",
        lambda folder: {"*": [io.StringIO()]},
        {"*0": STREAMS, "level": LEVELS},
        says={"*0": ["stream"]},
    ),
    entry(
        "TensorboardXLoggingHandler",
        lambda folder: {"log_dir": folder / "x"},
        {"log_dir": NOT_A_PATH, "level": LEVELS},
        use=lambda handler, folder: handler.close(),
        needs="tensorboardX",
    ),
    entry(
        "TrixiHandler", lambda folder: {"logging_cls": Shows()}, {"logging_cls": ["x", 5, NAN, None], "level": LEVELS}
    ),
    entry(
        "MLflowHandler",
        lambda folder: {"tracking_uri": str(folder)},
        {
            "tracking_uri": [*NOT_A_TEXT],
            "experiment": NAMES,
            "run_name": NOT_A_TEXT,
            "run_id": NOT_A_TEXT,
            "level": LEVELS,
        },
        needs="mlflow",
    ),
    entry(
        "WandbHandler",
        lambda folder: {"folder": folder},
        {"project": NAMES, "folder": NOT_A_PATH, "mode": [*NOT_A_TEXT, "nonsense"], "level": LEVELS},
        needs="wandb",
    ),
    *(
        entry(
            name,
            lambda folder: {"exp_name": "x"},
            {"exp_name": NAMES, "server": NAMES, "port": PORTS, "level": LEVELS},
            needs="visdom",
        )
        for name in ("VisdomImageHandler", "VisdomLoggingHandler")
    ),
    *(
        entry(
            name,
            lambda folder: {"exp_name": "x", "folder": folder / "x"},
            {"exp_name": NAMES, "folder": NOT_A_PATH, "level": LEVELS},
            needs="visdom",
        )
        for name in ("VisdomImageSaveHandler", "VisdomImageSaveStreamHandler")
    ),
    entry("VisdomStreamHandler", lambda folder: {"*": ["x"]}, {"*0": NAMES, "level": LEVELS}, needs="visdom"),
    *(
        entry(
            name,
            lambda folder: {"name": "x"},
            {"name": NAMES, "frequencies": FREQUENCIES, "reductions": REDUCTIONS},
            use=closed,
            expected=lambda arguments: "x",
            right={"frequencies": [1, 5, {"a": 3}], "reductions": ["mean"]},
            free={"handlers": "handlers of Python's logging", "place": "the trainer's"},
        )
        for name in ("MessageLogger", "make_logger")
    ),
    entry(
        "MessageLogger",
        lambda folder: {"name": "x"},
        {"handlers": ["x", 5, NAN, STRANGE, [5]], "place": NOT_CALLABLE},
        use=closed,
        free={"name": "above", "frequencies": "above", "reductions": "above"},
    ),
    entry(
        "LoggingContext",
        lambda folder: {"name": "x"},
        {"name": NAMES, "frequencies": FREQUENCIES, "reductions": REDUCTIONS},
    ),
    entry("close_logger", made, {"*0": NAMES}, says={"*0": ["name"]}),
    entry("get_logger", made, {"*0": [*NAMES, "nonsense"]}, use=closed, says={"*0": ["no log", "logger"]}),
    entry(
        "log",
        lambda folder: {"message": {"scalar": {"name": "a", "value": 1.0}}, "name": made(folder)["*"][0]},
        {"message": [*NOT_A_MAPPING, {"nonsense": {}}], "name": ["nonsense", *NAMES]},
        use=lambda given, folder: None,
        says={"name": ["no log"], "message": ["message"]},
    ),
    entry(
        "Message",
        lambda folder: {"kind": "scalar", "name": "a"},
        {},
        use=lambda message, folder: message.kind,
        expected=lambda arguments: arguments["kind"],
        right={"kind": ["scalar", "image", "text", "histogram"]},
        free=dict.fromkeys(("name", "value", "step", "options", "args", "appendix"), "a record that loggers fill in"),
    ),
    entry(
        "Place",
        lambda folder: {"axis": "epoch", "step": 1, "epoch": 1, "fold": 0},
        {},
        use=lambda place, folder: place.step,
        expected=lambda arguments: arguments["step"],
        right={"step": [1, 2, 3, 4]},
        free=dict.fromkeys(("axis", "epoch", "fold"), "a record that trainers fill in"),
    ),
]
