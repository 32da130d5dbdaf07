"""Each fault that was once there makes a test fail when it is put back: see put_back.py."""

import shutil

import pytest
from put_back import REPOSITORY, PutBack, all_points, is_caught


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", all_points(), ids=lambda point: f"{point.point}: {point.what}")
def test_a_fault_that_is_put_back_is_caught(point: PutBack) -> None:
    assert is_caught(point) == ""


def test_the_text_of_every_fault_stands_once_in_the_code(tmp_path) -> None:
    for point in all_points():
        copy = tmp_path / point.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / point.file, copy)
        point.apply_to(tmp_path)


def test_the_test_of_every_fault_is_there() -> None:
    for point in all_points():
        path, _, name = point.test.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        assert f"def {function}(" in (REPOSITORY / path).read_text(encoding="utf-8"), point.test
