"""What a fit shows: bars where they can be drawn, one line for each epoch elsewhere, nothing where nothing is asked."""

import io
import re
import sys

import pytest
from small_backends import build_kit, toy_kit

from delira.callbacks.decorators import on_end_epoch, on_step_training
from delira.state import DATA, VALIDATION_DATA
from delira.training.callbacks import ConsolePrinter, Tqdm


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stream(monkeypatch):
    """Let something take the place of the standard error stream; pytest sets its own when the test begins."""

    def use(kind):
        monkeypatch.setattr(sys, "stderr", kind())
        return sys.stderr

    return use


class Bars:
    """Stands for tqdm and keeps what its bars are told."""

    def __init__(self):
        self.made = []

    def __call__(self, **arguments):
        bar = Bar(arguments)
        self.made.append(bar)
        return bar


class Bar:
    def __init__(self, arguments):
        self.arguments, self.steps, self.postfix, self.is_closed = arguments, 0, "", False

    def update(self):
        self.steps += 1
        return True

    def set_postfix_str(self, text, refresh=True):
        self.postfix = text

    def close(self):
        self.is_closed = True


def told(bars):
    return [(bar.arguments["desc"], bar.arguments["total"], bar.steps, bar.is_closed) for bar in bars.made]


def test_without_a_terminal_there_is_one_line_for_each_epoch(fit, stream):
    pipe = stream(io.StringIO)
    fit.trial(verbose=2).run(3)
    lines = pipe.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert all(re.search(r"  loss=\d.*  val_loss=\d", line) for line in lines)


@pytest.mark.parametrize("verbose", [1, 2])
def test_an_evaluation_is_one_line_and_a_prediction_none(torch_fit, stream, verbose):
    pipe = stream(io.StringIO)
    trial = torch_fit.trial(verbose=verbose).with_test_data(torch_fit.x, 4)
    trial.evaluate()
    assert re.fullmatch(r"evaluation  val_loss=[\d.]+\n", pipe.getvalue())
    trial.predict()
    assert pipe.getvalue().count("\n") == 1


def test_verbose_0_says_nothing_and_a_call_may_say_otherwise(torch_fit, stream):
    terminal = stream(Terminal)
    trial = torch_fit.trial(verbose=0).with_test_data(torch_fit.x, 4)
    trial.run(1)
    trial.evaluate()
    trial.predict()
    trial.replay(verbose=0)
    assert terminal.getvalue() == ""
    trial.run(2, verbose=2)
    assert "2/2(t)" in terminal.getvalue()
    length = len(terminal.getvalue())
    torch_fit.trial(verbose=2).run(1, verbose=0)
    assert len(terminal.getvalue()) == length


def test_verbose_2_is_a_bar_for_each_pass_and_1_one_for_all(torch_fit, stream):
    terminal = stream(Terminal)
    trial = torch_fit.trial(verbose=2).with_test_data(torch_fit.x, 4)
    trial.run(2)
    trial.evaluate()
    trial.predict()
    shown = terminal.getvalue()
    assert all(name in shown for name in ("1/2(t)", "1/2(v)", "2/2(t)", "2/2(v)", "1/1(e)", "1/1(p)"))
    assert "3/3" in shown  # steps of a pass
    before = len(shown)
    trial.run(4, verbose=1)
    assert "(t)" not in terminal.getvalue()[before:]
    assert "4/4" in terminal.getvalue()[before:]


def test_the_printer_is_there_for_one_call_even_if_that_fails(torch_fit, stream):
    stream(io.StringIO)
    depths = []

    @on_end_epoch
    def fail(state):
        depths.append(len(state["callback_list"]))
        raise RuntimeError("on purpose")

    trial = torch_fit.trial(fail, verbose=2)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="on purpose"):
            trial.run(1)
        assert [*trial.callbacks] == [*trial.trainer.callbacks] == [fail]
    assert depths == [2, 2, 2]


def test_the_printer_comes_first(torch_fit, stream):
    pipe = stream(io.StringIO)

    @on_end_epoch
    def speak(state):
        sys.stderr.write("user\n")

    torch_fit.trial(speak, verbose=2).run(1)
    assert [line.split()[0] for line in pipe.getvalue().splitlines()] == ["epoch", "user"]


def test_a_callback_that_is_registered_in_a_run_stays(torch_fit, stream):
    stream(io.StringIO)
    added = Tqdm(tqdm_module=Bars())

    @on_step_training
    def add(state):
        if added not in [*state["self"].trainer.callbacks]:
            state["self"].trainer.register_callback(added)

    trial = torch_fit.trial(add, verbose=2)
    trial.run(1)
    assert [*trial.callbacks] == [add, added]


def test_a_replay_leaves_the_callers_list_alone(torch_fit, stream):
    pipe = stream(io.StringIO)
    trial = torch_fit.trial()
    trial.run(2)
    mine = []
    trial.replay(mine, verbose=2)
    assert mine == []
    assert pipe.getvalue().count("epoch") == 2


def test_bars_have_the_passes_steps_and_values(fit):
    bars = Bars()
    history = fit.trial(Tqdm(bars, validation_label_letter="w", precision=3, colour="red")).run(2)
    assert told(bars) == [
        ("1/2(t)", 3, 3, True),
        ("1/2(w)", 3, 3, True),
        ("2/2(t)", 3, 3, True),
        ("2/2(w)", 3, 3, True),
    ]
    assert f"val_loss={history[1]['val_loss']:.3g}" in bars.made[3].postfix
    assert all(bar.arguments["colour"] == "red" for bar in bars.made)


def test_a_bar_over_epochs_goes_on_at_the_epoch(torch_fit):
    bars = Bars()
    trial = torch_fit.trial(Tqdm(bars, on_epoch=True))
    trial.run(2)
    trial.run(5)
    assert [(bar.arguments["total"], bar.arguments["initial"], bar.steps) for bar in bars.made] == [
        (2, 0, 2),
        (5, 2, 3),
    ]


def test_a_bar_is_closed_when_a_fit_fails(torch_fit):
    bars = Bars()

    @on_step_training
    def fail(state):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        torch_fit.trial(Tqdm(bars), fail).run(1)
    assert [bar.is_closed for bar in bars.made] == [True]


def test_the_console_printer_rewrites_lines_in_a_terminal_only(torch_fit, stream):
    terminal = stream(Terminal)
    torch_fit.trial(ConsolePrinter(precision=2)).run(1)
    assert "\r1/1(t): 1/3  running_loss=" in terminal.getvalue()
    assert re.search(r"\r1/1\(v\): val_loss=[\d.]{1,4} *\n", terminal.getvalue())
    stream(io.StringIO)
    torch_fit.trial(ConsolePrinter()).run(2)
    assert "\r" not in sys.stderr.getvalue()
    assert [line[:7] for line in sys.stderr.getvalue().splitlines()] == ["1/2(t):", "1/2(v):", "2/2(t):", "2/2(v):"]


def test_an_experiment_has_them_too(tmp_path, manager, stream):
    pipe = stream(io.StringIO)
    bars = Bars()
    kit = build_kit("torch")
    kit.trainer(tmp_path, callbacks=[Tqdm(bars), ConsolePrinter()]).train(1, manager(), manager())
    assert told(bars) == [("1/1(t)", 3, 3, True), ("1/1(v)", 3, 3, True)]
    assert re.search(r"1/1\(t\): mse=\d", pipe.getvalue())


def test_lines_and_bars_of_a_cross_validation_say_which_fold_they_are_of(tmp_path, manager, stream):
    places = [f"fold {fold} · epoch {epoch}/2" for fold in (0, 1) for epoch in (1, 2)]
    pipe = stream(io.StringIO)
    experiment = toy_kit().experiment(tmp_path, training={"num_epochs": 2})
    experiment.kfold(manager(), num_splits=2, verbose=2)
    assert [line.split("  ")[0] for line in pipe.getvalue().splitlines()] == places
    terminal = stream(Terminal)
    experiment.kfold(manager(), num_splits=2, verbose=2)
    assert all(place.replace("epoch ", "") + "(t)" in terminal.getvalue() for place in places)


@pytest.mark.parametrize("printer", [ConsolePrinter, Tqdm])
def test_a_validation_goes_through_what_a_subclass_does_in_training(torch_fit, stream, printer):
    class Listening(printer):
        heard = ()

        def on_step_training(self, state):
            self.heard = (*self.heard, state[DATA])

        def on_end_training(self, state):
            self.heard = (*self.heard, "end")

    listening = Listening()
    torch_fit.trial(listening).with_val_data(torch_fit.x, torch_fit.y, len(torch_fit.x)).run(1, verbose=0)
    assert listening.heard[-3:] == ("end", VALIDATION_DATA, "end")
