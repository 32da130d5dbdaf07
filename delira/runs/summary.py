"""The file of a cross-validation that says what neither its manifest nor the files of its folds say."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.utils import yaml_codec
from delira.utils.files import MOST_OF_MANY, publish_text, read_json, sealed, unsealed

SUMMARY = "result.json"
FORMAT = 1


def write_summary(folder: Path, facts: Mapping[str, Any], metrics: Mapping[str, Any], bound: Mapping[str, Any]) -> Path:
    """Write what the files of the folds and the manifest do not say, before the first fold.

    Parameters
    ----------
    folder
        The run folder.
    facts
        ``name``, ``seed``, ``n_samples``, ``metric_keys``, ``groups`` and ``info`` of the result.
    metrics
        The test metrics as they were given.
    bound
        The same with what the losses say of the predictions that they read.
    """
    named = {
        name: {"metric": yaml_codec.encode(metric), "criterion": getattr(bound[name], "criterion", None)}
        for name, metric in metrics.items()
    }
    groups = facts["groups"]
    content = {**facts, "groups": None if groups is None else np.asarray(groups).tolist(), "metrics": named}
    return publish_text(folder / SUMMARY, json.dumps(sealed({"format": FORMAT, **content}, _plain), indent=1) + "\n")


def _plain(value: object) -> Any:
    """Return what JSON has no form for: numbers of numpy as numbers, all else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def read_summary(folder: Path) -> tuple[dict[str, Any], str]:
    """What :func:`write_summary` wrote, empty if that cannot be read; and why it cannot, empty if there is no file.

    Parameters
    ----------
    folder
        The run folder.
    """
    path = folder / SUMMARY
    try:
        written = read_json(path, MOST_OF_MANY)
        if written["format"] != FORMAT:
            raise ValueError(f"it has the format {written['format']!r}; this version of delira reads {FORMAT}")
        written = unsealed(written)
        kinds = {"n_samples": int, "seed": int, "metrics": dict, "info": dict}
        if wrong := [name for name, kind in kinds.items() if not isinstance(written[name], kind)]:
            raise TypeError(f"its {wrong[0]!r} is a {type(written[wrong[0]]).__name__}")
        if written["groups"] is not None and len(written["groups"]) != written["n_samples"]:
            raise ValueError("it does not have one group for each sample")
    except FileNotFoundError:
        return {}, ""
    except (OSError, LookupError, TypeError, ValueError) as error:
        return {}, f"{path} cannot be read ({error})"
    return written, ""
