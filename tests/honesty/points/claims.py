"""Faults of what a result claims: numbers that were fitted on the cases they are judged by."""

from put_back import PutBack

SUBGROUPS = "tests/report/test_subgroups.py"
TEMPERATURE, CONFORMAL = "tests/report/test_temperature.py", "tests/report/test_conformal.py"

BOOTSTRAP, DRAWN = "tests/report/test_bootstrap632.py", "tests/experiments/test_bootstrap_splits.py"
CURVE = "tests/experiments/test_learning_curve.py"

POINTS = [
    PutBack(
        point="claims",
        what="a network that is tested on what it learned from counts in the mean",
        file="delira/experiments/result.py",
        old="self.folds, self.apparent = [fold for fold in self.folds if not fold.is_apparent], marked[0]",
        new="self.apparent = marked[0]",
        test=f"{BOOTSTRAP}::test_the_fold_of_all_cases_is_in_no_mean",
    ),
    PutBack(
        point="claims",
        what="and in the mean that lists of runs show",
        file="delira/runs/stored_run.py",
        old="return [event for number, event in ended if number != self.apparent]",
        new="return [event for number, event in ended]",
        test=f"{DRAWN}::test_the_ledger_counts_it_in_no_mean",
    ),
    PutBack(
        point="claims",
        what="a case that was drawn twice is trained on and validated on",
        file="delira/experiments/splits.py",
        old="            groups = rest  # a sample that was drawn twice is not on both sides\n",
        new="            pass\n",
        test=f"{DRAWN}::test_a_case_that_was_drawn_twice_is_not_validated_on_and_trained_on",
    ),
    PutBack(
        point="claims",
        what="predictions without information belong to their own cases",
        file="delira/report/bootstrap632.py",
        old="pairings = [np.roll(places, shift) for shift in range(n)]",
        new="pairings = [places]",
        test=f"{BOOTSTRAP}::test_without_information_each_prediction_belongs_to_each_case",
    ),
    PutBack(
        point="claims",
        what="networks worse than without information are counted as such twice",
        file="delira/report/bootstrap632.py",
        old="bounded = min(found, worst)",
        new="bounded = found",
        test=f"{BOOTSTRAP}::test_the_estimate_by_hand_from_given_error_rates",
    ),
    PutBack(
        point="claims",
        what="a larger training part is other cases, not more",
        file="delira/experiments/training_sizes.py",
        old="    return rest[ranks < n_units]",
        new="    return np.sort(np.random.default_rng(size).permutation(rest)[:n_units])",
        test=f"{CURVE}::test_each_fold_learns_from_cases_within_those_of_the_next_size_and_tests_the_same",
    ),
    PutBack(
        point="claims",
        what="a mean over all sizes is read as that of a cross-validation",
        file="delira/experiments/stored_result.py",
        old='    if is_curve != (run.kind == "learning_curve") or run.kind == "tune":',
        new='    if is_curve and run.kind != "learning_curve":',
        test=f"{CURVE}::test_a_mean_over_sizes_is_nowhere_offered",
    ),
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
