"""What a cross-validation says about its numbers: the faults of old."""

from put_back import PutBack

DIGITS = "tests/honesty/test_digits_of_tables.py::"
EVERY = "tests/honesty/test_every_fold.py::"
FOLDS = "tests/honesty/test_intervals_of_folds.py::"
STORED = "tests/honesty/test_stored_numbers.py::"
SPACING = "tests/honesty/test_spacing_of_cases.py::"

POINTS = [
    PutBack(
        point="5",
        what="predictions of repeats are averaged: an ensemble that nobody asked for",
        file="delira/experiments/out_of_fold.py",
        old="""    for part, where in zip(parts, indices, strict=True):
        whole[where] = part
    return whole
""",
        new="""    total = np.zeros(whole.shape, np.float64)
    for part, where in zip(parts, indices, strict=True):
        np.add.at(total, where, part)
    whole[counts > 0] = (total[counts > 0].T / counts[counts > 0]).T
    return whole
""",
        test=FOLDS + "test_out_of_fold_predictions_are_those_of_single_networks",
    ),
    PutBack(
        point="5",
        what="all repeats are pooled into one value",
        file="delira/report/predictions.py",
        old="    for folds in rounds.folds:\n",
        new="    for folds in [result.folds]:\n",
        test=FOLDS + "test_repeats_have_one_pooled_value_each_and_then_their_mean_and_spread",
    ),
    PutBack(
        point="5",
        what="splits that test cases unequally often are pooled",
        file="delira/report/predictions.py",
        old="""    if rounds.kind == "splits":
        return folds_of(result)
    parts = []
    for folds in rounds.folds:
""",
        new="""    parts = []
    for folds in [result.folds]:
""",
        test=FOLDS + "test_splits_that_test_cases_unequally_often_have_a_value_each",
    ),
    PutBack(
        point="5",
        what="the last of splits that test the same cases is left out, as if the run were broken off",
        file="delira/experiments/out_of_fold.py",
        old="is_done = n_planned is not None and len(folds) >= n_planned",
        new="is_done = False",
        test=EVERY + "test_splits_whose_last_repeats_some_cases_of_the_others_are_no_unfinished_repeat",
    ),
    PutBack(
        point="5",
        what="cases that a repeat that was broken off tests again are drawn as if they were others",
        file="delira/experiments/out_of_fold.py",
        old='return self.kind == "once" and not self.unfinished',
        new='return self.kind == "once"',
        test=EVERY + "test_a_repeat_that_was_broken_off_is_drawn_with_the_cases_of_the_one_before",
    ),
    PutBack(
        point="5",
        what="the spread over folds and repeats is that of a population",
        file="delira/report/summary.py",
        old="np.std(values, ddof=1)",
        new="np.std(values)",
        test=EVERY + "test_every_number_is_what_its_splitter_and_scores_give[RepeatedKFold]",
    ),
    PutBack(
        point="6",
        what="draws leave whole groups apart",
        file="delira/report/bootstrap.py",
        old="None if self.groups is None else self.groups[cases], self.seed, fold=fold)",
        new="None, self.seed, fold=fold)",
        test=EVERY + "test_every_number_is_what_its_splitter_and_scores_give[repeated GroupKFold]",
    ),
    PutBack(
        point="5",
        what="repeats of a ranking metric are drawn as if their cases were independent",
        file="delira/report/summary.py",
        old="within = self.is_pooled and self.result.rounds.is_once\n",
        new="within = self.is_pooled\n",
        test=FOLDS + "test_ranking_metrics_of_repeats_draw_the_same_cases_in_all_of_them",
    ),
    PutBack(
        point="5",
        what="the page of repeats counts one prediction of each case only",
        file="delira/report/predictions.py",
        old="_classified(*_tested(result, pair, each_once=each_once) or found, known=known)",
        new="_classified(*found, known=known)",
        test=FOLDS + "test_the_page_of_repeats_counts_single_predictions_and_no_ensemble",
    ),
    PutBack(
        point="6",
        what="scores of different networks are pooled for the interval of a ranking metric",
        file="delira/report/summary.py",
        old="        parts = self.folds if self.is_pooled else self.rounds\n",
        new="        parts = self.rounds\n",
        test=FOLDS + "test_the_interval_of_a_ranking_metric_is_that_of_the_mean_and_draws_within_folds",
    ),
    PutBack(
        point="6",
        what="a pooled value is not called so",
        file="delira/report/table.py",
        old="            if c.is_pooled == is_pooled\n",
        new="            if not is_pooled\n",
        test=FOLDS + "test_a_pooled_value_is_called_so_and_its_gap_is_explained_on_the_page",
    ),
    PutBack(
        point="6",
        what="the gap between pooled value and mean is not explained",
        file="delira/report/page.py",
        old="notes=[*footnotes(result, columns), *gap_notes(columns)]",
        new="notes=footnotes(result, columns)",
        test=FOLDS + "test_a_pooled_value_is_called_so_and_its_gap_is_explained_on_the_page",
    ),
    PutBack(
        point="6",
        what="folds of fewer than five cases or groups have intervals, of zero width",
        file="delira/report/bootstrap.py",
        old="MIN_UNITS = 5\n",
        new="MIN_UNITS = 1\n",
        test=FOLDS + "test_too_few_to_draw_from_means_no_interval_and_the_reason_is_said",
    ),
    PutBack(
        point="6",
        what="draws that lack a class are left out",
        file="delira/report/bootstrap.py",
        old="        if (n_failed := int(np.isnan(estimates).sum())) > 0:\n",
        new="        estimates = estimates[~np.isnan(estimates)]\n        if (n_failed := 0) > 0:\n",
        test=FOLDS + "test_draws_that_lack_a_class_mean_no_interval_and_the_reason_is_said",
    ),
    PutBack(
        point="7",
        what="nan ± nan for a metric that is not defined in one fold",
        file="delira/report/summary.py",
        old="        undefined = undefined_folds(self.result, self.name, self.folds, values)\n",
        new="        undefined = {}\n",
        test=FOLDS + "test_a_metric_that_is_not_defined_in_a_fold_says_so",
    ),
    PutBack(
        point="7",
        what="average precision of a fold without a positive case is 0",
        file="delira/metrics/tree/adapters.py",
        old="""if self.kind == "average_precision_score" and _lacks""",
        new="""if False and _lacks""",
        test=FOLDS + "test_average_precision_without_a_positive_case_is_not_defined",
    ),
    PutBack(
        point="10",
        what="slow metrics of single cases have no interval",
        file="delira/metrics/of_cases.py",
        old="        if isinstance(root, Hausdorff):\n            is_mean = not children\n",
        new="",
        test=SPACING + "test_distances_are_computed_once_for_each_case_and_then_drawn",
    ),
    PutBack(
        point="10",
        what="one spacing for all cases",
        file="delira/metrics/tree/overlap.py",
        old="        rows = np.atleast_1d(found)\n",
        new="        rows = np.repeat(np.atleast_1d(found)[:1], n_samples, axis=0)\n",
        test=SPACING + "test_the_spacing_of_each_case_comes_from_its_batch",
    ),
    PutBack(
        point="11",
        what="numbers of a function of the user's are read though its code has changed",
        file="delira/report/stored_numbers.py",
        old=" else function_identity(metric)\n",
        new=' else "a function"\n',
        test="tests/honesty/test_stored_numbers.py::test_stored_folds_with_another_function_of_ones_own_are_computed_again",
    ),
    PutBack(
        point="11",
        what="every draw is evaluated by itself: 15 s of silence",
        file="delira/report/summary.py",
        old="statistic_of(self.metric, each, evaluate) or bootstrap.evaluated(",
        new="bootstrap.evaluated(",
        test=FOLDS + "test_two_thousand_draws_of_three_metrics_take_less_than_a_second",
    ),
    PutBack(
        point="11",
        what="every process computes the numbers anew",
        file="delira/report/summary.py",
        old="    if made:\n        write_rows(",
        new="    if False:\n        write_rows(",
        test=STORED + "test_a_second_process_reads_what_the_first_computed",
    ),
    PutBack(
        point="11",
        what="nothing is said however long it takes",
        file="delira/report/summary.py",
        old="        if now - self._told < PATIENCE:\n",
        new="        if True:\n",
        test=STORED + "test_what_takes_longer_than_three_seconds_is_told",
    ),
    PutBack(
        point="43",
        what="summary.tex rounds all metrics by the largest",
        file="delira/report/sections.py",
        old="cells, by_row=True)",
        new="cells)",
        test=DIGITS + "test_in_a_summary_each_metric_has_its_own_digits",
    ),
    PutBack(
        point="43",
        what="the page says R² 1.0 beside a large error",
        file="delira/report/sections.py",
        old='"Value"], rows, by_row=True)',
        new='"Value"], rows)',
        test=DIGITS + "test_the_page_of_a_regression_shows_the_share_of_variance_with_its_digits",
    ),
    PutBack(
        point="43",
        what="0.001138 ± 0.000262 is written 0.0011 ± 0.0003",
        file="delira/report/table.py",
        old="    if 0 < largest < 0.1:\n",
        new="    if False:\n",
        test=DIGITS + "test_small_values_and_their_spread_are_not_rounded_to_four_decimals",
    ),
]
