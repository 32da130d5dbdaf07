"""A server of visdom on this machine alone, and what it shows."""

import contextlib
import json
import multiprocessing
import socket
import time
import urllib.request

import pytest


def _serve(port, folder):
    from visdom.server.run_server import start_server

    # not "python -m visdom.server", which downloads what its page needs
    start_server(port=port, hostname="127.0.0.1", bind_local=True, base_url="", env_path=folder, readonly=False)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def running_server(folder):
    """Scope of a server; gives its port and its process."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port, str(folder)), daemon=True)
    process.start()
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            if time.monotonic() > deadline or not process.is_alive():
                process.kill()
                pytest.skip("the server of visdom does not start here")
            time.sleep(0.1)
    try:
        yield port, process
    finally:
        process.kill()
        process.join()


def windows(port, env):
    """What the server has in an environment, by the title of the window."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/win_data", json.dumps({"eid": env, "win": None}).encode()
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        found = json.loads(answer.read())
    return {window["title"]: window for window in found.values()}
