"""Whether a metric is one function in all results: a name may be an accuracy in one and an error in another."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delira.errors import DataError
from delira.experiments.result import KFoldResult
from delira.metrics.per_class import OfClass
from delira.runs.code_of import describe_metrics
from delira.runs.differences import as_text
from delira.utils.files import mapping
from delira.utils.frameworks import LIBRARIES

#: how arrays come to a metric, which backends do in different ways; what is computed of them is the same
_LAYOUT = {"class_axis", "gt_logits", "pred_logits"}
_TAGS = ("$object", "$call", "$partial")
#: whose functions are told by their names, also in runs that did not keep any code
_PACKAGES = LIBRARIES | {"delira", "numpy", "sklearn", "torchmetrics"}


def check_functions(results: Sequence[KFoldResult], names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Return sentences about metrics of which nobody knows whether they are one function in all results.

    Parameters
    ----------
    results, names
        What is compared, and how it is called.
    metrics
        Those that are compared.

    Raises
    ------
    DataError
        If it is known that one is another function, or has other options.
    """
    stated = [_stated(result) for result in results]
    unknown: dict[str, list[str]] = {}
    for metric in metrics:
        known = [(name, _entry(each, metric)) for name, each in zip(names, stated, strict=True)]
        for number, ((one, entry), (two, other)) in enumerate(itertools.combinations(known, 2)):
            pair = (one, two)
            if found := next(_differences(entry, other, pair), None):
                raise DataError(
                    f"{metric!r} is another function in {one} than in {two}: {found}. Differences between two "
                    f"functions say nothing about methods. Compute it with one function in both: kfold(…, "
                    f"metrics={{{metric!r}: …}}, resume=RUN) does so from the predictions, without training; or "
                    "compare others, with metric=[…]"
                )
            # the first pairs are those of the first result: what is not known of the others follows from them
            if number < len(known) - 1 and (why := _unknown(entry, other, pair)):
                sentence = f"in {one} and {two} is the same function is not known: {why}"
                unknown.setdefault(sentence, []).append(metric)
    return [f"that {', '.join(each)} {sentence}" for sentence, each in unknown.items()]


def _stated(result: KFoldResult) -> Mapping[str, Any]:
    """How the metrics of a result were given, and their code."""
    if result.stated_metrics is not None:
        return result.stated_metrics
    given = result.metrics or {}
    return describe_metrics({name: metric for name, metric in given.items() if not isinstance(metric, OfClass)})


def _entry(stated: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    """What is known of a metric; of that of one class what is known of the metric of all; empty if nothing is."""
    name = metric
    while name not in stated and "." in name:
        name = name.rpartition(".")[0]
    return mapping(stated.get(name))


def _differences(first: Mapping[str, Any], other: Mapping[str, Any], pair: tuple[str, str]) -> Iterator[str]:
    """Yield what is known to differ."""
    if "metric" not in first or "metric" not in other:
        return
    if _plain(first["metric"]) != _plain(other["metric"]) and not _are_unrelated(first, other):
        told = [as_text(_without_layout(entry["metric"])) for entry in (first, other)]
        yield f"it is {told[0]} in {pair[0]}, {told[1]} in {pair[1]}"
    if _has_same_bytecode(first, other):
        ours, theirs = (_functions(entry) for entry in (first, other))
        changed = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if changed:
            yield f"the code of {', '.join(changed)} is not the same"


def _unknown(first: Mapping[str, Any], other: Mapping[str, Any], pair: tuple[str, str]) -> str:
    """Return why it is not known whether two are one function; empty if it is known."""
    for entry, name in zip((first, other), pair, strict=True):
        if "metric" not in entry:
            return f"{name} does not say what it was computed with"
    if _plain(first["metric"]) != _plain(other["metric"]) and _are_unrelated(first, other):
        told = [as_text(entry["metric"]) for entry in (first, other)]
        return f"it is {told[0]} in {pair[0]}, {told[1]} in {pair[1]}"
    for entry, name in zip((first, other), pair, strict=True):
        if "code" not in entry and not _is_of_packages(entry):
            return f"{name} is of before the code of metrics was kept"
        if mapping(entry.get("code")).get("missing"):
            return f"the code of {', '.join(map(str, entry['code']['missing']))} cannot be had"
        if _is_object(entry["metric"]):
            return f"what {as_text(entry['metric'])} was made with is not written in {name}"
    if (_functions(first) or _functions(other)) and not _has_same_bytecode(first, other):
        versions = [mapping(entry.get("code")).get("python") for entry in (first, other)]
        return f"the code was read by {versions[0]} and {versions[1]}"
    return ""


def _functions(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hashes of the user's functions by name."""
    return mapping(mapping(entry.get("code")).get("functions"))


def _has_same_bytecode(first: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if the code of both was kept, by one version of Python."""
    versions = [mapping(entry.get("code")).get("python") for entry in (first, other)]
    return versions[0] is not None and versions[0] == versions[1]


def _plain(metric: Any) -> Any:
    """Return how a metric was given, without what depends on where a program lies, and on the backend."""
    if isinstance(metric, Mapping):
        if "$repr" in metric:
            return "$repr"  # its code tells it, as far as it can be told
        found = {name: _plain(each) for name, each in _without_layout(metric).items()}
        for tag in _TAGS:
            if tag in metric:
                module, _, name = str(metric[tag]).partition(":")
                found[tag] = f"{module.partition('.')[0]}:{name}" if _is_package(module) else name
        return found
    return [_plain(each) for each in metric] if isinstance(metric, (list, tuple)) else metric


def _without_layout(metric: Any) -> Any:
    """A metric without those of its arguments that say how arrays come to it."""
    if not isinstance(metric, Mapping) or not isinstance(metric.get("arguments"), Mapping):
        return metric
    arguments = {name: each for name, each in metric["arguments"].items() if name not in _LAYOUT}
    return {**metric, "arguments": arguments}


def _are_unrelated(first: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two metrics are of different packages, none of them the user's: they may compute the same."""
    if not all(not _functions(entry) if "code" in entry else _is_of_packages(entry) for entry in (first, other)):
        return False
    return _package(first["metric"]) != _package(other["metric"])


def _is_of_packages(entry: Mapping[str, Any]) -> bool:
    """Return True if a metric, and what it was made with, is told by its name alone."""
    return all(map(_is_package, _modules(entry["metric"])))


def _modules(metric: Any) -> Iterator[str]:
    """Yield the modules of all that a metric was given as; an empty text for what a file can only describe."""
    if isinstance(metric, Mapping):
        yield from (str(metric[tag]).partition(":")[0] for tag in _TAGS if tag in metric)
        yield from ("" for _ in metric.keys() & {"$repr"})
    parts = metric.values() if isinstance(metric, Mapping) else metric if isinstance(metric, (list, tuple)) else ()
    for part in parts:
        yield from _modules(part)


def _package(metric: Any) -> str:
    """Return the package that a metric is of; empty for one that is named, or that a file can only describe."""
    named = [str(metric[tag]) for tag in _TAGS if tag in metric] if isinstance(metric, Mapping) else []
    return named[0].partition(":")[0].partition(".")[0] if named else ""


def _is_package(module: str) -> bool:
    return module.partition(".")[0] in _PACKAGES


def _is_object(metric: Any) -> bool:
    """Return True for an object that a file can only describe."""
    return isinstance(metric, Mapping) and not str(metric.get("$repr", "<function")).startswith("<function")
