"""The card of a model says what the result says, and what it does not know."""

import re

import numpy as np
import pytest
from test_temperature import drawn

from delira.errors import ConfigError
from delira.experiments.result import KFoldResult

SECTIONS = [
    "Model", "Intended use", "Limits", "Data", "How it was tested", "Results", "Subgroups", "Calibration", "Caveats",
    "Environment",
]  # fmt: skip


def section(card, name):
    return re.search(rf"^## {name}\n\n(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)[1]


def test_it_has_all_sections_and_says_what_is_not_known(result):
    card = result.card()
    assert re.findall(r"^## (.*)$", card, re.MULTILINE) == SECTIONS
    assert card.startswith("# toy\n")
    assert section(card, "Intended use").strip() == "Not stated by the authors."
    assert "is not known" in section(card, "Subgroups")
    assert result.table("markdown") in card
    assert "4 networks, one for each fold" in section(card, "Model")
    assert "each tested case was tested once, by a network that was trained without it" in section(
        card, "How it was tested"
    )


def test_what_only_authors_know_is_theirs(result):
    card = result.card(intended_use="Triage by *radiologists*.", limits="Not for children.")
    assert section(card, "Intended use") == "Triage by *radiologists*.\n\n"
    assert section(card, "Limits") == "Not for children.\n\n"
    with pytest.raises(ConfigError, match="limits"):
        result.card(limits=3)


def test_subgroups_and_calibration_are_those_of_the_result(validate):
    result = validate(*drawn(temperature=3.0), metrics=None)
    by = np.arange(600) % 2
    card = result.card(by=by)
    assert result.subgroups(by).table().rendered("markdown") in section(card, "Subgroups")
    assert result.calibration().table().rendered("markdown") in section(card, "Calibration")
    assert "the networks are too sure" in card


def test_caveats_are_the_warnings_of_the_result(validate):
    labels, logits = drawn(60)
    result = validate(labels, logits, problems=["a file of fold 3 is missing"])
    assert result.warnings
    caveats = section(result.card(), "Caveats")
    assert caveats.count("\n- ") + 1 == len(result.warnings)
    assert "a file of fold 3 is missing" in caveats


def test_without_probabilities_calibration_is_not_known(validate):
    labels, logits = drawn(60)
    told = section(validate(labels, logits.argmax(axis=1), metrics={}).card(), "Calibration")
    assert told.startswith("Not known: ")
    assert "No metric was computed" in validate(labels, logits, metrics={}).card()


def test_groups_are_told(validate):
    labels, logits = drawn(60)
    card = validate(labels, logits, metrics=None, groups=np.arange(60) % 20).card()
    assert "Whole groups are on one side of each split." in card
    assert "intervals over whole groups" in card


def test_groups_that_a_split_divides_are_told(validate):
    labels, logits = drawn(60)
    card = validate(labels, logits, metrics=None, groups=np.arange(60) // 2).card()
    assert "on one side of each split" not in card
    assert "on both sides in fold 0, 1, 2, 3: its numbers may be too good" in card


def test_texts_that_would_be_markup_are_shown_as_they_are(result):
    settings = "model: '```'\nnote: |\n  ````\n"
    hostile = KFoldResult(
        result.folds, 90, result.metrics, seed=7, name="*a*\n# b",
        info={"settings": settings, "model": "module:<b>", "class_names": ["a|b", "c", "d"]},
    )  # fmt: skip
    card = hostile.card()
    assert card.startswith("# \\*a\\* # b\n")
    assert f"`````yaml\n{settings}\n`````" in card
    assert "module:\\<b>" in card
    assert "a\\|b, c, d" in card


def test_it_is_written_to_a_file(result, tmp_path):
    path = result.card(tmp_path / "new" / "card.md")
    assert path.read_text(encoding="utf-8") == result.card()


def test_a_single_training_says_that_nothing_was_tested(result):
    fold = type(result.folds[0])(0, np.arange(88), np.arange(88, 90), np.arange(0), history=result.folds[0].history)
    card = KFoldResult([fold], 90, {}, kind="run", name="one").card()
    assert "which nothing was tested with" in card
    assert "By cross-validation" not in card
