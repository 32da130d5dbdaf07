"""A program in a pseudo terminal, and what its screen shows: with pyte, which knows what terminals do."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte


class Seen:
    """What was on the screen, at each moment and at the end."""

    def __init__(self, columns, lines):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.shots, self.code = b"", [], None

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def feed(self, data):
        self.raw += data
        self.stream.feed(data)
        self.shots.append(self.text)

    def __str__(self):
        return self.text


def run_in_terminal(program, *, columns=80, lines=24, interrupt_at=None, resize_at=None, **variables):
    """Run Python code in a terminal; ``interrupt_at`` is the text on the screen at which Ctrl-C is pressed."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    dropped = ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True
    )
    os.close(its)
    seen, end = Seen(columns, lines), time.monotonic() + 60
    with contextlib.suppress(OSError):  # the program has ended
        while time.monotonic() < end:
            if select.select([own], [], [], 0.1)[0]:
                data = os.read(own, 1 << 16)
                if not data:
                    break
                seen.feed(data)
            if interrupt_at is not None and interrupt_at in seen.text:
                interrupt_at = os.kill(process.pid, signal.SIGINT)
            if resize_at is not None and resize_at[0] in seen.text:
                columns, resize_at = resize_at[1], None
                fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                seen.screen.resize(lines, columns)
    os.close(own)
    seen.code = process.wait(10)
    return seen
