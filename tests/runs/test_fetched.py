"""A run folder into which a fetch was broken off says so until the rest is there."""

import pytest

from delira.errors import ConfigError
from delira.runs import fetched


def test_a_folder_of_two_moments_is_refused_until_the_fetch_has_ended(tmp_path):
    run = tmp_path / "runs" / "name" / "run"
    run.mkdir(parents=True)
    fetched.refuse_in_parts(run)
    fetched.begin(run, "s3://bucket/name/run")
    with pytest.raises(ConfigError, match=rf"delira fetch s3://bucket/name/run --out {tmp_path / 'runs'}'.*mirror="):
        fetched.refuse_in_parts(run)
    fetched.end(run)
    fetched.end(run)
    fetched.refuse_in_parts(run)
    assert list(run.iterdir()) == []
