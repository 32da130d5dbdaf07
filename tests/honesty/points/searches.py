"""Faults of searches: proposals that hang on what is left over, looks at what is tested, and trials that are lost."""

from put_back import PutBack

TUNING, NESTED = "tests/experiments/test_tuning.py", "tests/experiments/test_nested.py"
STUDY, SPLITS = "tests/search/test_study.py", "tests/experiments/test_given_splits.py"

POINTS = [
    PutBack(
        point="searches",
        what="proposals are drawn anew each time",
        file="delira/search/study.py",
        old='seed = derive_int(self._seed, number, stream="search") % 2**32',
        new="seed = None",
        test=f"{STUDY}::test_the_same_seed_proposes_the_same[random]",
    ),
    PutBack(
        point="searches",
        what="a half line stays, and the next one is written behind it",
        file="delira/search/study.py",
        old='        opened.truncate(opened.read().rfind(b"\\n") + 1)\n',
        new="",
        test=f"{STUDY}::test_a_line_that_was_left_half_written_is_cut_off",
    ),
    PutBack(
        point="searches",
        what="a median is that of the best epoch of any fold",
        file="delira/search/study.py",
        old="if since <= at <= step}",
        new="if at <= step}",
        test=f"{STUDY}::test_a_median_pruner_looks_at_the_fold_that_runs",
    ),
    PutBack(
        point="searches",
        what="a pruner is asked again of a step that it has judged before a kill",
        file="delira/search/study.py",
        old="            verdict = known.system_attrs.get(name)\n            if verdict is None and step in known",
        new="            verdict = None\n            if verdict is None and step in known",
        test=f"{TUNING}::test_a_kill_after_a_verdict_changes_no_trial[median-before the trial is written]",
    ),
    PutBack(
        point="searches",
        what="folds are pruned in the same order in every trial",
        file="delira/experiments/tuning.py",
        old='seed = derive(self.request.seed, number, stream="order of folds")',
        new='seed = derive(self.request.seed, 0, stream="order of folds")',
        test=f"{TUNING}::test_a_trial_is_given_up_between_folds_in_an_order_of_its_own",
    ),
    PutBack(
        point="searches",
        what="a score that is no number is the best there is",
        file="delira/experiments/tuning.py",
        old="if not all(map(math.isfinite, trial.scores)):",
        new="if not trial.scores:",
        test=f"{TUNING}::test_a_score_that_is_no_number_is_no_success",
    ),
    PutBack(
        point="searches",
        what="what breaks a constraint is the best all the same",
        file="delira/experiments/search_result.py",
        old='return self.state == "finished" and not any(value > 0 for value in self.constraints)',
        new='return self.state == "finished"',
        test=f"{TUNING}::test_a_trial_that_breaks_a_constraint_is_not_the_best",
    ),
    PutBack(
        point="searches",
        what="trials of another search count as of this one",
        file="delira/experiments/run_request.py",
        old='        fingerprint["search"] = yaml_codec.digest(facts["search"])\n',
        new="        pass\n",
        test=f"{TUNING}::test_a_study_of_other_parameters_is_not_continued",
    ),
    PutBack(
        point="searches",
        what="the search of a fold sees all data",
        file="delira/experiments/nested.py",
        old="validation.data.with_own_transforms().get_subset(np.sort(np.concatenate(parts)))",
        new="validation.data.with_own_transforms()",
        test=f"{NESTED}::test_no_search_sees_a_case_that_its_fold_is_tested_on",
    ),
    PutBack(
        point="searches",
        what="all folds try the same settings",
        file="delira/experiments/nested.py",
        old='derive_int(validation.request.seed, number, stream="nested search")',
        new='derive_int(validation.request.seed, 0, stream="nested search")',
        test=f"{NESTED}::test_each_fold_searches_with_random_numbers_of_its_own",
    ),
    PutBack(
        point="searches",
        what="a page of a nested search shows settings that no fold had",
        file="delira/experiments/cross_validation.py",
        old="searched = {} if self.nested is None else self.nested.searched_parameters()",
        new="searched = {}",
        test=f"{NESTED}::test_what_was_chosen_is_told_now_and_when_it_is_read_again[toy]",
    ),
    PutBack(
        point="searches",
        what="the numbers of a file of splits are those of any data",
        file="delira/experiments/given_splits.py",
        old='if None not in (fingerprint, told.get("data")) and fingerprint != told["data"]:',
        new="if False:",
        test=f"{SPLITS}::test_other_data_without_names_are_warned_of",
    ),
    PutBack(
        point="searches",
        what="a run takes the lower end of a space that has no default",
        file="delira/experiments/variable.py",
        old="        if not space.has_default:\n            missing.append(name)\n            return _ABSENT\n",
        new="        if not space.has_default:\n            return space.corners()[0]\n",
        test="tests/experiments/test_variable.py::test_run_and_kfold_refuse_a_space_without_a_default",
    ),
]
