"""``delira predict``: new cases, predicted by a run into a folder."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from delira.cli.output import Answer, say, with_bar, wrapped
from delira.cli.vouching import vouched_for
from delira.errors import ConfigError, expect
from delira.inference import Inference, SlidingWindow, TestTimeAugmentation
from delira.prediction.cases import files_in, named, of_files
from delira.prediction.predicting import How, Pass, as_model, with_spread
from delira.prediction.written import Folder


def run(options: argparse.Namespace) -> Answer:
    """Predict files, each of which is written as soon as it is done.

    Parameters
    ----------
    options
        ``source``, the run; ``data``, a folder or files; ``out``; ``imports``, modules and scripts; ``keep``,
        ``window``, ``inference``, ``flip``, ``batch_size``, ``no_spread``, ``any_spacing``, ``skip``: see
        :func:`delira.predict`.

    Raises
    ------
    ConfigError
        If there is no such run, file or class, or the folder has predictions of another model.
    DataError
        If a case cannot be read, or is not such as the network learned from.
    """
    expect(("--batch-size", options.batch_size, options.batch_size >= 1, "at least 1"))
    given = [Path(name) for name in options.data]
    if len(given) > 1 and (others := [path for path in given if not path.is_file()]):
        raise ConfigError(f"several DATA are files, and {str(others[0])!r} is none; name one folder, or files")
    files = named(given) if len(given) > 1 else files_in(given[0])
    model = with_spread(as_model(options.source, vouched_for(options.imports)), False if options.no_spread else None)
    how = How(
        inference=_inference(options), tta=_flips(options), keep=options.keep, any_spacing=options.any_spacing,
        on_error="skip" if options.skip else "raise",
    )  # fmt: skip
    folder = Folder.opened(options.out, model, how.told(model))
    n_found = sum(map(folder.has, files))
    if n_found:
        say(f"{n_found:,} of {len(files):,} cases are there already")
    predicting = Pass(model, how, folder)
    # the bar is one of the batches that are read, so that those that are skipped count
    batches = of_files(files, model.reads[0], model.inputs, options.batch_size, folder.has)
    cases = with_bar(batches, -(-(len(files) - n_found) // options.batch_size), "Predicting")
    for _ in predicting.run(cases):
        pass
    return _answer(folder, n_found, predicting.skipped)


def _inference(options: argparse.Namespace) -> Inference | Literal["trained"] | None:
    if options.window is None:
        return None if options.inference == "none" else "trained"
    if options.inference == "none":
        raise ConfigError("--window SIZE predicts in windows, and --inference none does not; name one of them")
    size = _whole_numbers(
        options.window, f"--window {options.window}: it is a length, or one for each axis: 96 or 16,96,96"
    )
    return SlidingWindow(size[0] if len(size) == 1 else size)


def _flips(options: argparse.Namespace) -> TestTimeAugmentation | None:
    if options.flip is None:
        return None
    told = f"--flip {options.flip}: it is the axes in space that are mirrored, from 0: 1,2"
    return TestTimeAugmentation(flips=_whole_numbers(options.flip, told))


def _whole_numbers(text: str, told: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(told) from None


def _answer(folder: Folder, n_found: int, skipped: Mapping[str, str]) -> Answer:
    content: dict[str, Any] = {
        "out": str(folder.path),
        "files": [str(file) for file in folder.files],
        "predicted": len(folder.files) - n_found,
        "found": n_found,
        "skipped": dict(skipped),
    }
    lines = [f"{key:<9}  {content[key]:,}" for key in ("predicted", "found")]
    if skipped:
        lines += [f"skipped    {len(skipped):,}", *(wrapped(f"  {name}: {why}") for name, why in skipped.items())]
    return Answer(content, "\n".join([*lines, f"folder     {folder.path}"]), is_broken=not folder.files)
