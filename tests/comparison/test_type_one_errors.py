"""benchmarks/type_one_errors.py, on few comparisons: tests hold their level where there is no difference."""

import runpy
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "type_one_errors.py"


def rates(found):
    found = list(found)
    return {name: sum(each[name] for each in found) / len(found) for name in found[0]}


@pytest.mark.slow
def test_the_corrected_t_test_is_not_fooled_by_repeats_and_the_naive_one_is():
    names = runpy.run_path(str(BENCHMARK))
    simulated = names["simulate"](0, 200, 5, repeats=5)
    found = rates(each for part in simulated for each in names["rejections"](part, 5, 0))
    assert found["corrected t-test"] < 0.1
    assert found["naive paired t-test"] > 0.25
    assert found["Wilcoxon over folds"] > 0.25


@pytest.mark.slow
def test_holms_correction_and_ranks_hold_the_level():
    names = runpy.run_path(str(BENCHMARK))
    several = names["simulate"](0, 200, 5, n_methods=4)
    found = rates(each for part in several for each in names["of_several"](part, 5))
    assert found["corrected t-test, Holm"] < 0.08
    assert found["corrected t-test, Holm"] < found["corrected t-test, no correction"]
    found = rates(names["of_datasets"](0, 300, 12, 4))
    assert all(rate < 0.1 for rate in found.values())
