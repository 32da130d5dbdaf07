"""Files that a server on the loopback of this machine gives by ranges of bytes, and what goes wrong with servers."""

import contextlib
import hashlib
import http.server
import threading
import time
import urllib.request

import numpy as np


class Served:
    """Files by name; changes are seen at once.

    Attributes
    ----------
    files : dict
        Name -> bytes.
    asked : list of tuple
        Method, name and number of bytes sent, of each request that was answered.
    faults : list
        Statuses that the next requests are answered with; ``"hang"``: nothing comes for a while.
    refused : set
        Names that nobody may read.
    has_ranges : bool
        Whether a range of bytes may be asked for.
    has_etags : bool
        Whether it says what tells a content from others of its size.
    """

    def __init__(self):
        self.files, self.asked, self.faults, self.refused = {}, [], [], set()
        self.has_ranges = self.has_etags = True
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def save(self, name, array):
        import io

        file = io.BytesIO()
        np.save(file, array)
        self.files[name] = file.getvalue()
        return f"{self.url}/{name}"

    def save_folder(self, folder, name):
        for path in folder.rglob("*"):
            if path.is_file():
                self.files[f"{name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
        return f"{self.url}/{name}"

    def n_sent(self, method="GET"):
        return sum(size for asked, _, size in self.asked if asked == method)

    def _handler(served):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def _answer(self):
                name = self.path.partition("?")[0].lstrip("/")
                fault = served.faults.pop(0) if served.faults else None
                if fault == "hang":
                    time.sleep(5)
                status = fault if isinstance(fault, int) else 403 if name in served.refused else 200
                content = served.files.get(name)
                if status == 200 and content is None:
                    status = 404
                if status != 200:
                    self._send(status, b"", {})
                    return
                headers = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'} if served.has_etags else {}
                wanted = self.headers.get("Range")
                if wanted and served.has_ranges:
                    first, last = wanted.removeprefix("bytes=").split("-")
                    last = min(int(last), len(content) - 1)
                    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                    status, content = 206, content[int(first) : last + 1]
                self._send(status, content, headers)

            do_GET = do_HEAD = _answer

            def _send(self, status, content, headers):
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                sent = 0
                if self.command == "GET":
                    with contextlib.suppress(ConnectionError):
                        self.wfile.write(content)
                    sent = len(content)
                served.asked.append((self.command, self.path.partition("?")[0].lstrip("/"), sent))

        return Handler


@contextlib.contextmanager
def serving():
    served = Served()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        served.server.server_close()
        thread.join()


@contextlib.contextmanager
def s3_server(bucket="bucket"):
    """A store as S3 has it; gives ``storage_options`` for it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "testing-key", "secret": "testing-secret", "client_kwargs": {
        "endpoint_url": f"http://{host}:{port}", "region_name": "eu-west-1"}}  # fmt: skip
    try:
        import s3fs

        reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()  # moto's stores are those of the process
        s3fs.S3FileSystem(**options, skip_instance_cache=True).mkdir(bucket)
        yield options
    finally:
        server.stop()
