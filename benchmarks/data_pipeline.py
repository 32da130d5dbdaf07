"""What the data pipeline delivers: batches per second beside its peers, memory, and what many epochs leave behind.

The same samples with the same transforms go through delira in this process and with workers, through
batchgenerators' MultiThreadedAugmenter as it comes, and through torch's DataLoader with the transforms per sample.
"""

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _pipeline_memory as memory
import _pipeline_throughput as throughput

FASTER_WITH_WORKERS = 1.5  # 2 workers to none, on 2 cores
AS_FAST_AS_PEERS = 1.0  # 2 workers to the best peer
FASTER_PLAIN = 5.0  # arrays without transforms to a DataLoader without workers
MEGABYTES = 1300  # of 1,000 cached, beside a constant per worker
GROWTH = 1.05  # of resident memory, from a tenth of the epochs to all of them
WORKERS = 4  # of the part "memory"


def verdict(what: str, value: float, limit: float, at_least: bool = True) -> dict[str, Any]:
    kept = value >= limit if at_least else value <= limit
    sign = ">=" if at_least else "<="
    print(f"  {what:52}{value:9.2f}   target {sign} {limit:.2f}: {'kept' if kept else 'MISSED'}")
    return {"what": what, "value": value, "limit": limit, "kept": kept}


# ------------------------------------------------------------------ the parts


def augmented(title: str, make_task: Callable[[], throughput.Task], given: argparse.Namespace) -> dict[str, Any]:
    if not throughput.HAS_BATCHGENERATORS:
        print(f"{title}: skipped, batchgenerators is not installed")
        return {}
    found = race(title, make_task(), throughput.AUGMENTED, given.rounds)
    best = best_of(found, [name for name in found if not name.startswith("delira")])
    kept = [verdict("delira 2 workers / in process", throughput.ratio(found, "delira, 2 workers", "delira, in process"),
                    FASTER_WITH_WORKERS)]  # fmt: skip
    if best:
        value = throughput.ratio(found, "delira, 2 workers", best)
        kept.append(verdict(f"delira 2 workers / {best}", value, AS_FAST_AS_PEERS))
    return {"figures": plain(found), "targets": kept}


def images(given: argparse.Namespace) -> dict[str, Any]:
    return augmented("2D: batches of 16 x 3 x 224 x 224, augmented", throughput.images, given)


def volumes(given: argparse.Namespace) -> dict[str, Any]:
    return augmented("3D: batches of 2 x 1 x 96 x 96 x 96, augmented", throughput.volumes, given)


def digits(given: argparse.Namespace) -> dict[str, Any]:
    title = "digits: batches of 32 x 64, no transforms"
    found = race(title, throughput.digits(), throughput.PLAIN, 3 * given.rounds)
    targets = [
        verdict(f"delira / {name}", throughput.ratio(found, "delira, in process", name), FASTER_PLAIN)
        for name in list(found)[1:]
    ]
    return {"figures": plain(found), "targets": targets}


def cached(given: argparse.Namespace) -> dict[str, Any]:
    print(f"memory: 1,000 cached samples of 1 MB, all touched by each of {WORKERS} workers; sum of PSS in MB")
    print(f"  {'':26}{'in process':>12}{f'{WORKERS} workers':>12}{'same, 4 MB cached':>20}{'per worker':>12}")
    names = ["delira", "DataLoader"] if throughput.HAS_TORCH else ["delira"]
    figures = {}
    for name in names:
        alone, all_of_it = memory.memory(name, 0, 1000), memory.memory(name, WORKERS, 1000)
        constant = memory.memory(name, WORKERS, 4)
        per_worker = (constant - memory.memory(name, 0, 4)) / WORKERS
        print(f"  {name:26}{alone:12.0f}{all_of_it:12.0f}{constant:20.0f}{per_worker:12.1f}")
        figures[name] = {"in process": alone, "workers": all_of_it, "small": constant, "per worker": per_worker}
    ours = figures["delira"]
    what = f"delira, without {ours['per worker']:.0f} MB for each worker"
    return {
        "figures": figures,
        "targets": [verdict(what, ours["workers"] - WORKERS * ours["per worker"], MEGABYTES, at_least=False)],
    }


def epochs(given: argparse.Namespace) -> dict[str, Any]:
    early = given.epochs // 10
    print(
        f"epochs: 2 batches of 32 x 8 each; memory and open files of all processes after {early:,} and {given.epochs:,}"
    )
    print(f"  {'':26}{'MB':>18}{'open files':>16}{'us/epoch':>12}")
    result: dict[str, Any] = {"figures": {}, "targets": []}
    for workers in (0, 1):
        found = memory.epochs(workers, given.epochs)
        (rss, later), (files, files_later) = found["megabytes"], found["files"]
        name = f"delira, {workers} worker{'' if workers == 1 else 's'}"
        print(f"  {name:26}{rss:9.1f}{later:9.1f}{files:8}{files_later:8}{found['us_per_epoch']:12.0f}")
        result["figures"][name] = found
        result["targets"].append(verdict(f"{name}: growth of memory", later / rss, GROWTH, at_least=False))
        result["targets"].append(verdict(f"{name}: further open files", files_later - files, 0, at_least=False))
    return result


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "2d": images,
    "3d": volumes,
    "digits": digits,
    "memory": cached,
    "epochs": epochs,
}

# ------------------------------------------------------------------ the tables


def race(
    title: str, task: throughput.Task, contestants: dict[str, throughput.Contestant], rounds: int
) -> dict[str, list[throughput.Figures]]:
    there = {name: contestant for name, contestant in contestants.items() if contestant.is_there}
    found = throughput.race(task, there, rounds)
    print(f"{title}; median of {rounds} rounds, in turns")
    print(f"  {'':26}{'batches/s':>10}{'slowest':>10}{'fastest':>10}{'to first':>10}{'CPU ms/batch':>14}{'others':>8}")
    for name in contestants:
        if name not in found:
            print(f"  {name:26}not installed")
            continue
        rates = sorted(figures.rate for figures in found[name])
        cpu = statistics.median(figures.cpu for figures in found[name])
        others = [figures.others for figures in found[name] if figures.others is not None]
        to_first = throughput.ratio(found, name, next(iter(found)))
        print(
            f"  {name:26}{statistics.median(rates):10.2f}{rates[0]:10.2f}{rates[-1]:10.2f}{to_first:10.2f}"
            f"{cpu:14.3f}{f'{statistics.median(others):.0%}' if others else '-':>8}"
        )
    return found


def best_of(found: dict[str, list[throughput.Figures]], names: list[str]) -> str | None:
    """Name of the one with the highest median, None if there is none."""
    return max(names, key=lambda name: statistics.median(figures.rate for figures in found[name]), default=None)


def plain(found: dict[str, list[throughput.Figures]]) -> dict[str, list[dict[str, float]]]:
    """Figures as JSON takes them."""
    return {name: [figures._asdict() for figures in rounds] for name, rounds in found.items()}


def machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{platform.system()}, Python {platform.python_version()}, {cores} cores, load before {load}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure (default all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that the contestants take turns in (default 3)")
    parser.add_argument("--epochs", type=int, default=10_000, help='epochs of the part "epochs" (default 10,000)')
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    print(machine())
    results = {part: PARTS[part](given) for part in given.parts}
    print('"others": share of the cores that other programs took; where they do, workers gain less')
    if given.json:
        given.json.write_text(json.dumps({**vars(given), "json": str(given.json), "results": results}, indent=2))


if __name__ == "__main__":
    main()
