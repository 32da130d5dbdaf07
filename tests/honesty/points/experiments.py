"""Points of experiments and cross-validation: some folds alone, splits, preprocessing, words, wrong values."""

from put_back import PutBack

POINTS = [
    PutBack(
        point="13",
        what="kfold takes fold=1 and runs all folds",
        file="delira/training/base_experiment.py",
        old="        refuse_fold(options, request.fold)\n",
        new="",
        test="tests/training/test_some_folds.py::test_what_names_no_folds_is_refused_before_there_is_a_folder",
    ),
    PutBack(
        point="13",
        what="folds= is taken and all folds run",
        file="delira/training/cross_validation.py",
        old="return self.chosen is None or number in self.chosen",
        new="return True",
        test="tests/training/test_some_folds.py::test_a_result_that_lacks_folds_says_so_and_so_does_its_folder",
    ),
    PutBack(
        point="13",
        what="a run of some folds passes for finished",
        file="delira/training/run_folder.py",
        old='(events[-1]["event"] != "finished" or bool(events[-1].get("missing_folds")))',
        new='events[-1]["event"] != "finished"',
        test="tests/training/test_some_folds.py::test_the_other_folds_follow_and_those_that_finished_are_read",
    ),
    PutBack(
        point="14",
        what="a label_key that no sample has is found after the first fold, or never",
        file="delira/training/cross_validation.py",
        old="            check_label_key(self.data, self.split.label_key)  # a transform may make the entry\n",
        new="            pass\n",
        test="tests/training/test_split_settings.py::"
        "test_a_label_key_that_no_sample_has_is_refused_before_the_first_step",
    ),
    PutBack(
        point="14",
        what="groups_key=[] means no groups",
        file="delira/training/splits.py",
        old="if self.groups_key is not None and not isinstance(self.groups_key, str):",
        new="if isinstance(self.groups_key, bool):",
        test="tests/training/test_split_settings.py::test_a_wrong_value_is_refused_by_name",
    ),
    PutBack(
        point="14",
        what="lr_scheduler_params are read by nothing",
        file="delira/training/config_parts.py",
        old="        if self.params and self.cls is None:\n",
        new="        if self.params is None and self.cls is None:\n",
        test="tests/training/test_without_files.py::test_parameters_of_a_schedule_that_is_not_there_are_refused",
    ),
    PutBack(
        point="12",
        what="preprocessing is fitted on all data, test part included",
        file="delira/training/preprocessing.py",
        old="        plain = copy.copy(data)\n",
        new="        plain = copy.copy(data)\n        plain.dataset = getattr(data.dataset, 'parent', data.dataset)\n",
        test="tests/honesty/test_preprocessing.py::"
        "test_an_outlier_in_a_part_that_is_held_out_changes_nothing_that_was_learned",
    ),
    PutBack(
        point="12",
        what="the test part is not transformed",
        file="delira/training/cross_validation.py",
        old="train, test = train.with_preprocessing(fitted), test.with_preprocessing(fitted)",
        new="train, test, trainer.preprocessing = train.with_preprocessing(fitted), test, None",
        test="tests/honesty/test_preprocessing.py::test_each_fold_sees_what_scikit_learn_makes_by_hand",
    ),
    PutBack(
        point="12",
        what="the inner validation is not transformed",
        file="delira/training/cross_validation.py",
        old="val = None if val is None else val.with_preprocessing(fitted)",
        new="trainer.preprocessing = None",
        test="tests/honesty/test_preprocessing.py::test_the_validation_is_scored_on_what_was_transformed",
    ),
    PutBack(
        point="12",
        what="a trained network is tested on data as they are",
        file="delira/data_loading/preprocessing.py",
        old='return vars(network).get(_ATTRIBUTE) if hasattr(network, "__dict__") else None',
        new="return None",
        test="tests/training/test_fitted_preprocessing.py::"
        "test_a_trained_network_is_tested_and_predicts_with_what_was_learned",
    ),
    PutBack(
        point="12",
        what="another preprocessing goes on with the run of the first",
        file="delira/training/run_request.py",
        old="return {} if self.preprocessing is None else",
        new="return {} if self.preprocessing or not self.preprocessing else",
        test="tests/training/test_fitted_preprocessing.py::test_another_preprocessing_is_another_run",
    ),
    PutBack(
        point="12",
        what="whatever a transformer is made of is stored and read",
        file="delira/training/preprocessing.py",
        old="        if strange := estimators.strange(names, self.trusted):\n",
        new="        if strange := estimators.strange((), self.trusted):\n",
        test="tests/training/test_fitted_preprocessing.py::"
        "test_a_type_of_ones_own_is_refused_at_the_door_unless_it_is_trusted",
    ),
]
