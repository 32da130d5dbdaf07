"""The file of a cross-validation that says what neither its manifest nor its folds say."""

import json

import numpy as np
import pytest

from delira.metrics import accuracy
from delira.runs.results import SUMMARY, read_summary, write_summary

FACTS = {"name": "x", "seed": 3, "n_samples": 2, "metric_keys": {}, "info": {"warnings": []}, "outputs": None}


def test_what_was_written_is_read_and_groups_are_plain_numbers(tmp_path):
    path = write_summary(tmp_path, {**FACTS, "groups": np.array([4, 5])}, {"acc": accuracy}, {"acc": accuracy})
    found, trouble = read_summary(tmp_path)
    assert (path, trouble) == (tmp_path / SUMMARY, "")
    assert found["groups"] == [4, 5]
    assert found["metrics"]["acc"]["metric"] == {"$object": "delira.metrics.functions:accuracy"}
    assert {name: found[name] for name in FACTS} == FACTS


def test_without_the_file_there_is_nothing_and_no_trouble(tmp_path):
    assert read_summary(tmp_path) == ({}, "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 2}, "it has the format 2; this version of delira reads 1"),
        ({"n_samples": 3}, ""),
        ({"seed": "3"}, ""),
    ],
)
def test_a_file_that_was_changed_is_not_read_and_that_is_said(tmp_path, change, why):
    path = write_summary(tmp_path, {**FACTS, "groups": None}, {}, {})
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    found, trouble = read_summary(tmp_path)
    assert found == {}
    assert trouble.startswith(f"{path} cannot be read (")
    assert why in trouble
