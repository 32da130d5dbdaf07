"""Tasks on a cluster of Ray: one that is started here for as long as it is needed, or one that is there."""

import contextlib
import ipaddress
import logging
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading.workers.pool import WorkerTraceback
from delira.data_loading.workers.process import Failure
from delira.errors import ConfigError, ExecutorError, TrainingInterrupted, WorkerLostError, expect, import_optional
from delira.execution.environment import environment_set
from delira.execution.executor import (
    Copies,
    Executor,
    Handle,
    Resources,
    Shared,
    T,
    is_job_count,
    usable_cores,
    visible_gpus,
)
from delira.execution.worker import (
    THREADS,
    Setup,
    dumps_answer,
    dumps_task,
    loads_task,
    refusing_what_cannot_travel,
    shared_in,
)

_log = logging.getLogger("delira")

#: what Ray reads when it is imported or starts. The name of the last one is of another system; without it nothing
#: listens on this machine's own address alone
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TQDM_PATCH_PRINT": "0",  # Python's own print stays that
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
#: seconds for a cluster to answer
_PATIENCE = 10.0
#: how HTTP/2, in which all of Ray speaks, begins: an empty frame of settings, of the kind that the answer begins with
_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
#: characters of a folder in which Ray has place for the paths of its sockets
_SHORT = 30


class RayExecutor(Executor):
    """Runs tasks in processes of a cluster of Ray, placed by what they need; ``pip install delira[ray]``.

    Without an address a cluster of this machine is begun, and ended by :meth:`shutdown`: without a dashboard, without
    reports of its use, and with ports that this machine alone can reach. Data that tasks share are put into the
    cluster once.

    Parameters
    ----------
    address
        Of a cluster that is there, ``"192.0.2.1:6379"`` or ``"auto"``; ``None``: the one that the program is connected
        to, else that of the environment variable ``RAY_ADDRESS``, else one of its own.
    n_jobs
        Tasks at the same time; ``None`` or -1: as many as the cluster has place for.
    allow_network
        Whether ports of a cluster of its own may be reached from other machines, where Ray opens them so.

    Raises
    ------
    ConfigError
        If the cluster does not answer, or other machines could reach one of its own and nobody allowed it.
    MissingBackendError
        If Ray is not installed.
    """

    def __init__(self, address: str | None = None, *, n_jobs: int | None = None, allow_network: bool = False):
        is_address = address is None or (isinstance(address, str) and address != "")
        is_count = n_jobs is None or is_job_count(n_jobs)
        expect(
            ("address", address, is_address, "'host:port' or 'auto'"),
            ("n_jobs", n_jobs, is_count, "a number of tasks from 1, or -1: as many as fit"),
            ("allow_network", allow_network, isinstance(allow_network, bool), "True or False"),
        )
        self._ray = _imported()
        self.n_jobs = None if n_jobs in (None, -1) else int(n_jobs)  # type: ignore[arg-type]
        self._is_connected = False
        self._folder: Path | None = None
        self._waiting: list[_RayHandle[Any]] = []
        self._running: list[_RayHandle[Any]] = []
        self._shared = Copies[Any](lambda reference: None)
        """References in the cluster, which keeps what is referred to."""
        self._is_open = True
        if address is None and not self._ray.is_initialized():
            told = os.environ.get("RAY_ADDRESS")
            if told and told != "local":  # as Ray understands it
                _log.info("executor='ray' connects to the cluster that RAY_ADDRESS names: %s", told)
                address = told
        if address is not None:
            self._connect(address)
        elif not self._ray.is_initialized():
            self._begin(allow_network)
        self._remote = self._ray.remote(max_retries=0)(_run)
        if self.n_jobs is None and address is None:
            self.n_jobs = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, task: Callable[[], T], resources: Resources) -> Handle[T]:
        """Take a task; see :meth:`Executor.submit`."""
        if not self._is_open:
            raise ExecutorError("this executor was shut down; make a new one")
        resources = resources.settled()
        self._check_fits(resources)
        with refusing_what_cannot_travel(task, "the task"):
            shared = shared_in(task)
            references = [self._shared.of(each, lambda value: self._ray.put(_packed(value))) for each in shared]
            keys = {id(each): number for number, each in enumerate(shared)}
            body = dumps_task(keys)(task, protocol=pickle.HIGHEST_PROTOCOL)
        handle = _RayHandle[T](self, body, references, resources)
        self._waiting.append(handle)
        self.poll()
        return handle

    def n_gpus(self) -> float:
        """Return how many GPUs the cluster has."""
        return float(self._ray.cluster_resources().get("GPU", 0))

    def shutdown(self) -> None:
        """Stop all tasks at once, and end the cluster if it is its own."""
        if not self._is_open:
            return
        self._is_open = False
        for handle in [*self._waiting, *self._running]:
            handle.drop(CancelledError("the executor was shut down"))
        self._shared.clear()
        if self._is_connected:
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def poll(self) -> None:
        """See which tasks have ended, and begin those that there is place for."""
        ended: Sequence[Any] = ()
        if self._running:
            refs = [handle.ref for handle in self._running]
            ended, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        self._running = [handle for handle in self._running if handle.ref not in ended]
        while self._waiting and (self.n_jobs is None or len(self._running) < self.n_jobs):
            handle = self._waiting.pop(0)
            needs = handle.resources
            # what the job of Ray says of its workers is meant for them more than what the program says of itself
            said = self._ray.get_runtime_context().runtime_env.get("env_vars") or {}
            variables = {**environment_set(), **said, **dict.fromkeys(THREADS, str(needs.cpus))}
            options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "runtime_env": {"env_vars": variables}}
            sent = Setup.of_this(), self._folder_of_program(), handle.body
            handle.ref = self._remote.options(**options).remote(*sent, *handle.shared)
            self._running.append(handle)

    def cancel(self, handle: "_RayHandle[Any]") -> None:
        """Have a task not begin, or ask it to stop."""
        if handle in self._waiting:
            self._waiting.remove(handle)
            handle.drop(CancelledError("the task was cancelled before it began"))
        elif handle.ref is not None:
            self._ray.cancel(handle.ref, force=False)

    # ------------------------------------------------------------------ the cluster

    def _folder_of_program(self) -> str | None:
        """Where relative paths begin; ``None``: Ray brings each task the folder of its own, or it was deleted."""
        if self._ray.get_runtime_context().runtime_env.get("working_dir"):
            return None
        with contextlib.suppress(OSError):
            return os.getcwd()
        return None

    def _check_fits(self, needs: Resources) -> None:
        """Refuse a task that no machine of the cluster could ever take: Ray would wait for one."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        has = [(node.get("CPU", 0), node.get("GPU", 0)) for node in nodes]
        if not any(cpus >= needs.cpus and gpus >= needs.gpus for cpus, gpus in has):
            machines = ", ".join(f"{cpus:g} and {gpus:g}" for cpus, gpus in sorted(set(has), reverse=True))
            raise ExecutorError(
                f"a task needs {needs.cpus} cores and {needs.gpus:g} GPUs, and no machine of the cluster has as many "
                f"(they have {machines}); ask for less in resources={{'cpus': …, 'gpus': …}}, or add a machine"
            )

    def _connect(self, address: str) -> None:
        if self._ray.is_initialized():
            raise ConfigError(
                f"this program is connected to a cluster of Ray already; leave address={address!r} out, or call "
                "ray.shutdown() before"
            )
        try:
            _knock(address)
            with _keeping_signals():
                self._ray.init(address=address, configure_logging=False)
        except Exception as error:
            raise ConfigError(f"no cluster of Ray answers at {address!r}: {error}") from error
        self._is_connected = True

    def _begin(self, allow_network: bool) -> None:
        # paths of its sockets may have 107 characters
        parent = "/tmp" if len(tempfile.gettempdir()) > _SHORT and os.path.isdir("/tmp") else None
        self._folder = Path(tempfile.mkdtemp(prefix="ray-", dir=parent))
        try:
            with _keeping_signals():
                self._ray.init(
                    num_cpus=usable_cores(), num_gpus=len(visible_gpus()), include_dashboard=False,
                    _temp_dir=str(self._folder), configure_logging=False,
                )  # fmt: skip
        except Exception as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise ConfigError(f"no cluster of Ray could be begun here: {error}; use executor='processes'") from error
        self._is_connected = True
        if (ports := sorted(_ports_for_others())) and not allow_network:
            self.shutdown()
            raise ConfigError(
                f"the cluster of Ray listens on {', '.join(ports)}, where other machines can reach it: begin a cluster "
                "yourself and say address=…, import ray after the executor was made, or say allow_network=True"
            )


class _RayHandle(Handle[T]):
    """One task of a :class:`RayExecutor`."""

    def __init__(self, executor: RayExecutor, body: bytes, shared: list[Any], resources: Resources):
        self.body, self.shared, self.resources = body, shared, resources
        self.ref: Any = None
        self._executor = executor
        self._error: BaseException | None = None

    def drop(self, error: BaseException) -> None:
        """End it at once."""
        self._error = error
        if self.ref is not None:
            self._executor._ray.cancel(self.ref, force=True)

    def done(self) -> bool:
        """Return True if there is a result."""
        if self._error is None:
            self._executor.poll()
        return self._error is not None or (self.ref is not None and self not in self._executor._running)

    def result(self) -> T:
        """Wait for the result."""
        ray = self._executor._ray
        while not self.done():
            ray.wait([handle.ref for handle in self._executor._running], timeout=0.5, fetch_local=False)
        if self._error is not None:
            raise self._error
        try:
            answer = pickle.loads(ray.get(self.ref))
        except ray.exceptions.TaskCancelledError as error:
            raise CancelledError("the task was cancelled before it began") from error
        except ray.exceptions.RayTaskError as error:  # before it began: what it is made of could not be unpacked
            cause = error.cause
            cause.add_note("while a worker of Ray unpacked what it was sent: its modules must be importable there")
            raise cause from error
        except ray.exceptions.RayError as error:
            raise WorkerLostError(f"a worker of Ray was lost while it ran a task: {error}") from error
        if isinstance(answer, Failure):
            failed = answer.unpacked()
            failed.__cause__ = WorkerTraceback(answer.text)
            raise failed
        return answer  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Have it not begin, or ask it to stop."""
        if self._error is None:
            self._executor.cancel(self)


# ------------------------------------------------------------------ in a worker


def _run(setup: Setup, folder: str | None, body: bytes, *packed: Any) -> bytes:
    """Do a task in a worker of Ray, in a folder, and return its answer."""
    setup.take_over()
    answer: Any
    try:
        _enter(folder)
        shared = {number: Shared(_unpacked(each)) for number, each in enumerate(packed)}
        task = loads_task(shared)(body)
        answer = task()
    except KeyboardInterrupt:  # how Ray asks a task to stop, where no training hears of it
        answer = Failure.of(TrainingInterrupted(signal.SIGINT, "SIGINT: stopped where no training was running"))
    except BaseException as error:  # SystemExit too: the other process decides
        answer = Failure.of(error, dumps_answer)
    try:
        return dumps_answer(answer)
    except Exception as error:
        error.add_note("while the answer of a task was sent")
        return dumps_answer(Failure.of(error, dumps_answer))


def _enter(folder: str | None) -> None:
    """Have relative paths begin where they do in the program: data read elsewhere would be others."""
    if folder is None:
        return
    try:
        os.chdir(folder)
    except OSError as error:
        raise ExecutorError(
            f"the program works in {folder!r}, which a worker of Ray on {socket.gethostname()!r} cannot enter "
            f"({error.strerror}): begin it in a folder that all machines of the cluster have, or have Ray bring it by "
            "ray.init(runtime_env={'working_dir': '.'})"
        ) from error


def _packed(value: object) -> tuple[bytes, list[np.ndarray]]:
    """Return what is shared as bytes and arrays, which lie in the memory of the cluster once."""
    buffers: list[pickle.PickleBuffer] = []
    body = dumps_task({})(value, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    return body, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def _unpacked(packed: tuple[bytes, list[np.ndarray]]) -> Any:
    """Return it again, with arrays of this process's own: a transform may write into them."""
    body, buffers = packed
    return pickle.loads(body, buffers=[bytearray(buffer) for buffer in buffers])


# ------------------------------------------------------------------ ports


@contextlib.contextmanager
def _keeping_signals() -> Iterator[None]:
    """Scope after which SIGTERM means what it did: Ray would end the program with another exit code."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def _knock(address: str) -> None:
    """See that somebody listens who speaks as Ray does: Ray itself tries for many minutes, or for ever.

    Raises
    ------
    OSError
        If nobody does.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal()):
        return
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as knock:
        if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
            return
        knock.sendall(_GREETING)
        try:
            answer = knock.recv(len(_SETTINGS))
        except TimeoutError as error:
            raise OSError(f"something listens there, and says nothing for {_PATIENCE:g} s") from error
        if answer[3:4] != _SETTINGS[3:4]:
            raise OSError("something else listens there")


def _imported() -> Any:
    """Import Ray, such that a cluster that it begins is this machine's own, and errors are shown as before."""
    is_asked = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" in os.environ
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    hook = sys.excepthook
    ray = import_optional("ray", "executor='ray'", "delira[ray]")
    sys.excepthook = hook
    if not is_asked and (constants := sys.modules.get("ray._private.ray_constants")) is not None:
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined] # the program had imported it before
    return ray


def _ports_for_others() -> set[str]:
    """Addresses on which processes that this one started can be reached from other machines."""
    import psutil

    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN and not _is_loopback(connection.laddr.ip):
                    found.add(f"{connection.laddr.ip}:{connection.laddr.port}")
    return found


def _is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
