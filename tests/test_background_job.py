"""The tests of Ctrl-C pass where it is ignored: in a shell's background job."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CASE = "tests/training/test_resume_inside_an_epoch.py::test_a_signal_ends_the_training_after_the_step_with_a_checkpoint"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="shells of Windows ignore no signal for their jobs")
def test_an_interrupt_reaches_a_test_that_began_with_it_ignored():
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a program that is started inherits it
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{CASE}[toy-1-6-{signal.SIGINT:d}]"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert "1 passed" in done.stdout, done.stdout
