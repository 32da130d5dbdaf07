"""What prediction costs: windows beside MONAI's, an ensemble beside one network, and ``delira.predict`` beside a loop.

The same small U-Net in 3D predicts in turn: a volume by ``delira.SlidingWindow`` and by MONAI's
``sliding_window_inference`` with the same windows, weights and batches; cases of 64 x 64 x 64 by one network and by an
ensemble of five, whose logits are made probabilities, with the spread over members; and the same cases by
``delira.predict`` and by a loop over ``network(batch)`` in ``torch.no_grad``, whose outputs are made numpy arrays and
kept. The outputs are compared first. Times are those of the clock and, beside them, those that this process computed,
which other programs on the machine change less.

MONAI is one of ``requirements/peers.txt``; without it its row is left out.
"""

import argparse
import functools
import gc
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import delira
from delira.models import AbstractPyTorchNetwork
from delira.prediction.ensemble import Ensemble
from delira.prediction.model import Member
from delira.prediction.networks import StoredNetwork

WINDOW, OVERLAP, WINDOWS_AT_ONCE = 48, 0.5, 2
VOLUME = (96, 72, 72)
CASE, N_CASES, N_CLASSES, N_MEMBERS = 64, 2, 4, 5
#: contestant, what it is compared with, and the largest ratio that is allowed
LIMITS = [
    ("SlidingWindow", "MONAI's windows", 1.05),
    ("ensemble of 5", "one network", 5.25),
    ("delira.predict", "loop by hand", 1.05),
]


class UNet(AbstractPyTorchNetwork):
    """Two levels of 8 and 16 channels."""

    def __init__(self, channels: int = 8):
        super().__init__(channels=channels)

        def block(n_in: int, n_out: int) -> torch.nn.Module:
            layers: list[torch.nn.Module] = []
            for one in (n_in, n_out):
                layers += [torch.nn.Conv3d(one, n_out, 3, padding=1), torch.nn.InstanceNorm3d(n_out), torch.nn.ReLU()]
            return torch.nn.Sequential(*layers)

        self.top, self.bottom, self.joined = block(1, channels), block(channels, 2 * channels), block(3 * channels, 8)
        self.head = torch.nn.Conv3d(8, N_CLASSES, 1)

    def forward(self, x):
        fine = self.top(x)
        coarse = self.bottom(torch.nn.functional.max_pool3d(fine, 2))
        up = torch.nn.functional.interpolate(coarse, scale_factor=2.0)
        return {"pred": self.head(self.joined(torch.cat([fine, up], 1)))}


def new_network(seed: int = 0) -> UNet:
    torch.manual_seed(seed)
    return UNet().eval()


def ensemble() -> Ensemble:
    """Five networks that differ in their weights."""

    def stored(seed: int) -> StoredNetwork:
        said = ("CrossEntropyLoss", "categorical", None, "logits")  # by a training's loss, as its checkpoint says it
        predicts = {"outputs": {"pred": ("label", said)}}
        return StoredNetwork(path=Path(), tree={"predicts": predicts}, network=new_network(seed), preprocessing=None)

    return Ensemble([Member(f"fold_{seed:02d}", functools.partial(stored, seed)) for seed in range(N_MEMBERS)])


def contestants() -> dict[str, Callable[[], Any]]:
    """What is timed, by name; each returns its outputs."""
    rng = np.random.default_rng(0)
    volume = rng.normal(size=(1, 1, *VOLUME)).astype(np.float32)
    cases = rng.normal(size=(N_CASES, 1, CASE, CASE, CASE)).astype(np.float32)
    network, members = new_network(), ensemble()
    window = delira.SlidingWindow(WINDOW, OVERLAP, batch_size=WINDOWS_AT_ONCE)

    def by_hand() -> np.ndarray:
        with torch.no_grad():
            return np.concatenate([network(torch.from_numpy(case[None]))["pred"].numpy() for case in cases])

    def of_monai() -> np.ndarray:
        from monai.inferers import sliding_window_inference

        with torch.no_grad():
            return sliding_window_inference(
                torch.from_numpy(volume), (WINDOW,) * 3, WINDOWS_AT_ONCE, lambda part: network(part)["pred"],
                overlap=OVERLAP, mode="gaussian",
            ).numpy()  # fmt: skip

    one_by_one = {"batch_size": 1}
    of_others = {"MONAI's windows": of_monai} if importlib.util.find_spec("monai") else {}
    return {
        **of_others,
        "SlidingWindow": lambda: delira.predict(network, volume, inference=window)["pred"],
        "one network": lambda: delira.predict(network, cases, **one_by_one)["pred"],
        "ensemble of 5": lambda: members.predict(cases, **one_by_one)["pred"],
        "loop by hand": by_hand,
        "delira.predict": lambda: delira.predict(network, cases, **one_by_one)["pred"],
    }


Seconds = dict[str, list[float]]


def race(repeats: int) -> dict[str, Seconds]:
    """Seconds by the clock, and of computing, of each contestant, in turns, those that are compared beside each other.

    The first round warms up and is not counted.
    """
    runners = contestants()
    kinds = {"clock": time.perf_counter, "CPU": time.process_time}
    seconds: dict[str, Seconds] = {kind: {name: [] for name in runners} for kind in kinds}
    for repeat in range(repeats + 1):
        outputs = {}
        for pair in (limit[:2] for limit in LIMITS):
            for name in filter(runners.get, pair if repeat % 2 else reversed(pair)):
                gc.collect()
                started = {kind: now() for kind, now in kinds.items()}
                outputs[name] = runners[name]()
                for kind, now in kinds.items() if repeat else ():
                    seconds[kind][name].append(now() - started[kind])
        if not repeat:
            check_equal(outputs)
    return seconds


def check_equal(outputs: dict[str, np.ndarray]) -> None:
    """Those that are compared say the same; otherwise the times mean nothing."""
    for name, other in (("SlidingWindow", "MONAI's windows"), ("delira.predict", "loop by hand")):
        if other in outputs and not np.allclose(outputs[name], outputs[other], rtol=1e-5, atol=1e-5):
            raise SystemExit(f"{name} and {other} do not say the same")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="predictions of each kind that count (default 9)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    torch.set_num_threads(1)
    seconds = race(given.repeats)
    medians = {
        kind: {name: statistics.median(taken) for name, taken in of_kind.items()} for kind, of_kind in seconds.items()
    }
    print(
        f"a volume of {VOLUME} by windows of {WINDOW}, {N_CASES} cases of {CASE}; median of {given.repeats}, in turns"
    )
    print(f"{'':18}{'clock':>10}{'CPU':>10}")
    for name in medians["clock"]:
        print(f"{name:18}{1e3 * medians['clock'][name]:7.0f} ms{1e3 * medians['CPU'][name]:7.0f} ms")
    ratios = {}
    for name, to, limit in LIMITS:
        if to not in medians["clock"]:
            continue
        clock, computed = (of_kind[name] / of_kind[to] for of_kind in medians.values())
        ratios[f"{name} / {to}"] = {"clock": clock, "CPU": computed}
        verdict = "kept" if clock <= limit else "MISSED"
        print(f"{name:14} / {to:16}{clock:7.3f}{computed:7.3f} of computing   target <= {limit:.2f}: {verdict}")
    per_case = {kind: 1e3 * values["loop by hand"] / N_CASES for kind, values in medians.items()}
    print(f"a case takes {per_case['clock']:.0f} ms by hand, {per_case['CPU']:.0f} ms of computing")
    if given.json:
        given.json.write_text(json.dumps({"medians": medians, "ratios": ratios, "seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()
