"""What is selected: points 1 to 4, and what belongs to them."""

from put_back import PutBack

TEST = "tests/honesty/test_selection.py::"
VALIDATION = "tests/honesty/test_inner_validation.py::"
WEIGHTS = "tests/honesty/test_tested_weights.py::"

POINTS = [
    PutBack(
        point="1",
        what="without a mode the lowest accuracy is selected",
        file="delira/training/config.py",
        old='    val_score_mode: str = AUTO\n    """Which',
        new='    val_score_mode: str = "lowest"\n    """Which',
        test=TEST + "test_without_a_mode_the_best_epoch_is_that_of_the_highest_accuracy",
    ),
    PutBack(
        point="1",
        what="an unknown score is taken to be better the smaller it is",
        file="delira/training/config.py",
        old="        if is_larger is None and not isinstance(metric, Unresolved):",
        new="        if False:",
        test=TEST + "test_an_unknown_score_must_be_said_when_it_is_named",
    ),
    PutBack(
        point="1",
        what="a score is not found by its name without val_",
        file="delira/training/config.py",
        old='for each in (name, f"val_{name}") if each',
        new="for each in (name, key) if each",
        test=TEST + "test_a_score_is_found_with_and_without_val",
    ),
    PutBack(
        point="1",
        what="the mode of one score is taken for another",
        file="delira/training/run_request.py",
        old='            flat.pop("val_score_mode", None)\n',
        new="            pass\n",
        test=TEST + "test_another_score_does_not_take_the_mode_over",
    ),
    PutBack(
        point="1",
        what="callbacks take what they do not know for better the smaller it is",
        file="delira/training/callbacks/monitor.py",
        old="        if is_larger is None:\n            raise ConfigError(",
        new="        if False:\n            raise ConfigError(",
        test=TEST + "test_a_callback_that_watches_an_unknown_score_must_be_told",
    ),
    PutBack(
        point="1",
        what="a plateau of another value than the score lowers the rate while it improves",
        file="delira/training/callbacks/monitor.py",
        old='    return "max" if sign_of(AUTO, monitor, "ReduceLROnPlateau", trainer) < 0 else "min"',
        new='    return "min"',
        test=TEST + "test_a_plateau_of_another_value_than_the_score_knows_its_direction",
    ),
    PutBack(
        point="1",
        what="a run of before is turned round without a word",
        file="delira/training/differences.py",
        old="    return [*lines, f'training.val_score_mode",
        new="    return lines\n    return [*lines, f'training.val_score_mode",
        test=TEST + "test_a_run_of_before_that_took_the_lowest_by_default_is_not_turned_round",
    ),
    PutBack(
        point="2",
        what="nothing is said of scores that never change, of ties, and of best epochs at an end",
        file="delira/training/result.py",
        old="        found += caveats_of_selection(self.folds, self.is_training)\n",
        new="",
        test=WEIGHTS + "test_what_speaks_against_a_selection_is_a_caveat",
    ),
    PutBack(
        point="3",
        what="a best checkpoint that cannot be read once is not read again",
        file="delira/utils/patience.py",
        old="_PAUSES = (0.05, 0.2, 0.5)",
        new="_PAUSES = ()",
        test=WEIGHTS + "test_the_best_weights_are_tested_though_their_file_could_not_be_read_once",
    ),
    PutBack(
        point="3",
        what="where the best checkpoint cannot be read the last weights are tested",
        file="delira/training/checkpointed.py",
        old="            tree = self.checkpoints.load_or_warn(path)\n            if tree is not None and tree.get",
        new="            try:\n                tree = self.checkpoints.load_or_warn(path)\n"
        "            except OSError:\n                tree = None\n            if tree is not None and tree.get",
        test=WEIGHTS + "test_a_best_checkpoint_that_cannot_be_read_ends_the_run_and_a_resume_tests_it",
    ),
    PutBack(
        point="3",
        what="the best epoch is named though the last weights were tested",
        file="delira/training/checkpointed.py",
        old="        self.weights_epoch = self.state.epoch if best is None else self.state.best_epoch\n",
        new="        self.weights_epoch = self.state.best_epoch\n",
        test=WEIGHTS + "test_result_ledger_page_and_verify_say_which_weights_were_tested",
    ),
    PutBack(
        point="3",
        what="verify does not object to other weights than the best",
        file="delira/cli/stored_files.py",
        old="    if state == WHOLE and (told := other_weights(stored.fields)):\n",
        new="    if False and (told := other_weights(stored.fields)):\n",
        test=WEIGHTS + "test_result_ledger_page_and_verify_say_which_weights_were_tested",
    ),
    PutBack(
        point="44",
        what="the duration of a resumed fold is that of its last session",
        file="delira/training/cross_validation.py",
        old='            seconds=sum(timings["seconds"].values()),\n',
        new="            seconds=time.perf_counter() - started,\n",
        test=WEIGHTS + "test_the_duration_of_a_fold_is_that_of_all_its_sessions",
    ),
    PutBack(
        point="39",
        what="the gap of a time series is not kept between training and inner validation",
        file="delira/training/splits.py",
        old="            return rest[:end], rest[cut:]\n",
        new="            return rest[:cut], rest[cut:]\n",
        test=VALIDATION + "test_the_gap_of_a_time_series_is_kept_before_the_validation_too",
    ),
    PutBack(
        point="44",
        what="nothing is said of groups of uneven size in val_split",
        file="delira/training/inner_validation.py",
        old="    found = [_told_of_sizes(splitter, inner), _told",
        new="    found = [_told",
        test=VALIDATION + "test_a_share_of_uneven_groups_is_told_with_the_samples_that_it_takes",
    ),
    PutBack(
        point="44",
        what="nothing is said of a class that the inner validation lacks",
        file="delira/training/inner_validation.py",
        old=", _told_of_classes(_classes_of(dataset, splitter), inner)]",
        new="]",
        test=VALIDATION + "test_a_class_that_the_validation_lacks_is_told",
    ),
]
