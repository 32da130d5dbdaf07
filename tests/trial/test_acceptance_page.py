"""Each case and each defect of the contract has a test, and docs/acceptance.md says which backend shows which."""

import importlib
import re
from pathlib import Path

from kits import SHOWN, TITLES, table

PAGE = Path(__file__).parents[2] / "docs" / "acceptance.md"


def import_all_cases():
    for path in sorted({*Path(__file__).parent.glob("test_acceptance_*.py")} - {Path(__file__)}):
        importlib.import_module(path.stem)


def test_each_case_has_a_test():
    import_all_cases()
    assert [number for number in TITLES if not SHOWN[number]] == []


def test_every_defect_of_the_contract_has_a_test():
    wanted = {*(f"b{number:02d}" for number in range(1, 35)), *(f"t{number:02d}" for number in range(1, 9)), "t03b"}
    files = Path(__file__).parents[1].glob("**/test_*.py")
    found = {
        name for file in files for name in re.findall(r"^def test_([bt]\d\d[a-z]?)_", file.read_text("utf-8"), re.M)
    }
    assert found == wanted


def test_the_page_has_the_table_of_the_tests():
    import_all_cases()
    assert table() in PAGE.read_text(encoding="utf-8"), (
        "docs/acceptance.md is not what the tests show; write it anew: python tests/trial/test_acceptance_page.py"
    )


def write():
    """Put the table into the page."""
    import_all_cases()
    head, _, _ = PAGE.read_text(encoding="utf-8").partition("| Case |")
    PAGE.write_text(f"{head}{table()}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
