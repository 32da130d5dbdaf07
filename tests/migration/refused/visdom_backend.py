"""A backend that needs a server, which is asked only where the log is made."""

from delira.logging import VisdomBackend, make_logger  # refused


def logger_of_server(port=1):
    return make_logger(VisdomBackend({"env": "mine", "server": "http://127.0.0.1", "port": port}))  # refused


try:
    import visdom
except ImportError:
    visdom = None
try:
    logger_of_server()
except Exception as error:  # nobody answers there
    assert visdom is None or "http://127.0.0.1:1" in str(error)
