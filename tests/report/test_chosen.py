"""What folds chose is counted for options, and measured against its space for numbers."""

from functools import partial

import pytest

from delira.report.chosen import agreement, chosen_section
from delira.search import Choice, Float, Int, Tune
from delira.utils import yaml_codec

NAME = "training.width"


@pytest.fixture
def chosen(validate, data):
    """A cross-validation of four folds, or more, that chose these values of a space."""

    def made(values, space=None, **asked):
        searched = [
            {"fold": fold, "trial": 0, "scores": [0.5], "values": {} if value is None else {NAME: value}}
            for fold, value in enumerate(values)
        ]
        plain = space if isinstance(space, dict) else yaml_codec.encode(space)
        search = {"spaces": {NAME: plain}, **asked}
        return validate(data.labels, data.scores, info={"searched": searched, "search": search})

    return made


def described(tune):
    return {**tune.describe(), "n_trials": tune.n_trials}


@pytest.mark.parametrize(
    ("values", "space", "said"),
    [
        ([16, 64, 16, 64], Choice([16, 32, 64]), "16 in 2 folds, 64 in 2, of 3 options"),
        ([64, 64, 16, 64], Choice([16, 64]), "64 in 3 folds, 16 in 1, of 2 options"),
        (["SGD", "SGD", "Adam", "SGD"], Choice(["SGD", "Adam"]), "SGD in 3 folds, Adam in 1, of 2 options"),
        ([True, False, True, True], Choice([True, False]), "True in 3 folds, False in 1, of 2 options"),
        ([0.5], Choice([0.0, 0.5]), "0.5 in 1 fold, of 2 options"),
        # median of 0.2, 0.3, 0.4, 0.7 and (0.7 - 0.2) / (1 - 0)
        ([0.3, 0.2, 0.4, 0.7], Float(0.0, 1.0), "median 0.35, from 0.2 to 0.7, 50 % of the space's width"),
        # one of four powers of ten, though but 0.9 % of the width
        (
            [1e-3, 1e-4, 1e-3, 1e-3],
            Float(1e-5, 1e-1, log=True),
            "median 0.001, from 0.0001 to 0.001, 25 % of the space's width on its log scale",
        ),
        # two of six doublings
        (
            [8, 32, 16, 16],
            Int(4, 256, log=True),
            "median 16, from 8 to 32, 33 % of the space's width on its log scale",
        ),
        ([16, 64, 16, 64], Int(0, 96, step=16), "median 40, from 16 to 64, 50 % of the space's width"),
        ([1, 2, 1, 2], Int(0, 1000), "median 1.5, from 1 to 2, less than 1 % of the space's width"),
        ([0.1, 0.9], Float(0.1, 0.9), "median 0.5, from 0.1 to 0.9, 100 % of the space's width"),
        ([3, 3, 3, 3], Int(1, 9), "3 in 4 folds"),
        ([3, None, 3, 5], Int(1, 9), "median 3, from 3 to 5, 25 % of the space's width (there in 3 of 4 folds)"),
        ([3, 3, 4, 3], None, "3 in 3 folds, 4 in 1"),
    ],
)
def test_what_was_chosen_is_said_as_its_space_wants_it(chosen, values, space, said):
    assert agreement(chosen(values, space)) == [f"{NAME}: {said}"]


@pytest.mark.parametrize(
    "space",
    [
        {"$space": "Float", "low": "a", "high": 2},
        {"$space": "Float", "low": 0, "high": 2, "log": True},
        {"$space": "Int", "low": 2, "high": 2},
        {"$space": "Int"},
    ],
    ids=["text", "log of zero", "no width", "no ends"],
)
def test_a_file_with_other_spaces_is_read_without_a_share(chosen, space):
    assert agreement(chosen([1, 2], space)) == [f"{NAME}: median 1.5, from 1 to 2"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            Tune(n_trials=30, num_splits=4, val_split=None),
            "Each fold tried 30 trials, proposed by tpe; each was scored by the test parts of 4 inner folds.",
        ),
        (
            Tune(n_trials=1, num_splits=3, val_split=0.25, sampler="random", split_type="stratified"),
            "Each fold tried 1 trial, proposed by random; each was scored by the test parts of 3 inner folds "
            "(stratified), 25 % of whose training parts were held out for validation.",
        ),
        (
            Tune(n_trials=1200, pruner="median"),
            "Each fold tried 1,200 trials, proposed by tpe, and pruned by median; each was trained once, and scored by "
            "the 20 % held out of the fold's training part.",
        ),
    ],
)
def test_what_was_searched_is_said_beside_it(chosen, asked, said):
    assert said in chosen_section(chosen([1, 2], Int(1, 9), **described(asked))).notes


def test_objects_are_said_by_their_names_and_what_they_were_made_of(chosen):
    pytest.importorskip("optuna")
    from optuna.pruners import PercentilePruner
    from optuna.samplers import TPESampler
    from sklearn.model_selection import KFold

    asked = Tune(
        n_trials=6,
        sampler=partial(TPESampler, multivariate=True),
        split_type=KFold(4, shuffle=True, random_state=0),
        pruner=PercentilePruner(25.0),
    )
    text = " ".join(chosen_section(chosen([1, 2], Int(1, 9), **described(asked))).notes)
    assert "proposed by TPESampler(multivariate=True), and pruned by PercentilePruner(percentile=25.0, " in text
    assert "the inner folds (KFold(n_splits=4, shuffle=True, random_state=0)), 20 % of whose" in text
    plain = described(Tune(n_trials=3, sampler=TPESampler))
    assert "proposed by TPESampler;" in " ".join(chosen_section(chosen([1], Int(1, 9), **plain)).notes)


def test_nothing_is_said_of_a_search_that_is_not_known(chosen):
    assert not any(note.startswith("Each fold tried") for note in chosen_section(chosen([1, 2], Int(1, 9))).notes)
