"""What was wrong on disk: files that could not be read, one copy of a state, other people's folders."""

from put_back import PutBack

POINTS = [
    PutBack(
        point="24",
        what="a file that cannot be read is taken for a damaged one",
        file="delira/utils/patience.py",
        old="            if (refused := refusal_behind(error)) is None:\n",
        new="            if (refused := refusal_behind(error)) is None or True:\n",
        test="tests/io/test_unreadable_files.py::test_no_checkpoint_is_renamed_because_it_cannot_be_read",
    ),
    PutBack(
        point="24",
        what="one EIO is enough",
        file="delira/utils/patience.py",
        old="if code not in _PASSING or not pauses:",
        new="if code:",
        test="tests/io/test_unreadable_files.py::test_one_error_that_passes_changes_nothing",
    ),
    PutBack(
        point="24",
        what="a folder that may not be listed is an empty one",
        file="delira/io/checkpoint.py",
        old="except (FileNotFoundError, NotADirectoryError):",
        new="except OSError:",
        test="tests/io/test_unreadable_files.py::test_a_folder_that_cannot_be_listed_is_not_an_empty_one",
    ),
    PutBack(
        point="25",
        what="one damaged inode is best, last and epoch file at once, and nothing else is there",
        file="delira/io/checkpoint.py",
        old="        if LAST in names:\n            self._make_last(path)\n",
        new="        if LAST in names:\n            self._link(path, self.path(LAST))\n",
        test="tests/io/test_previous_checkpoint.py::test_one_damaged_file_with_all_its_names_loses_one_save_at_most",
    ),
    PutBack(
        point="25",
        what="the state before is a link to the last",
        file="delira/io/checkpoint.py",
        old="        if _is_same(previous, last) or not is_there(previous):\n            self._copy(last, previous)\n",
        new="        if not is_there(previous):\n            self._link(last, previous)\n",
        test="tests/io/test_previous_checkpoint.py::test_a_run_that_saves_once_has_two_files",
    ),
    PutBack(
        point="25",
        what="a state without another name is lost while the last becomes the one before",
        file="delira/io/checkpoint.py",
        old='        for name in (LAST, NEXT, "best", PREVIOUS):',
        new='        for name in (LAST, "best", PREVIOUS):',
        test="tests/io/test_previous_checkpoint.py::test_what_a_kill_left_half_renamed_goes_on",
    ),
    PutBack(
        point="25",
        what="verify does not know the state before the last",
        file="delira/cli/stored_files.py",
        old='        needed["previous"] = ',
        new='        needed.get("previous")  # ',
        test="tests/cli/test_verify.py::test_what_a_finished_fold_must_have_is_named",
    ),
]
