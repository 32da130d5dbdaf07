"""Words after ``delira`` to one command: the parser, what all commands have in common, and exit codes."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
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
    if unknown:  # with the usage of the command, which shows what it takes
        getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        parser.print_help(sys.stderr)
        parser.exit(MISUSE)
    try:
        answer: Answer = options.run(options)
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
    parser = argparse.ArgumentParser(
        prog="delira",
        description="Write a network once and get the whole experiment.",
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"delira {delira.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, (add_arguments, run, summary, example) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"examples:\n{example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_arguments(command)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        command.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
        command.set_defaults(run=run, parser=command)
    return parser


# ------------------------------------------------------------------ commands: what a run needs is imported by it


def _nothing(parser: argparse.ArgumentParser) -> None:
    """A command without arguments of its own."""


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", choices=[*PACKAGES], help="the first that is installed, if not given")


def _demo(options: argparse.Namespace) -> Answer:
    from delira.cli.demo import demonstrate

    return demonstrate(options.backend, quiet=options.json)


def _doctor(options: argparse.Namespace) -> Answer:
    import json

    from delira.cli.doctor import examine

    findings = examine()
    return Answer(json.loads(findings.to_json()), str(findings), is_broken=findings.is_broken)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("root", nargs="?", default=".", metavar="ROOT", help="folder to search; the present one")
    parser.add_argument("--name", metavar="PATTERN", help="part of the experiment's name, or a pattern with * and ?")
    parser.add_argument("--status", action="append", choices=_STATES, metavar="STATE", help=", ".join(_STATES))
    parser.add_argument("--since", metavar="WHEN", help="a day (2026-11-22), or an age: 30min, 12h, 7d, 2w")
    parser.add_argument("--sort", choices=("age", "name", "score", "duration", "status"), default="age")
    parser.add_argument("--best", metavar="METRIC", help="only runs that have it, the best first")
    parser.add_argument("--limit", type=int, metavar="N", help="show the first N")


def _runs(options: argparse.Namespace) -> Answer:
    from delira.cli.runs import Filter, list_runs

    chosen = Filter(name=options.name, states=options.status or (), since=options.since, best=options.best)
    return list_runs(options.root, chosen, sort=options.sort, limit=options.limit)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="folder of a run, or one above it: its newest")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page; report/report.html of the run if not given")
    parser.add_argument("--export", metavar="FOLDER", help="also write each table and plot into files of their own")
    parser.add_argument("--formats", default="csv,tex,png", metavar="LIST", help="of csv, tex, png, svg, pdf")


def _report(options: argparse.Namespace) -> Answer:
    from delira.cli.report import write_report

    return write_report(options.run_folders, options.output, options.export, options.formats)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="folder of a run, or one above it: its newest")
    parser.add_argument("--strict", action="store_true", help="another environment counts as broken")


def _verify(options: argparse.Namespace) -> Answer:
    from delira.cli.verify import verify

    return verify(options.run_folders, strict=options.strict)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="folder that is made, and name of the experiment")
    parser.add_argument("--backend", choices=[*PACKAGES], required=True)
    parser.add_argument("--task", choices=("classification", "segmentation"), default="classification")


def _new(options: argparse.Namespace) -> Answer:
    from delira.cli.new import create_project

    return create_project(options.name, options.backend, options.task)


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))


def _completion(options: argparse.Namespace) -> Answer:
    from delira.cli.completion import complete

    return complete(build_parser(), options.shell)


_STATES = ("finished", "running", "broken-off", "failed", "unknown")
_Command = tuple[Callable[[argparse.ArgumentParser], None], Callable[[Any], Answer], str, str]
_COMMANDS: dict[str, _Command] = {
    "demo": (
        _add_demo,
        _demo,
        "cross-validate a small network on real data, here and now",
        "  delira demo                     the first backend that is installed\n"
        "  delira demo --backend sklearn   the run is in runs/digits, the page is report.html",
    ),
    "doctor": (
        _nothing,
        _doctor,
        "what is installed, what is missing or broken, and how to install it",
        "  delira doctor\n  delira doctor --json",
    ),
    "runs": (
        _add_runs,
        _runs,
        "list the runs below a folder",
        "  delira runs\n"
        "  delira runs runs --status running --status broken-off\n"
        "  delira runs --name 'digits*' --since 7d --best accuracy --limit 5",
    ),
    "report": (
        _add_report,
        _report,
        "write the page of a run, or one page of several side by side",
        "  delira report runs/digits                          its newest run\n"
        "  delira report runs/digits -o digits.html --export paper --formats csv,pdf\n"
        "  delira report runs/digits runs/coins -o both.html  side by side",
    ),
    "verify": (
        _add_verify,
        _verify,
        "whether the files of runs are whole, and the environment is that of the run",
        "  delira verify runs/digits\n  delira verify runs/digits runs/coins --strict",
    ),
    "new": (
        _add_new,
        _new,
        "write a starter project: data, network, script and test, which run",
        "  delira new ears --backend torch\n  delira new organs --backend jax --task segmentation",
    ),
    "completion": (
        _add_completion,
        _completion,
        "print what a shell needs to complete commands and options",
        "  delira completion bash >> ~/.bash_completion",
    ),
}
