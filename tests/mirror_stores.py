"""Stores for the tests of mirrors: moto's on this machine, what is between it and a program, and what is in it."""

import contextlib
import hashlib
import json
import select
import socket
import threading

from delira.execution.place import Place
from delira.execution.snapshot import Snapshots
from delira.execution.store import Store

BUCKET = "runs"
URL = f"s3://{BUCKET}/mirror"


class Refusing:
    """A WSGI program in front of another one, that refuses to write when it is told to.

    Parameters
    ----------
    program
        The other one.
    """

    FULL = "507 Insufficient Storage", "QuotaExceeded", "the quota is used up"
    FORBIDDEN = "403 Forbidden", "AccessDenied", "you may not write here"

    def __init__(self, program):
        self.program, self.answer, self.n_refused = program, None, 0
        #: what is called with each request, as method and path
        self.heard = lambda method, path: None

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        self.heard(method, environ["PATH_INFO"])
        if self.answer is None or method not in ("PUT", "POST"):
            return self.program(environ, start_response)
        self.n_refused += 1
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code, text = self.answer
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


class Server:
    """moto's server, in a thread, on the loopback."""

    def __init__(self):
        import logging

        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.program = Refusing(DomainDispatcherApplication(create_backend_app))
        self._server = make_server("127.0.0.1", 0, self.program, threaded=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Proxy:
    """Hands bytes on between programs and a port, unless it is told to refuse, to stall or to cut."""

    def __init__(self, port):
        self._target, self._lock = port, threading.Lock()
        self._listener = None
        self._open = set()
        #: "pass"; "stall": takes connections, and bytes, and never answers; "cut": after some bytes of one direction
        self.mode, self.cut_after, self.cuts = "pass", 0, "up"
        self.n_connections = self.n_cut = 0
        self.port = 0
        self.up()

    def up(self):
        """Listen, at the port that it has always had."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def down(self):
        """Refuse connections, and end those that there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop()

    def drop(self):
        """End all connections."""
        with self._lock:
            connections = [*self._open]
        for one in connections:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def become(self, mode, *, cut_after=0, cuts="up"):
        """Do so from now on, with new connections and with old ones."""
        self.cut_after, self.cuts, self.mode = cut_after, cuts, mode
        if mode != "stall":
            self.drop()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.n_connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        n_bytes = {"up": 0, "down": 0}
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            with self._lock:
                self._open |= {client, server}
            try:
                while True:
                    for one in select.select([client, server], [], [], 0.2)[0]:
                        content = one.recv(1 << 16)
                        if not content:
                            return
                        way = "up" if one is client else "down"
                        if self.mode == "stall":
                            continue
                        if self.mode == "cut" and way == self.cuts:
                            n_bytes[way] += len(content)
                            if n_bytes[way] > self.cut_after:
                                self.n_cut += 1
                                return
                        (server if one is client else client).sendall(content)
            except OSError:
                return
            finally:
                with self._lock:
                    self._open -= {client, server}


def environment(port):
    """Variables by which fsspec finds a server of this machine, and does not wait for it for long."""
    options = {
        "endpoint_url": f"http://127.0.0.1:{port}", "key": "nobody", "secret": "nothing",
        "config_kwargs": {"connect_timeout": 0.5, "read_timeout": 0.5, "retries": {"max_attempts": 1}},
    }  # fmt: skip
    return {"FSSPEC_S3": json.dumps(options), "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


def configure(port, monkeypatch):
    """Let this process find it."""
    import fsspec.config

    told = environment(port)
    monkeypatch.setitem(fsspec.config.conf, "s3", json.loads(told.pop("FSSPEC_S3")))
    for name, value in told.items():
        monkeypatch.setenv(name, value)


def place_of(url, name="UnnamedExperiment"):
    """The place of the only run that a mirror has."""
    store = Store(url)
    (run,) = store.folders(name)
    return Place(store, f"{name}/{run}")


def check_whole(place):
    """Look at all that a place says that it has; the index that counts."""
    index = place.newest()
    if index is None:
        return None
    for name, entry in index.all.items():
        content = place.store.read(place.object(index.copy, entry.sha256))
        assert len(content) == entry.size, name
        assert hashlib.sha256(content).hexdigest() == entry.sha256, name
    return index


def check_equal(place, folder):
    """Look whether a place has what a folder has, and nothing else."""
    index = check_whole(place)
    assert place.copies() == [index.copy]
    assert place.serials(index.copy) == [index.serial]
    found = Snapshots(folder).take({}, with_logs=True)
    names = sorted((found.keys() | index.files.keys()) - {"numbers.json"})  # of who prints a result
    different = [(name, found.get(name), index.files.get(name)) for name in names]
    different = [each for each in different if each[1] != each[2]]
    assert not different, different
    assert place.objects(index.copy) == {entry.sha256: entry.size for entry in index.all.values()}
    return index
