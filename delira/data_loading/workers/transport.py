"""Objects between a process and its workers, through anonymous files.

What is sent is written to files without a name (in memory, on Linux), and the files are handed over through
a socket. The message itself is a few bytes, which arrive wholly or not at all: a sender that is killed never
leaves half of one. Nothing is left behind either, since the system frees such a file with its last user.

Only objects of our own live processes are pickled here, never what comes from disk.
"""

import mmap
import os
import pickle
import socket
import struct
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

_LARGE = 2**16  # bytes from which on an array is not copied but mapped
_MOST_FILES = 16  # of one message; the system hands over about 250 at once
_ALIGNMENT = 64
_MESSAGE = struct.Struct("<qqq")  # the number of files, and what the sender says about them
_MOST_MAPPINGS = 128  # each keeps a file descriptor open, of which a process may have 1,024 or fewer

_mappings: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


class Unreadable(Exception):
    """A message arrived and could not be unpacked; the cause says why.

    Parameters
    ----------
    tag
        What the sender said about it.
    """

    def __init__(self, tag: tuple[int, int]) -> None:
        super().__init__(tag)
        self.tag = tag


class Packed:
    """An object as anonymous files, to be sent once or several times.

    Parameters
    ----------
    value
        Anything that can be pickled; large arrays are written to files without a further copy.
    dumps
        ``pickle.dumps`` or a function with its signature.
    together
        Write all large arrays to one file. Otherwise each gets its own, so that a receiver who keeps the
        label of a batch does not keep its images in memory.
    """

    def __init__(self, value: object, *, dumps: Callable[..., bytes] = pickle.dumps, together: bool = False) -> None:
        buffers: list[memoryview] = []

        def stays_inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= _LARGE:
                buffers.append(raw)
            return raw.nbytes < _LARGE

        body = dumps(value, protocol=5, buffer_callback=stays_inside)
        groups = [[buffer] for buffer in buffers]
        if (together and buffers) or len(buffers) >= _MOST_FILES:
            groups = [buffers]
        sizes = [[buffer.nbytes for buffer in group] for group in groups]
        self._files: list[int] = []
        try:
            for group in ([memoryview(pickle.dumps((sizes, body)))], *groups):
                self._files.append(anonymous_file())
                _write(self._files[-1], group)
        except BaseException:
            self.close()
            raise

    def send(self, connection: socket.socket, tag: tuple[int, int] = (0, 0)) -> None:
        """Send it.

        Parameters
        ----------
        connection
            A stream socket of the Unix family.
        tag
            Two numbers that arrive even if the object cannot be unpacked.

        Raises
        ------
        OSError
            If nobody is there to receive it any more.
        """
        socket.send_fds(connection, [_MESSAGE.pack(len(self._files), *tag)], self._files)

    def close(self) -> None:
        """Close the files; those that were sent live on with their receivers."""
        while self._files:
            os.close(self._files.pop())


def send(connection: socket.socket, value: object, tag: tuple[int, int] = (0, 0)) -> None:
    """Send one object; raises OSError if nobody is there to receive it any more."""
    packed = Packed(value)
    try:
        packed.send(connection, tag)
    finally:
        packed.close()


def receive(connection: socket.socket, *, private: bool = False) -> Any:
    """Receive one object.

    Parameters
    ----------
    connection
        A stream socket of the Unix family.
    private
        Whether others receive the same files: what is written to an array is then seen here alone.

    Raises
    ------
    EOFError
        If the sender is gone.
    Unreadable
        If the object cannot be unpacked.
    """
    message, files, _, _ = socket.recv_fds(connection, _MESSAGE.size, _MOST_FILES)
    if not message:
        raise EOFError("the other end is closed")
    count, *tag = _MESSAGE.unpack(message)
    try:
        if len(files) != count:
            raise OSError("a message came without its files: too many files are open in this process (ulimit -n)")
        sizes, body = pickle.loads(_read(files[0]))
        buffers = []
        for file, group in zip(files[1:], sizes, strict=True):
            memory, start = _map(file, private), 0
            for size in group:
                buffers.append(memory[start : start + size])
                start = _aligned(start + size)
        return pickle.loads(body, buffers=buffers)
    except Exception as error:
        raise Unreadable((tag[0], tag[1])) from error
    finally:
        for file in files:
            os.close(file)


def anonymous_file() -> int:
    """Open a file without a name and return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("delira")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: int, buffers: list[memoryview]) -> None:
    start = 0
    for buffer in buffers:
        rest = buffer
        while rest.nbytes:  # the system writes 2 GB at a time
            written = os.pwrite(file, rest, start)
            rest, start = rest[written:], start + written
        start = _aligned(start)


def _read(file: int) -> bytearray:
    memory = bytearray(os.fstat(file).st_size)
    read = 0
    while read < len(memory):  # the system reads 2 GB at a time
        read += os.preadv(file, [memoryview(memory)[read:]], read)
    return memory


def _map(file: int, private: bool) -> memoryview:
    """Show a file as writable memory, which is freed with the last array in it."""
    size = os.fstat(file).st_size
    if not private and len(_mappings) >= _MOST_MAPPINGS:
        return memoryview(_read(file))
    sharing = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    mapping = mmap.mmap(file, size, flags=sharing, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    _mappings.add(mapping)
    return memoryview(mapping)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT
