"""What ``import delira.training`` costs in a fresh interpreter: seconds, modules, and who takes the time."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

LIMIT = 0.3  # seconds
TIMED = """
import sys, time
before = len(sys.modules)
started = time.perf_counter()
import {module}
print(time.perf_counter() - started, len(sys.modules) - before)
"""
# An installed package has its bytecode: without it every interpreter would compile all the sources again.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
LINE = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)(\S+)")


def fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=ENVIRONMENT)


def time_import(module: str) -> tuple[float, int]:
    """Seconds, and number of modules that were not there before."""
    seconds, modules = fresh("-c", TIMED.format(module=module)).stdout.split()
    return float(seconds), int(modules)


def costliest(module: str, number: int) -> list[tuple[float, str]]:
    """Milliseconds of the packages that take longest, with what they alone bring in: numpy, yaml, delira, ..."""
    taken: dict[str, float] = {}
    for own, _, _, name in LINE.findall(fresh("-X", "importtime", "-c", f"import {module}").stderr):
        parts = name.split(".")
        package = ".".join(parts[:2]) if parts[0] == "delira" else parts[0]
        taken[package] = taken.get(package, 0.0) + int(own) / 1000
    return sorted(((milliseconds, name) for name, milliseconds in taken.items()), reverse=True)[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="delira.training", help="what is imported (default delira.training)")
    parser.add_argument("--repeats", type=int, default=7, help="fresh interpreters that count (default 7)")
    parser.add_argument("--top", type=int, default=10, help="packages to show (default 10)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    time_import(given.module)  # writes the bytecode and warms the disk's cache
    runs = {"numpy": [], given.module: []}
    for _ in range(given.repeats):
        for module in runs:  # in turns: a slow minute of the machine hits both
            runs[module].append(time_import(module))
    seconds = {module: [taken for taken, _ in done] for module, done in runs.items()}
    modules = {module: done[0][1] for module, done in runs.items()}

    print(f"{'':18}{'best':>9}{'median':>9}{'modules':>9}")
    for module, taken in seconds.items():
        best, median = min(taken), statistics.median(taken)
        print(f"{module:18}{best:7.3f} s{median:7.3f} s{modules[module]:9}")
    median = statistics.median(seconds[given.module])
    print(f"{given.module}: {median:.3f} s, target < {LIMIT} s: {'kept' if median < LIMIT else 'MISSED'}")
    top = costliest(given.module, given.top)
    print("own time of the costliest packages, measured by -X importtime, which itself takes time:")
    for milliseconds, name in top:
        print(f"{milliseconds:8.1f} ms  {name}")
    if given.json:
        given.json.write_text(json.dumps({"seconds": seconds, "modules": modules, "top_ms": top}, indent=2))


if __name__ == "__main__":
    main()
