"""What differs between a run as it was begun and what is asked for now, line by line."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from delira.metrics.direction import MODES
from delira.settings.config import SILENT
from delira.utils.files import mapping
from delira.utils.yaml_codec import Unresolved

#: parts of the fingerprint that must be equal whatever the user allows -> why
NEVER_ALLOWED = {
    "fold": "another fold is another run; pass the one that it was begun with as fold=",
    "search": "trials of another search are no trials of this one; begin a new one",
    "splits": "a case that is tested now may have been trained on before; begin a new cross-validation",
}
#: training settings of which only the beginning of a run reads all: what they made is in its checkpoints
_INITIAL = {"optimizer_params", "optim_fn", "lr_scheduler_cls", "lr_scheduler_params"}
_LONG = 60  # characters of a value that are shown
_MISSING = object()
_UNKNOWN = "not the same; the run did not record more"


def find_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    """Compare two manifests; what an older manifest does not say is not compared.

    Parameters
    ----------
    then
        The manifest in the run folder.
    now
        The facts that a new run would put into its own.

    Returns
    -------
    dict
        Part of the run (``network``, ``parameters``, ``data`` ...) -> lines that say what differs.
    """
    now = json.loads(json.dumps(now, default=str))  # as it would be read back
    found: dict[str, list[str]] = {}
    if then.get("model", now.get("model")) != now.get("model"):
        found["network"] = [f"model: {then['model']} in the run, {now['model']} now"]
    then = {**then, "fingerprint": then.get("fingerprint") or {}}
    old, new = then["fingerprint"], now["fingerprint"]
    searched = ["search"] if "search" in old and "search" not in new else []  # others need not say that they search
    for part in [*new, *searched]:
        is_same = old.get(part) == new.get(part)
        lines = [] if is_same else [*_lines_of(part, then, now)] or [f"{part}: {_UNKNOWN}"]
        if part == "parameters":
            lines = _lines_of_mode(lines, score_mode_of(then), score_mode_of(now))
        if lines:
            found[part] = lines
    further = {
        "code": _lines_of_code,
        "functions": _lines_of_functions,
        "validation": _lines_of_validation,
        "callbacks": _lines_of_callbacks,
        "process_settings": _lines_of_process,
    }
    for part, compare in further.items():
        if part in then and part in now and (lines := [*compare(then[part], now[part])]):
            found[part] = lines
    return found


def find_remarks(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What may differ without being refused, line by line: what cannot be compared, and callbacks of the user's own
    that do not act inside of the step.

    Parameters
    ----------
    then, now
        As of :func:`find_differences`.
    """
    now = json.loads(json.dumps(now, default=str))
    found = []
    old, new = mapping(then.get("code")), mapping(now.get("code"))
    if old and new and old.get("python") != new.get("python"):
        found.append(
            f"code: that of the network cannot be compared: {old.get('python')} in the run, {new.get('python')} now"
        )
    elif missing := _names_in(old.get("missing")) | _names_in(new.get("missing")):
        found.append(f"code: that of {', '.join(sorted(missing))} cannot be had, so it was not compared")
    if "callbacks" in then and "callbacks" in now:
        found += _lines_of_callbacks(then["callbacks"], now["callbacks"], must_be_same=False)
    return found


def _must_be_same(described: object) -> bool:
    """Return True if a described callback is one of delira's that changes numbers, or acts inside of the step.

    Of any other one its author knows what it does: stop, plot, or change a rate.
    """
    known = mapping(described)
    is_ours = str(known.get("$call", "")).startswith("delira.")
    return is_ours or bool(known.get("in_step")) or not isinstance(described, Mapping)


def _lines_of_code(old: object, new: object) -> Iterator[str]:
    old, new = mapping(old), mapping(new)
    if old.get("python") != new.get("python"):
        return
    then, now = mapping(old.get("functions")), mapping(new.get("functions"))
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            how = "is not in the run's" if name not in then else "is gone" if name not in now else "is another one"
            yield f"code: {name} {how}"


def _lines_of_functions(old: object, new: object) -> Iterator[str]:
    """What differs of functions that are in both: of one that came or went its name tells, or what calls it."""
    yield from (line for line in _lines_of_code(old, new) if line.endswith("is another one"))


def _lines_of_validation(old: object, new: object) -> Iterator[str]:
    old, new = mapping(old), mapping(new)
    if old.get("given") != new.get("given"):
        yield f"validation data: {old.get('given')} in the run, {new.get('given')} now"
    elif old.get("data") != new.get("data") or old.get("n_samples") != new.get("n_samples"):
        yield _of_data("validation data", old, new, old.get("data"), new.get("data"))
    yield from _compare("validation data", old.get("batches"), new.get("batches"))


def _lines_of_callbacks(old: object, new: object, must_be_same: bool = True) -> Iterator[str]:
    """A line for each callback of those that must be the same, or of the others; one for two of the same class."""
    gone, come = ([*each] if isinstance(each, list) else [] for each in (old, new))
    for one in [*gone]:
        if one in come:
            gone.remove(one)
            come.remove(one)
    gone, come = ([one for one in each if _must_be_same(one) == must_be_same] for each in (gone, come))
    for one in [*gone]:
        other = next((each for each in come if _type_of(each) == _type_of(one)), None)
        if other is not None:
            gone.remove(one)
            come.remove(other)
            yield f"callbacks: {as_text(one)} in the run, {as_text(other)} now"
    yield from (f"callbacks: {as_text(one)} in the run, not now" for one in gone)
    yield from (f"callbacks: {as_text(one)} now, not in the run" for one in come)


def _lines_of_process(old: object, new: object) -> Iterator[str]:
    """What a program has set of the framework for the whole process: what is not named is as it usually is."""
    old, new = mapping(old), mapping(new)
    for name in sorted({*old, *new}):
        then, now = (as_text(each[name]) if name in each else "as usual" for each in (old, new))
        if then != now:
            yield f"setting of the framework {name}: {then} in the run, {now} now"


def _type_of(described: object) -> str:
    return str(mapping(described).get("$call"))


def _names_in(listed: object) -> set[str]:
    return {str(name) for name in listed} if isinstance(listed, list) else set()


def score_mode_of(manifest: Mapping[str, Any]) -> str | None:
    """``"lowest"`` or ``"highest"``: which values of its score a run took for the best; ``None`` if it had none.

    Parameters
    ----------
    manifest
        Of the run; one from before November 2026 does not say so, and took the lowest unless it was told.
    """
    settings = mapping(manifest.get("settings"))
    if settings.get("val_score_key") is None:
        return None
    if (stated := manifest.get("score_mode")) in MODES.values():
        return str(stated)
    given = settings.get("val_score_mode")
    return MODES.get(given, "lowest") if isinstance(given, str) else "lowest"


def _lines_of_mode(lines: list[str], then: str | None, now: str | None) -> list[str]:
    """Leave out how the same mode of the score was spelt, and say where an older default was another one."""
    spelt = [line for line in lines if line.startswith("training.val_score_mode:")]
    if then == now:
        return [line for line in lines if line not in spelt]
    if None in (then, now) or spelt:  # another score, or the line is there
        return lines
    return [*lines, f'training.val_score_mode: "{then}" in the run, "{now}" now']


def refusals(different: Mapping[str, list[str]]) -> list[str]:
    """Why a run cannot be continued whatever the user allows; empty if it can be.

    Parameters
    ----------
    different
        What :func:`find_differences` found.
    """
    found = [f"{part}: {why}" for part, why in NEVER_ALLOWED.items() if part in different]
    if "optimizer_cls" in _settings_of(different):
        found.append("optimizer_cls: an optimizer cannot go on with the state of another one; begin a new run")
    return found


def explain(different: Mapping[str, list[str]]) -> list[str]:
    """Return what changes do not do though they are allowed, line by line.

    Parameters
    ----------
    different
        What :func:`find_differences` found.
    """
    told = (
        "optimizers and schedules go on with their state in the checkpoint, if there is one: new learning rates and "
        "schedules have no effect then; change them in a callback, e.g. by trainer.scale_rates(factor)"
    )
    return [told] if _INITIAL & _settings_of(different) else []


def summarise(different: Mapping[str, list[str]]) -> str:
    """Return what differs, and what can be done about it, in one line: of each part the first difference.

    Parameters
    ----------
    different
        What :func:`find_differences` found.
    """
    firsts = [f"{lines[0]}{f' and {len(lines) - 1} more' if len(lines) > 1 else ''}" for lines in different.values()]
    cure = refusals(different) or ["put it back, or continue all the same with resume=<the folder>, allow_changes=True"]
    return "; ".join([*firsts, *cure])


def _settings_of(different: Mapping[str, list[str]]) -> set[str]:
    """Return names of the training settings that differ."""
    places = (re.match(r"training\.(\w+)", line) for line in different.get("parameters", ()))
    return {place[1] for place in places if place}


def _lines_of(part: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = mapping(then.get("options")), mapping(now.get("options"))
    if part == "parameters":
        yield from _compare("model", then.get("model_params", _MISSING), now.get("model_params"))
        yield from _compare("training", then.get("settings", _MISSING), now.get("settings"), SILENT)
    elif part == "batches":
        yield from _compare("data", then.get("batches", _MISSING), now.get("batches"))
        for name in ("train_kwargs", "test_kwargs"):
            yield from _compare(name, old.get(name), new.get(name))
    elif part == "data":
        yield _of_data("dataset", then, now, then["fingerprint"].get("data"), now["fingerprint"]["data"])
    elif part == "search":
        both = "search" in then["fingerprint"], "search" in now["fingerprint"]
        if both != (True, True):
            told = [f"{'a search' if has_one else 'no search'}" for has_one in both]
            yield f"search: {told[0]} in the run, {told[1]} now"
        yield from _compare("search", then.get("search", _MISSING), now.get("search"), ("code",)) if all(both) else ()
    elif part == "splits":
        for name in sorted(name for name in new if not name.endswith("_kwargs") and name != "metrics"):
            yield from _compare(f"kfold.{name}", old.get(name), new.get(name))
    else:
        yield f"{part}: {as_text(then['fingerprint'].get(part))} in the run, {as_text(now['fingerprint'][part])} now"


def _of_data(what: str, then: Mapping[str, Any], now: Mapping[str, Any], *fingerprints: Any) -> str:
    marks = [f"{mark[:12]}…" if mark else "none" for mark in fingerprints]
    return (
        f"{what}: {then.get('n_samples')} samples then, {now.get('n_samples')} now; "
        f"fingerprint {marks[0]} then, {marks[1]} now"
    )


def _compare(place: str, old: Any, new: Any, left_out: Any = ()) -> Iterator[str]:
    """One line for each entry that differs, named by its path."""
    if old is _MISSING or old == new:
        return
    if _are_settings(old) and _are_settings(new):
        for name in dict.fromkeys([*old, *new]):
            if name in left_out:
                continue
            if name not in old:
                yield f"{place}.{name}: not given in the run, {_short(as_text(new[name]), '')} now"
            elif name not in new:
                yield f"{place}.{name}: {_short(as_text(old[name]), '')} in the run, not given now"
            else:
                yield from _compare(f"{place}.{name}", old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _compare(f"{place}[{number}]", before, after)
    else:
        yield f"{place}: {_short(as_text(old), as_text(new))} in the run, {_short(as_text(new), as_text(old))} now"


def _are_settings(value: object) -> bool:
    return isinstance(value, dict) and not any(name.startswith("$") for name in value)


def as_text(value: object) -> str:
    """Return a value as a user would write it, without the tags of the codec where they say nothing."""
    if isinstance(value, dict) and value.keys() & {"$repr", "$object", "$call", "$partial"}:
        return str(Unresolved(value, ""))
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("$tuple", "$float", "$path"):
        value = next(iter(value.values()))
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: str, other: str) -> str:
    """Return the part of a long text in which it differs from the other."""
    if len(text) <= _LONG:
        return text
    equal = next((number for number, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    start = max(0, min(equal - _LONG // 3, len(text) - _LONG))
    end = start + _LONG
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
