"""Backends of the user's, of which each kind of message is a method."""

from delira.logging import BaseBackend, Logger, SingleThreadedLogger, WriterLoggingBackend  # refused


class Kept(BaseBackend):
    def __init__(self):
        super().__init__()
        self.values = []

    def _scalar(self, tag, scalar_value, **kwargs):
        self.values.append((tag, scalar_value))


class Writer:
    written = []

    def __init__(self, logdir):
        self.logdir = logdir

    def add_scalar(self, tag, scalar_value):
        self.written.append((self.logdir, tag, scalar_value))


backend = Kept()
Logger(backend, logging_frequencies=2, reduce_types="max").log({"scalar": {"tag": "loss", "scalar_value": 2.0}})
logger = SingleThreadedLogger(WriterLoggingBackend(Writer, {"logdir": "here"}))
logger.log({"scalar": {"tag": "loss", "scalar_value": 4.0}})
assert backend.values == [] and Writer.written == [("here", "loss", 4.0)]
