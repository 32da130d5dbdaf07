"""Faults of what a result claims: numbers that were fitted on the cases they are judged by."""

from put_back import PutBack

SUBGROUPS = "tests/report/test_subgroups.py"
TEMPERATURE, CONFORMAL = "tests/report/test_temperature.py", "tests/report/test_conformal.py"

POINTS = [
    PutBack(
        point="claims",
        what="a temperature is judged by the cases that it was fitted on",
        file="delira/report/temperature.py",
        old="others = ~own & ~np.isin(units, units[own])",
        new="others = np.ones_like(own)",
        test=f"{TEMPERATURE}::test_that_of_a_fold_knows_nothing_of_its_cases",
    ),
    PutBack(
        point="claims",
        what="in repeats a case decides the temperature that it gets",
        file="delira/report/temperature.py",
        old="others = ~own & ~np.isin(units, units[own])",
        new="others = ~own",
        test=f"{TEMPERATURE}::test_in_repeats_a_case_never_decides_the_temperature_of_its_fold",
    ),
    PutBack(
        point="claims",
        what="two predictions of a case are drawn as two cases",
        file="delira/report/temperature.py",
        old="is_each_once = result.groups is None and len(np.unique(index)) == len(index)",
        new="is_each_once = result.groups is None",
        test=f"{TEMPERATURE}::test_in_repeats_a_case_never_decides_the_temperature_of_its_fold",
    ),
    PutBack(
        point="claims",
        what="a threshold does not count the new case",
        file="delira/report/conformal.py",
        old="(len(scores) + 1) * (1 - alpha)",
        new="len(scores) * (1 - alpha)",
        test=f"{CONFORMAL}::test_new_cases_are_covered_as_often_as_promised",
    ),
    PutBack(
        point="claims",
        what="a product that is rounded up takes the next score",
        file="delira/report/conformal.py",
        old="math.ceil(round((len(scores) + 1) * (1 - alpha), 9))",
        new="math.ceil((len(scores) + 1) * (1 - alpha))",
        test=f"{CONFORMAL}::test_it_is_the_score_at_the_place_that_counts_the_new_one",
    ),
    PutBack(
        point="claims",
        what="coverage is measured by the cases that made the threshold",
        file="delira/report/conformal.py",
        old="others = ~own & ~np.isin(units, units[own])",
        new="others = np.ones_like(own)",
        test=f"{CONFORMAL}::test_what_is_measured_of_a_fold_is_by_the_others",
    ),
    PutBack(
        point="claims",
        what="a gap is that to all cases, the subgroup among them",
        file="delira/report/subgroups.py",
        old="for where in (is_in, ~is_in))",
        new="for where in (is_in, np.ones_like(is_in)))",
        test=f"{SUBGROUPS}::test_a_gap_is_that_to_all_others",
    ),
    PutBack(
        point="claims",
        what="cases of a group are drawn one by one for a gap",
        file="delira/report/subgroups.py",
        old="draws = bootstrap.Draws(parts, result.groups,",
        new="draws = bootstrap.Draws(parts, None,",
        test=f"{SUBGROUPS}::test_whole_groups_are_drawn_where_there_are_some",
    ),
]
