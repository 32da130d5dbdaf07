"""The passes that a callback looks at."""

from pathlib import Path

import pytest

from delira.callbacks.monitor import PassChoice, check_name
from delira.errors import ConfigError
from delira.state import DATA, PHASE, TEST_DATA, TRAIN_DATA, VALIDATION_DATA, State

#: phase and data of every kind of pass
PASSES = {
    "train": ("fit", TRAIN_DATA),
    "val": ("fit", VALIDATION_DATA),
    "evaluate": ("evaluate", VALIDATION_DATA),
    "evaluate train": ("evaluate", TRAIN_DATA),
    "predict": ("predict", TEST_DATA),
}


def seen(choice):
    return [name for name, (phase, data) in PASSES.items() if choice.looks_at(State({PHASE: phase, DATA: data}))]


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda choice: choice, ["val", "evaluate"]),
        (lambda choice: choice.on_val(), ["val", "evaluate"]),
        (lambda choice: choice.on_train(), ["train"]),
        (lambda choice: choice.on_test(), ["evaluate", "evaluate train", "predict"]),
        (lambda choice: choice.on_train().on_test(), ["train", "evaluate", "evaluate train", "predict"]),
    ],
)
def test_chosen_passes_are_looked_at(choose, expected):
    choice = choose(PassChoice())
    assert seen(choice) == expected
    for phase in ("fit", "evaluate", "predict"):
        reached = {PASSES[name][0] for name in expected}
        assert choice.looks_in(State({PHASE: phase})) >= (phase in reached)


def test_the_choice_is_that_of_one_callback():
    assert PassChoice().on_train().passes == {"train"}
    assert PassChoice().passes == {"val"}


def test_an_evaluation_leaves_the_files_of_the_fit_alone():
    path = Path("a/grid.png")
    assert PassChoice().file_of("a/grid.png", path, State({PHASE: "fit"})) == path
    assert PassChoice().file_of("a/grid.png", path, State({PHASE: "evaluate"})) == Path("a/grid_evaluate.png")
    assert PassChoice().file_of("a/{phase}.png", path, State({PHASE: "evaluate"})) == path
    assert PassChoice().on_test().file_of("a/grid.png", path, State({PHASE: "evaluate"})) == path


@pytest.mark.parametrize(
    ("template", "passes", "missing"),
    [("a", {"train", "val"}, "data"), ("a", {"val", "test"}, "phase"), ("{phase}", {"train", "val", "test"}, "data")],
)
def test_a_name_that_several_passes_would_share_is_refused(template, passes, missing):
    with pytest.raises(ConfigError, match=rf"Test: the name .* would be the same in .*; put \{{{missing}\}} into it"):
        check_name(template, frozenset(passes), "Test")


@pytest.mark.parametrize(
    ("template", "passes"), [("a", {"val"}), ("a", {"test"}), ("{phase}{data}", {"train", "val", "test"})]
)
def test_other_names_are_taken(template, passes):
    check_name(template, frozenset(passes), "Test")


def test_a_validation_goes_through_what_a_subclass_does_in_training():
    class Listening(PassChoice):
        def __init__(self):
            self.heard = []

        def on_step_training(self, state):
            self.heard.append("step")

        def on_end_training(self, state):
            self.heard.append("end")

    listening = Listening()
    listening.on_step_validation(State({}))
    listening.on_end_validation(State({}))
    assert listening.heard == ["step", "end"]
