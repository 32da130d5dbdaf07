"""Whether a run that was killed ends in the bits of one that was not, and whether its checkpoint can be loaded.

The two questions that were asked of the peers, asked of delira in the same way, each process a fresh interpreter and
each death a SIGKILL:

* resume: 2 epochs of 10 steps, Adam, shuffled; killed after step 7, or when the first epoch has ended; resumed in a new
  process; SHA-1 of the final weights;
* save: a state of 60 MB is saved again and again under one name; killed at a random 0 to 1.5 s after the first time.

``--write`` puts the answers, beside those of the peers, into docs/resume_table.md; ``--chaos FILE`` adds what
tests/chaos/killed_training.py has printed, one line for each backend.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[1] / "docs" / "resume_table.md"
COLUMNS = ("data order only", "+ dropout", "+ numpy augmentation")
#: row -> (epoch and step after which it is killed, workers before and after)
ROWS = {
    "mid-epoch": ((1, 7), (0, 0)),
    "mid-epoch, 2 workers": ((1, 7), (2, 2)),
    "mid-epoch, 2 workers, then none": ((1, 7), (2, 0)),
    "epoch end": ((2, 0), (0, 0)),
}
SAVES = 12
MEGABYTES = 60


# ------------------------------------------------------------------ what is killed


def build(folder: str, dropout: float, *callbacks: Any, n_hidden: int = 16) -> Any:
    import torch

    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchNetworkTrainer

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(8, n_hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(n_hidden, 1)
            )

        def forward(self, x):
            return {"pred": self.layers(x)}

    torch.manual_seed(0)
    return PyTorchNetworkTrainer(
        Net(), folder, losses={"mse": torch.nn.functional.mse_loss}, optimizer_cls=torch.optim.Adam,
        save_freq_steps=1, logging_type=None, verbose=False, num_threads=1, callbacks=callbacks,
    )  # fmt: skip


def noise(**batch: Any) -> dict[str, Any]:
    return {**batch, "data": batch["data"] + np.random.normal(size=batch["data"].shape)}


class KilledAt:
    """The process dies when the checkpoint of a step, or of the epoch before, has been written."""

    def __init__(self, epoch: int, step: int):
        self.at = (epoch, step)

    def at_iter_end(self, trainer: Any, *, curr_epoch: int, iter_num: int, **facts: Any) -> None:
        # this step's own checkpoint is written after its callbacks
        if (curr_epoch, iter_num) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder: str, column: int, workers: int, at: tuple[int, int] | None) -> None:
    from delira.data_loading import BaseDataManager

    rng = np.random.default_rng(0)
    data = {"data": rng.normal(size=(80, 8)), "label": rng.normal(size=(80, 1))}
    manager = BaseDataManager(
        data, 8, n_process_augmentation=workers, transforms=noise if column == 2 else None
    )  # fmt: skip
    trainer = build(folder, 0.5 if column else 0.0, *([KilledAt(*at)] if at else []))
    began = trainer.state.global_step
    network = trainer.train(2, manager)
    weights = b"".join(weight.numpy().tobytes() for weight in network.state_dict().values())
    print(json.dumps({"sha1": hashlib.sha1(weights, usedforsecurity=False).hexdigest(), "began": began}))


def save(folder: str) -> None:
    trainer = build(folder, 0.0, n_hidden=MEGABYTES * 100_000 // 4)  # ten numbers for each hidden unit
    trainer.save_state(Path(folder) / "latest")
    print("saved", flush=True)
    while True:
        trainer.save_state(Path(folder) / "latest")


# ------------------------------------------------------------------ who kills


def start(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", json.dumps(arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def ended(*arguments: Any) -> dict[str, Any]:
    """What a training says at its end; nothing if it was killed."""
    process = start("train", *arguments)
    out, _ = process.communicate()
    if process.returncode == -signal.SIGKILL:
        return {}
    if process.returncode:
        raise SystemExit(f"a training failed: {arguments}")
    return json.loads(out)


def is_same(column: int, at: tuple[int, int], workers: tuple[int, int], expected: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if ended(folder, column, workers[0], at):
            raise SystemExit("the training was to be killed, and was not")
        resumed = ended(folder, column, workers[1], None)
    if resumed["began"] != (at[0] - 1) * 10 + at[1]:
        raise SystemExit(f"resumed after step {resumed['began']}, killed after that of {at}")
    return resumed["sha1"] == expected


def resume_rows() -> dict[str, list[bool]]:
    expected = []
    for column in range(len(COLUMNS)):
        with tempfile.TemporaryDirectory() as folder:
            expected.append(ended(folder, column, 0, None)["sha1"])
    if len(set(expected)) != len(expected):
        raise SystemExit("dropout or augmentation changes nothing")
    return {
        row: [is_same(column, at, workers, expected[column]) for column in range(len(COLUMNS))]
        for row, (at, workers) in ROWS.items()
    }


def count_lost(trials: int) -> int:
    """How many of the saved states cannot be loaded after a kill."""
    from delira.training import PyTorchNetworkTrainer

    draw, lost = random.Random(0), 0
    for _ in range(trials):
        with tempfile.TemporaryDirectory() as folder:
            process = start("save", folder)
            process.stdout.readline()
            time.sleep(draw.uniform(0, 1.5))
            process.kill()
            process.communicate()
            path = Path(folder) / "latest.pt"
            try:
                if path.stat().st_size < MEGABYTES * 1e6:
                    raise SystemExit(f"the state has only {path.stat().st_size} bytes")
                PyTorchNetworkTrainer.load_state(path)
            except Exception as error:
                print(f"lost: {error!r}")
                lost += 1
    return lost


# ------------------------------------------------------------------ the page

PAGE = """\
# Killed and resumed

Written by `python benchmarks/resume_table.py --write`; delira {version}, torch {torch}, Python {python}, on a CPU. The
rows of the peers were measured once by the same protocol, in November 2026 on two cores
(Python 3.11.7, torch 2.13.0, Lightning 2.6.6, Keras 3.15.1, ignite 0.5.5, skorch 1.4.0, Accelerate 1.15.0,
Transformers 5.23.0, fastai 2.8.12, Orbax 0.12.8): one small network, one setting for each, no GPU. They show kinds
of failure, not rates in production.

## Is a resumed run bit-identical to one that was not interrupted?

2 epochs of 10 steps, Adam, shuffled; killed after step 7 or at the end of an epoch (delira with `save_freq_steps=1`);
a new process resumes; SHA-1 of the final weights.

| | {columns} |
|---|---|---|---|
{ours}
| Lightning, plain DataLoader, mid-epoch | no | no | no |
| Lightning, plain DataLoader, epoch end | no | no | no |
| Lightning with torchdata's StatefulDataLoader (0 and 2 workers) | yes | no | no |
| HF Trainer, mid-epoch | yes | yes | no |
| Accelerate (seedable sampler and skip_first_batches, or stateful loader) | yes | no | no |
| ignite Engine | no | no | no |
| ignite DeterministicEngine | 0 workers no, 2 workers yes | 0 workers no, 2 workers yes | no |
| skorch, epoch end (LoadInitState) | no | no | no |
| Keras BackupAndRestore (torch backend), mid-epoch | no (with dropout) | no | not measured |
| Keras BackupAndRestore(save_freq=5) | no: 25 updates instead of 20 | | |

The tests go further. `tests/training/test_resume_matrix.py` mixes 0, 1 or 3 workers, three samplers, augmentation
by batchgenerators, dropout, gradient accumulation, schedule, moving average of the weights, early stopping and two
optimizers, and breaks each run off once or twice; weights, optimizers, history, best score and history files must
be equal. `make test` runs a choice that has every pair ({pairwise} runs), `make full` also every part alone, every
two and all, for each number of workers and each sampler ({exhaustive} runs).

## Killed by SIGKILL while saving: can the latest checkpoint be loaded?

A state of 60 MB is saved again and again under one name; killed at a random 0 to 1.5 s after the first save.

| | cannot be loaded |
|---|---|
| **delira** `trainer.save_state` | **{lost}/{saves}** |
| plain `torch.save` (nnU-Net the same) | 11/12 |
| Lightning `save_checkpoint`, Fabric `save` | 0/12; Lightning 2/12 with TMPDIR on another file system |
| ignite `Checkpoint(n_saved=1)` | 12/12 |
| skorch `Checkpoint` | 10/12 |
| Accelerate `save_state` | 8/12 |
| HF `Trainer` | 7/12: the newest folder; an older one is there |
| fastai `save_model` | 11/12 |
| Keras `.keras`, `.weights.h5` | 12/12, 11/12 |
| Keras `BackupAndRestore` | 11/12; 1/12 with `double_checkpoint=True` |
| torch DCP `dcp.save` | 8 to 10 of 12 |
| Orbax `CheckpointManager` | 0/12 |
{chaos}"""
CHAOS = """
Whole trainings, killed at random times and started again until they ended, with workers, writing in the background,
moving average, early stopping, schedule, dropout and augmentation, alone and in cross-validations of three folds
(`PYTHONPATH=tests python tests/chaos/killed_training.py --backend … --kills 200 --seed {seed}`, as `make chaos` does
it, with 30 for the backends whose trainings take longer, and 10 for an estimator):

| backend | kills | of these while a file was half written | trainings | lost checkpoints | ended in other bits |
|---|--:|--:|--:|--:|--:|
{rows}
"""


def chaos_part(path: str | None) -> str:
    if path is None:
        return ""
    reports = [json.loads(line) for line in Path(path).read_text().splitlines()]
    rows = [
        f"| {r['backend']} | {r['kills']} | {r['found on disk'].get('a half-written file', 0)} | {r['finished']} "
        f"| {len(r['lost'])} | {len(r['different'])} |"
        for r in reports
    ]
    return CHAOS.format(rows="\n".join(rows), seed=reports[0]["seed"])


def count_mixtures() -> dict[str, int]:
    """How many runs the tests break off."""
    tests = Path(__file__).parents[1] / "tests"
    sys.path[:0] = [str(tests), str(tests / "training")]
    import test_resume_matrix as matrix

    backends = matrix.NORMAL_KITS
    cells = len(matrix.WORKERS) * len(matrix.SAMPLERS)
    return {
        "pairwise": sum(len(matrix.pairwise(kit)) for kit in backends),
        "exhaustive": sum(cells * len(matrix.mixtures(kit)) for kit in backends),
    }


def page(rows: dict[str, list[bool]], lost: int, chaos: str | None) -> str:
    import platform

    import torch

    import delira

    said = {row: " | ".join("**yes**" if same else "**no**" for same in answers) for row, answers in rows.items()}
    return PAGE.format(
        columns=" | ".join(COLUMNS),
        ours="\n".join(f"| **delira**, {row} | {answers} |" for row, answers in said.items()),
        lost=lost,
        saves=SAVES,
        chaos=chaos_part(chaos),
        version=delira.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        **count_mixtures(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/resume_table.md")
    parser.add_argument("--chaos", metavar="FILE", help="reports of tests/chaos/killed_training.py")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        kind, *rest = arguments.child
        {"train": train, "save": save}[kind](*rest)
        return
    rows, lost = resume_rows(), count_lost(SAVES)
    for row, answers in rows.items():
        said = zip(COLUMNS, answers, strict=True)
        print(f"{row:35} " + "  ".join(f"{name}: {'yes' if same else 'no'}" for name, same in said))
    print(f"killed while saving {MEGABYTES} MB: {lost} of {SAVES} cannot be loaded")
    if arguments.write:
        DOCS.write_text(page(rows, lost, arguments.chaos))
        print(f"wrote {DOCS}")


if __name__ == "__main__":
    main()
