"""Words after ``delira`` to one command: the parser, what all commands have in common, and exit codes."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import delira
from delira.cli.output import Answer, show
from delira.errors import ConfigError, DeliraError
from delira.frameworks import PACKAGES

#: exit codes
FINE, BROKEN, MISUSE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141

_EPILOGUE = """\
exit codes:
  0   fine
  1   something is broken, or the work failed
  2   misuse: an option, a folder or a name that does not exist
  130 interrupted

Every command takes --json (one JSON object on standard output) and --debug
(the whole traceback of an error). 'delira COMMAND --help' has examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments
        Words after ``delira``; those of the process if ``None``.
    """
    parser = build_parser()
    options, unknown = parser.parse_known_args(arguments)
    if options.command in _TAKE_WORDS:
        options.words = unknown
    elif unknown:  # with the usage of the command, which shows what it takes
        getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        parser.print_help(sys.stderr)
        parser.exit(MISUSE)
    try:
        # what a command needs is imported by it
        answer: Answer = importlib.import_module(f"delira.cli.{options.command}").run(options)
        show(answer, as_json=options.json)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it when it ends
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail(options, "interrupted", INTERRUPTED)
    except Exception as error:
        if options.debug:
            raise
        # a wrong value or a missing package can be mended by typing something else
        return _fail(options, _in_words(error), MISUSE if isinstance(error, (ConfigError, ImportError)) else BROKEN)
    return BROKEN if answer.is_broken else FINE


def _fail(options: argparse.Namespace, message: str, code: int) -> int:
    print(f"delira {options.command}: {message}", file=sys.stderr)
    if options.json:
        show(Answer({"error": message}), as_json=True)
    return code


def _in_words(error: Exception) -> str:
    """One line, whatever the error says."""
    text = " ".join(line.strip() for line in str(error).splitlines())
    if isinstance(error, (DeliraError, OSError)) and text:
        return text
    return f"{type(error).__name__}: {text}; --debug shows where"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    told = "Write a network once and get the whole experiment."
    parser = argparse.ArgumentParser(prog="delira", description=told, epilog=_EPILOGUE, **form)
    parser.add_argument("--version", action="version", version=f"delira {delira.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, (summary, example, *arguments) in _COMMANDS.items():
        told = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=told, epilog=f"examples:\n{example}", **form)
        for names, settings in arguments:
            command.add_argument(*names, **settings)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        command.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
        command.set_defaults(parser=command, program=parser)
    return parser


def _argument(*names: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Arguments of ``add_argument``."""
    return names, settings


_STATES = ("finished", "running", "broken-off", "failed", "unknown")
_RUNS = _argument("run_folders", nargs="+", metavar="RUN", help="folder of a run, or one above it: its newest")
_IMPORTS = _argument(
    "--import", action="append", dest="imports", default=[], metavar="MODULE",
    help="module or script (train.py) that has the classes of the run; once for each",
)  # fmt: skip
_PLACED = (
    _argument("--executor", choices=("here", "processes", "ray", "slurm"), help="where folds run"),
    _argument("--n-jobs", type=int, metavar="N", help="folds at the same time, in processes; -1: one a core"),
)
_DATA = (
    _argument("--data", metavar="MODULE:FUNCTION", help="what gives the data, if the run does not name it"),
    _argument("--data-arguments", metavar="YAML", help="what it is called with: '{root: scans, size: 64}'"),
)
_MIRROR = _argument("--mirror", metavar="URL", help="copy the run there while it runs, and fetch what is there")
#: commands that take further words: parameters of an experiment
_TAKE_WORDS = ("train",)
#: command, a module of this package with a function ``run`` -> what it does, examples, and its arguments
_COMMANDS: dict[str, tuple[Any, ...]] = {
    "demo": (
        "cross-validate a small network on real data, here and now",
        "  delira demo                     the first backend that is installed\n"
        "  delira demo --backend sklearn   the run is in runs/digits, the page is report.html",
        _argument("--backend", choices=[*PACKAGES], help="the first that is installed, if not given"),
    ),
    "doctor": (
        "what is installed, what is missing or broken, and how to install it",
        "  delira doctor\n  delira doctor --json",
    ),
    "runs": (
        "list the runs below a folder",
        "  delira runs\n"
        "  delira runs runs --status running --status broken-off\n"
        "  delira runs --name 'digits*' --since 7d --best accuracy --limit 5",
        _argument("root", nargs="?", default=".", metavar="ROOT", help="folder to search; the present one"),
        _argument("--name", metavar="PATTERN", help="part of the experiment's name, or a pattern with * and ?"),
        _argument("--status", action="append", choices=_STATES, metavar="STATE", help=", ".join(_STATES)),
        _argument("--since", metavar="WHEN", help="a day (2026-11-22), or an age: 30min, 12h, 7d, 2w"),
        _argument("--sort", choices=("age", "name", "score", "duration", "status"), default="age"),
        _argument("--best", metavar="METRIC", help="only runs that have it, the best first"),
        _argument("--limit", type=int, metavar="N", help="show the first N"),
    ),
    "report": (
        "write the page of a run, or one page of several side by side",
        "  delira report runs/digits                          its newest run\n"
        "  delira report runs/digits -o digits.html --export paper --formats csv,pdf\n"
        "  delira report runs/digits runs/coins -o both.html  side by side",
        _RUNS,
        _argument("-o", "--output", metavar="FILE", help="the page; report/report.html of the run if not given"),
        _argument("--export", metavar="FOLDER", help="also write each table and plot into files of their own"),
        _argument("--formats", default="csv,tex,png", metavar="LIST", help="of csv, tex, png, svg, pdf"),
    ),
    "compare": (
        "whether results over the same folds differ: tests, intervals, and what may be said",
        "  delira compare runs/forest runs/network\n"
        "  delira compare runs/forest runs/network runs/keras --baseline forest --metric accuracy\n"
        "  delira compare runs/forest runs/network --html compared.html --rope 0.02",
        _RUNS,
        _argument("--metric", action="append", metavar="NAME", help="once for each; all that the runs share"),
        _argument("--baseline", metavar="NAME", help="name of the run that all others are compared with; all pairs"),
        _argument("--direction", choices=("highest", "lowest"), help="which values are good, if delira does not know"),
        _argument(
            "--rope", type=float, default=0.01, metavar="WIDTH", help="a smaller difference is none that matters; 0.01"
        ),
        _argument("--alpha", type=float, default=0.05, metavar="LEVEL", help="level of the tests; 0.05"),
        _argument("--html", metavar="FILE", help="also write a page: runs, differences, tests, plots"),
    ),
    "train": (
        "cross-validate or train the experiment of a file, on the data that it names",
        "  delira train experiment.yml --import train.py --import torch.nn\n"
        "  delira train experiment.yml --import train.py --import torch.nn --lr 1e-4 --n-jobs 4\n"
        "  delira train experiment.yml --import train.py --import torch.nn --only-folds 1,3",
        _argument("file", metavar="FILE", help="what experiment.save(data=...) wrote; --NAME VALUE sets a parameter"),
        _IMPORTS,
        _argument("--only-folds", metavar="LIST", help="numbers of folds, from 0: 1,3; the others can follow"),
        *_PLACED,
        _MIRROR,
        _argument("--resume", default="auto", metavar="RUN", help="'auto': go on if there is such a run; 'new'; a run"),
    ),
    "work": (
        "take folds of a cross-validation that others work at, here or on other machines",
        "  delira work runs/digits --import train.py\n"
        "  delira work runs/digits --import train.py --data train:load --n-jobs 4",
        _argument("run", metavar="RUN", help="folder of the run, or one above it: its newest"),
        _IMPORTS,
        *_DATA,
        *_PLACED,
        _MIRROR,
        _argument(
            "--takeover-after",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="without a sign of life a fold of another machine is taken over; 60",
        ),
    ),
    "rerun": (
        "run a run again and say whether it is equal, bit for bit, or where it first differs",
        "  delira rerun runs/digits --import train.py\n"
        "  delira rerun runs/digits --import train.py --only-folds 0 --out reruns\n"
        "  delira rerun runs/digits --import train.py --data train:load",
        _argument("run", metavar="RUN", help="folder of the run, or one above it: its newest"),
        _IMPORTS,
        *_DATA,
        _argument("--only-folds", metavar="LIST", help="numbers of folds, from 0: 1,3; all that the run has"),
        _argument("--out", metavar="DIR", help="folder like save_path of an experiment; that of the run, if not given"),
        *_PLACED,
    ),
    "fetch": (
        "bring a run that was mirrored to this disk, with all of its files",
        "  delira fetch s3://bucket/runs                              its newest run\n"
        "  delira fetch s3://bucket/runs/digits/2026-11-28_10-00-00 --out runs",
        _argument("url", metavar="URL", help="of a mirror, of an experiment in it, or of a run"),
        _argument("--out", default=".", metavar="DIR", help="folder like save_path of an experiment; the present one"),
    ),
    "predict": (
        "predict new cases by a run into a folder; what is there is not done again",
        "  delira predict runs/scans new --out predicted              each fold is a member\n"
        "  delira predict runs/scans new --out predicted --import train.py --keep labels\n"
        "  delira predict runs/scans/*/fold_00 new/*.nii.gz --out fold_0 --window 16,96,96",
        _argument("source", metavar="RUN", help="folder of a run, of a fold or of an ensemble, or a checkpoint"),
        _argument("data", nargs="+", metavar="DATA", help="a folder of cases, or files: volumes, pictures, .npy, .npz"),
        _argument("--out", required=True, metavar="DIR", help="folder with a file for each case"),
        _IMPORTS,
        _argument("--keep", choices=("labels", "probabilities", "logits"), help="what the networks say, if not given"),
        _argument("--window", metavar="SIZE", help="predict in windows, 96 or 16,96,96; as validated, if not given"),
        _argument("--inference", choices=("trained", "none"), default="trained", help="as validated, or whole cases"),
        _argument("--flip", metavar="AXES", help="the mean over all mirrorings along axes in space: 1,2 of (z, y, x)"),
        _argument("--batch-size", type=int, default=1, metavar="N", help="cases of one shape at once; 1"),
        _argument("--no-spread", action="store_true", help="not how far the members of an ensemble differ"),
        _argument("--any-spacing", action="store_true", help="also volumes of another spacing than those learned from"),
        _argument("--skip", action="store_true", help="leave out cases that cannot be predicted, and name them"),
    ),
    "verify": (
        "whether the files of runs are whole, and the environment is that of the run",
        "  delira verify runs/digits\n  delira verify runs/digits runs/coins --strict",
        _RUNS,
        _argument("--strict", action="store_true", help="another environment counts as broken"),
    ),
    "new": (
        "write a starter project: data, network, script and test, which run",
        "  delira new ears --backend torch\n  delira new organs --backend jax --task segmentation",
        _argument("name", metavar="NAME", help="folder that is made, and name of the experiment"),
        _argument("--backend", choices=[*PACKAGES], required=True),
        _argument("--task", choices=("classification", "segmentation"), default="classification"),
    ),
    "migrate": (
        "the lines of a script for the older library, or for torchbearer, that need a change",
        "  delira migrate train.py           print them, with the change; nothing of the script is run\n"
        "  delira migrate *.py --write       make the changes",
        _argument("scripts", nargs="+", metavar="SCRIPT", help="a file of Python"),
        _argument("--write", action="store_true", help="change the files"),
    ),
    "completion": (
        "print what a shell needs to complete commands and options",
        "  delira completion bash >> ~/.bash_completion",
        _argument("shell", choices=("bash", "zsh", "fish", "tcsh")),
    ),
}
