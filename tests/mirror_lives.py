"""Programs with a mirror that are killed at random instants, each on an empty disk, until one comes to its end.

It imports everything, has no threads, and forks each of them::

    python mirror_lives.py FOLDER MIRROR KILLS SEED SECONDS

The answer is one line of JSON.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parent
#: seconds after which a program that was not killed has failed
TIMEOUT = 120


def main(folder, mirror, kills, seed, seconds):
    """Let programs live and die, and begin with another mirror when one has come to its end; what came of them."""
    sys.path[:0] = [str(TESTS / "experiments")]
    import test_mirroring as test

    draw, n_kills, n_mirrors, resumed, stamps = random.Random(seed), 0, 0, [], []
    for life in range(6 * kills):
        disk, place = folder / f"life-{life}", f"{mirror}/{n_mirrors}"
        pid = os.fork()
        if not pid:
            _live(test, disk, place, folder)
        n_killed = _watch(test, pid, disk, draw.random() * seconds if n_kills < kills else None)
        n_kills += n_killed
        with contextlib.suppress(OSError, ValueError):
            run = test.RunFolder(test.only_folder(disk))
            resumed.append([each["event"] for each in run.events()].count("resumed"))
        if (folder / "error").exists():
            return {"error": (folder / "error").read_text()}
        if (folder / "stamp").exists():
            stamps.append((folder / "stamp").read_text())
            (folder / "stamp").unlink()
            n_mirrors += 1
            if n_kills >= kills:
                break
    return {"stamps": stamps, "kills": n_kills, "resumed": resumed}


def _live(test, disk, mirror, folder):
    """What a program does."""
    from delira.execution import Mirror

    try:
        result = test.kfold(disk, test.Slow(0.2), mirror=Mirror(mirror, every=0.02), resume="auto")
        (folder / "stamp.new").write_text(test.stamp(result))
        os.replace(folder / "stamp.new", folder / "stamp")
    except BaseException:
        (folder / "error").write_text(traceback.format_exc())
    finally:
        os._exit(0)


def _watch(test, pid, disk, seconds):
    """Wait for a program, or kill it so many seconds after it claimed its place; whether it was killed."""
    from delira.execution.snapshot import OWN

    kill_at, began = None, time.monotonic()
    while not os.waitpid(pid, os.WNOHANG)[0]:
        time.sleep(0.005)
        if seconds is None and time.monotonic() < began + TIMEOUT:
            continue
        if kill_at is None:
            with contextlib.suppress(OSError, ValueError):
                if (test.only_folder(disk) / OWN / "owner.json").exists():
                    kill_at = time.monotonic() + (seconds or 0)
        elif time.monotonic() >= kill_at:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return True
    return False


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
