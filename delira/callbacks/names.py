"""Names of files that are formats over the state and its metrics, and the passes that write under them."""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from delira.callbacks.abstract_callback import EveryPass, trainer_of
from delira.callbacks.monitor import plain_values
from delira.errors import ConfigError
from delira.state import DATA, METRICS, PHASE, TRAIN_DATA, VALIDATION_DATA, State


def fields_of(template: str) -> set[str]:
    """Return names of the fields of a format."""
    return {field.partition(".")[0].partition("[")[0] for _, field, *_ in string.Formatter().parse(template) if field}


def fill_in(template: str, state: State, who: str, further: Mapping[str, Any] | None = None) -> str:
    """Return a name whose fields are metrics, entries of the state, and ``fold``.

    Parameters
    ----------
    template
        The format, e.g. ``"{epoch:02d}-{val_loss:.2f}"``.
    state
        Of the fit.
    who
        For the message.
    further
        Fields that go before both.

    Raises
    ------
    ConfigError
        If there is no such field, or it cannot be written so.
    """
    metrics = {name: value for name, value in state.get(METRICS, {}).items() if name != "epoch"}
    values = {str(key): value for key, value in state.items()} | {"fold": _fold(state)} | metrics | dict(further or {})
    try:
        fields = {name: values[name] for name in fields_of(template) & values.keys()}
        fields |= plain_values({name: value for name, value in fields.items() if hasattr(value, "dtype")})
        return template.format_map(fields)
    except KeyError as error:
        raise ConfigError(
            f"{who}: the name {template!r} has the field {error}, but there is neither a metric of that name "
            f"({', '.join(metrics) or 'there are none'}) nor such an entry of the state"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{who}: the name {template!r} cannot be filled in: {error}") from None


def path_of(template: str, state: State, who: str, further: Mapping[str, Any] | None = None) -> Path:
    """Return the file of a name that :func:`fill_in` fills in; see :func:`of_fold`."""
    path = Path(fill_in(template, state, who, further))
    return path if "fold" in fields_of(template) else of_fold(path, state)


def of_fold(path: Path, state: State) -> Path:
    """Return the file of the fold at hand: ``<name>_fold_1.<ending>`` and so on for the further ones.

    Parameters
    ----------
    path
        The file of the first fold, or of what has no folds. A number with a point in it is no ending.
    state
        Of the fit.
    """
    fold, ending = _fold(state), path.suffix if path.suffix[1:].isalpha() else ""
    return path.with_name(f"{path.name.removesuffix(ending)}_fold_{fold}{ending}") if fold else path


def _fold(state: State) -> int:
    return getattr(trainer_of(state), "fold", 0)


class PassChoice(EveryPass):
    """A callback with ``on_train()``, ``on_val()`` and ``on_test()``; without any of them it is ``on_val()``.

    An evaluation of the validation data is both a validation and a test; other evaluations, and predictions, are a
    test. What a fit has written stays as it is. It begins, looks at the batches and gives out what it saw by
    :meth:`on_start_validation`, :meth:`_look` and :meth:`_give_out`.
    """

    phases = ("fit", "evaluate", "predict")
    not_hooks: tuple[str, ...] = ("on_train", "on_val", "on_test")
    _chosen: frozenset[str] = frozenset()

    def on_train(self) -> Self:
        """Look at the training passes of a fit; returns the callback."""
        return self._choose("train")

    def on_val(self) -> Self:
        """Look at the validations of a fit, and at evaluations of the validation data; returns the callback."""
        return self._choose("val")

    def on_test(self) -> Self:
        """Look at evaluations and predictions; returns the callback."""
        return self._choose("test")

    def _choose(self, name: str) -> Self:
        self._chosen |= {name}
        return self

    def on_start_training(self, state: State) -> None:
        """Begin to count; a pass that is continued is counted on."""
        if not trainer_of(state).state.step_in_epoch:
            self.on_start_validation(state)

    def on_step_training(self, state: State) -> None:
        """Look at a batch."""
        if self.looks_at(state):
            self._look(state)

    def on_end_training(self, state: State) -> None:
        """Give out what was seen in the pass."""
        if self.looks_at(state):
            self._give_out(state)

    def _look(self, state: State) -> None:
        """Look at a batch of a pass that was chosen."""

    def _give_out(self, state: State) -> None:
        """Give out what was seen in such a pass."""

    @property
    def passes(self) -> frozenset[str]:
        """``"train"``, ``"val"``, ``"test"``: those that are looked at."""
        return self._chosen or frozenset({"val"})

    def looks_in(self, state: State) -> bool:
        """Return True if any pass of the fit, evaluation or prediction at hand is looked at."""
        return bool(self.passes & {"fit": {"train", "val"}, "evaluate": {"val", "test"}}.get(state[PHASE], {"test"}))

    def looks_at(self, state: State) -> bool:
        """Return True if the pass at hand is one of them."""
        if state[PHASE] != "fit":
            is_validated = state[PHASE] == "evaluate" and state[DATA] == VALIDATION_DATA
            return "test" in self.passes or (is_validated and "val" in self.passes)
        return ("train" if state[DATA] == TRAIN_DATA else "val") in self.passes

    def file_of(self, template: str, path: Path, state: State) -> Path:
        """Return the file of a name as it was filled in: another one in an evaluation than in the fit.

        Parameters
        ----------
        template
            The name.
        path
            What :func:`~delira.callbacks.names.path_of` made of it.
        state
            Of the pass.
        """
        if state[PHASE] != "evaluate" or "test" in self.passes or "phase" in fields_of(template):
            return path
        return path.with_name(f"{path.stem}_evaluate{path.suffix}")


def check_name(template: str, passes: frozenset[str], who: str) -> None:
    """Refuse a name under which one pass would overwrite what another has written.

    Raises
    ------
    ConfigError
        Saying which field is missing.
    """
    fields = fields_of(template)
    if "test" in passes and len(passes) > 1 and "phase" not in fields:
        missing = "phase"
    elif {"train", "val"} <= passes and "data" not in fields:
        missing = "data"
    else:
        return
    raise ConfigError(
        f"{who}: the name {template!r} would be the same in the passes {', '.join(sorted(passes))}; put {{{missing}}} "
        "into it"
    )
