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
]
