"""Logs of 0.5: a logger of a backend, known by a name."""

import os

import tensorboardX

from delira.logging import TensorboardBackend, log, make_logger, register_logger, unregister_logger  # refused
from delira.logging import get_available_loggers, logger_exists  # refused

logger = make_logger(TensorboardBackend({"logdir": "events"}), logging_frequencies=2, reduce_types="mean")  # refused
register_logger(logger, "mine")
assert logger_exists("mine") and not logger_exists("other") and get_available_loggers() == ("mine",)
for value in (1.0, 3.0):
    log({"scalar": {"tag": "loss", "scalar_value": value}}, "mine")
unregister_logger("mine")
assert tensorboardX and os.listdir("events") and not logger_exists("mine")
