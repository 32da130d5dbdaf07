"""docs/acceptance.md says which case is shown in which room: as the tests do."""

import importlib
from pathlib import Path

from kits import SHOWN, TITLES, table

PAGE = Path(__file__).parents[2] / "docs" / "acceptance.md"


def import_all_cases():
    for path in sorted({*Path(__file__).parent.glob("test_acceptance_*.py")} - {Path(__file__)}):
        importlib.import_module(path.stem)


def test_each_case_has_a_test():
    import_all_cases()
    assert [number for number in TITLES if not SHOWN[number]] == []


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
