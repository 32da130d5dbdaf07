"""The values of the cases as a table: its columns, its order, and its files."""

import builtins
import csv

import numpy as np
import pytest
from small_results import cross_validate

from delira.errors import ConfigError, MissingBackendError
from delira.experiments.result import KFoldResult
from delira.metrics import DicePerClass
from delira.report import CaseTable


@pytest.fixture
def segmented():
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, (12, 4, 5))
    true[3][true[3] == 2] = 0
    scores = generator.random((12, 3, 4, 5))
    names = [f"=case {number}" for number in range(12)]
    groups = np.array(["a", "b", "c"])[np.arange(12) // 4]
    return cross_validate(true, scores, metrics={"dice": DicePerClass(3)}, groups=groups, case_names=names)


def test_a_row_for_each_case_with_its_fold_group_and_values(segmented):
    cases = segmented.cases
    assert [*cases] == ["index", "name", "fold", "group", "dice", "dice.1", "dice.2"]
    assert len(cases) == 12
    assert cases["index"].tolist() == [*range(12)]
    assert cases["fold"].tolist() == [*range(4)] * 3
    assert cases["group"].tolist() == [*"aaaabbbbcccc"]
    assert cases["name"][7] == "=case 7"
    np.testing.assert_array_equal(cases["dice.2"], segmented.oof.per_case["dice.2"])
    assert np.isnan(cases["dice.2"][3])
    assert repr(cases) == f"CaseTable(12 rows, {[*cases]})"
    with pytest.raises(ConfigError, match=r"the cases have no column 'dice_2'; did you mean 'dice\.2'"):
        cases["dice_2"]


def test_metrics_that_are_no_values_of_cases_are_left_out(result, data):
    cases = result.cases
    assert [*cases] == ["index", "fold", "certainty"]
    np.testing.assert_array_equal(cases["certainty"], data.scores[np.arange(90), data.labels])


def test_a_case_that_is_tested_twice_has_two_rows(segmented):
    again = [type(fold)(**{**vars(fold), "fold": 4 + fold.fold}) for fold in segmented.folds]
    cases = KFoldResult([*segmented.folds, *again], 12, segmented.metrics).cases
    assert cases["index"].tolist() == np.repeat(range(12), 2).tolist()
    assert cases["fold"][:4].tolist() == [0, 4, 1, 5]


def test_the_file_has_all_digits_and_nothing_that_is_calculated(segmented, tmp_path):
    path = segmented.cases.to_csv(tmp_path / "new" / "cases.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[5]["dice"]) == segmented.cases["dice"][5]
    assert rows[3]["dice.2"] == ""
    assert rows[0]["name"] == "'=case 0"
    assert segmented.export(tmp_path / "all", "csv")
    assert (tmp_path / "all" / "cases.csv").read_bytes() == path.read_bytes()


def test_frames_and_parquet_files_have_the_columns(segmented, tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the package 'pandas', which is not installed")
    frame = segmented.cases.to_dataframe()
    assert [*frame.columns] == [*segmented.cases]
    pytest.importorskip("pyarrow", reason="needs the package 'pyarrow', which is not installed")
    read = pandas.read_parquet(segmented.cases.to_parquet(tmp_path / "cases.parquet"))
    pandas.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert read["dice"].dtype == np.float64


@pytest.mark.parametrize(("method", "package"), [("to_parquet", "pyarrow"), ("to_dataframe", "pandas")])
def test_a_missing_package_is_named(segmented, tmp_path, monkeypatch, method, package):
    given = [tmp_path / "cases"] if method == "to_parquet" else []

    def missing(name, *args, **kwargs):
        raise ModuleNotFoundError(name=package)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(
        MissingBackendError, match=rf"CaseTable.{method} needs the package '{package}', .* install '{package}'"
    ):
        getattr(segmented.cases, method)(*given)
    assert builtins.len(list(tmp_path.iterdir())) == 0


def test_a_long_table_is_printed_in_short():
    cases = CaseTable({"index": np.arange(12), "name": np.array(["x"] * 12), "dice": np.linspace(0, 1, 12)})
    lines = str(cases).splitlines()
    assert lines[0].split() == ["index", "name", "dice"]
    assert lines[-1] == "… and 2 more"


@pytest.mark.parametrize("columns", [{}, {"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros((2, 2))}, [1]])
def test_columns_of_several_lengths_are_refused(columns):
    with pytest.raises(ConfigError, match="CaseTable: columns are arrays of one length by name"):
        CaseTable(columns)


def test_names_must_be_one_for_each_case(segmented):
    with pytest.raises(ConfigError, match="case_names has 2 names for n_samples=12"):
        KFoldResult(segmented.folds, 12, case_names=["a", "b"])


def test_a_metric_that_is_called_like_a_column_stands_beside_it():
    generator = np.random.default_rng(0)
    made = cross_validate(
        generator.integers(0, 3, (8, 4, 5)), generator.random((8, 3, 4, 5)), metrics={"fold": DicePerClass(3)}
    )
    assert [*made.cases] == ["index", "fold", "fold (metric)", "fold.1", "fold.2"]
