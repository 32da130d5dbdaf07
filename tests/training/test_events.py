"""Events come in the order, and with the facts, that callbacks may rely on: ``tests/golden_events`` has them."""

import pytest
from traced_events import TRACES, golden


@pytest.mark.slow_cases("torchscript|tensorflow|jax|sklearn")
@pytest.mark.parametrize("what", TRACES)
def test_every_event_comes_where_it_always_came(what, tmp_path):
    assert TRACES[what](tmp_path) == golden(what).read_text(encoding="utf-8").splitlines()
