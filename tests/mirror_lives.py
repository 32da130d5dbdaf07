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
    """Let programs live and die; what came of them."""
    sys.path[:0] = [str(TESTS / "experiments")]
    import test_mirroring as test

    from delira.execution import Mirror
    from delira.execution.snapshot import OWN

    draw, n_kills, resumed = random.Random(seed), 0, []
    for life in range(4 * kills):
        disk = folder / f"life-{life}"
        pid = os.fork()
        if not pid:
            status = 1
            try:
                asked = Mirror(mirror, every=0.02)
                result = test.kfold(disk, test.Slow(0.1), mirror=asked, resume="auto")
                (folder / "stamp").write_text(test.stamp(result))
                status = 0
            except BaseException:
                (folder / "error").write_text(traceback.format_exc())
            finally:
                os._exit(status)
        kill_at = None
        began = time.monotonic()
        while not os.waitpid(pid, os.WNOHANG)[0]:
            time.sleep(0.005)
            if time.monotonic() > began + TIMEOUT:
                os.kill(pid, signal.SIGKILL)
                (folder / "error").write_text("it did not come to an end")
            if n_kills >= kills:
                continue
            if kill_at is None:
                with contextlib.suppress(OSError, ValueError):
                    if (test.only_folder(disk) / OWN / "owner.json").exists():
                        kill_at = time.monotonic() + seconds * draw.random()
            elif time.monotonic() >= kill_at:
                os.kill(pid, signal.SIGKILL)
                n_kills += 1
                os.waitpid(pid, 0)
                break
        with contextlib.suppress(OSError, ValueError):
            run = test.RunFolder(test.only_folder(disk))
            resumed.append([each["event"] for each in run.events()].count("resumed"))
        if (folder / "stamp").exists() or (folder / "error").exists():
            break
    told = {name: (folder / name).read_text() for name in ("stamp", "error") if (folder / name).exists()}
    return {**told, "kills": n_kills, "resumed": resumed}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
