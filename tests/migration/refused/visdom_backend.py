"""A backend that needs a server, which is made only where it is wanted."""

import delira.logging


def logger_of_server(port=8097):
    return delira.logging.make_logger(delira.logging.VisdomBackend({"env": "mine", "port": port}))  # refused


assert callable(logger_of_server)
