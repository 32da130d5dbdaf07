"""``delira work``: take folds, or trials of a search, that others work at, on any machine."""

import argparse

from delira.cli.experiments import placed, read_experiment, told
from delira.cli.imports import scripts
from delira.cli.output import Answer
from delira.errors import ConfigError
from delira.experiments.experiment_file import FILE_NAME
from delira.runs.stored_run import read_run
from delira.utils import references, yaml_codec


def run(options: argparse.Namespace) -> Answer:
    """Run folds or trials that nobody works at, and wait for the others.

    Parameters
    ----------
    options
        ``run``, its folder; ``imports``, modules and scripts; ``data`` and ``data_arguments``, if the run does not say
        how to get its data; ``executor``, ``n_jobs``, ``mirror``, ``takeover_after``.

    Raises
    ------
    ConfigError
        If it is one training, or needs what is in no module of the command line.
    """
    found = read_run(options.run)
    if found.kind == "run":
        raise ConfigError(f"{found.path} is a single training, which one process runs; go on with it by resume=")
    file = found.path / FILE_NAME
    if not file.exists():
        raise ConfigError(
            f"{found.path} has no {FILE_NAME}, which says what to do: it is of an older version; call "
            f"{found.kind} with resume= in the script that began it"
        )
    arguments = None if options.data_arguments is None else yaml_codec.loads(options.data_arguments)
    # what was the script that ran is a module here, which the files of the run are to name as before
    was_script = str(found.manifest.get("model", "")).startswith("__main__:")
    with references.as_main(scripts(options.imports) if was_script else ()):
        experiment, plan, load = read_experiment(str(file), options.imports, options.data, arguments)
        asked = {**plan.asked, **placed(options), "takeover_after": options.takeover_after}
        return told(getattr(experiment, found.kind)(load, **asked, resume=found.path))
