"""The passes over data that a callback looks at, as fluent methods."""

from pathlib import Path
from typing import Self

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import trainer_of
from delira.callbacks.names import fields_of
from delira.errors import ConfigError
from delira.state import State


class PassChoice(Callback):
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

    on_step_validation, on_end_validation = on_step_training, on_end_training

    def _look(self, state: State) -> None: ...

    def _give_out(self, state: State) -> None: ...

    @property
    def passes(self) -> frozenset[str]:
        """``"train"``, ``"val"``, ``"test"``: those that are looked at."""
        return self._chosen or frozenset({"val"})

    def looks_in(self, state: State) -> bool:
        """Return True if any pass of the fit, evaluation or prediction at hand is looked at."""
        passes = {"fit": {"train", "val"}, "evaluate": {"val", "test"}}
        return bool(self.passes & passes.get(state[keys.PHASE], {"test"}))

    def looks_at(self, state: State) -> bool:
        """Return True if the pass at hand is one of them."""
        if state[keys.PHASE] != "fit":
            is_validated = state[keys.PHASE] == "evaluate" and state[keys.DATA] == keys.VALIDATION_DATA
            return "test" in self.passes or (is_validated and "val" in self.passes)
        return ("train" if state[keys.DATA] == keys.TRAIN_DATA else "val") in self.passes

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
        if state[keys.PHASE] != "evaluate" or "test" in self.passes or "phase" in fields_of(template):
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
