"""What a call of ``train`` is asked for: checked, and with the score named as the epochs name it."""

import pytest
from bare_parts import plan_of

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.settings.config import read_settings
from delira.training.epoch import close_workers
from delira.training.run import make_plan

CONFIG = read_settings({"losses": {"mse": abs}, "val_metrics": {"mae": abs}})


@pytest.mark.parametrize("key", ["mae", "val_mae", "mse", "val_mse"])
def test_the_score_has_the_name_of_the_epochs(key):
    plan = make_plan(CONFIG, plan_of([], [], val_score_key=key), validates_losses=True)
    assert plan.val_score_key == f"val_{key.removeprefix('val_')}"


def test_without_validation_data_no_score_is_watched_and_that_is_said():
    with pytest.warns(UserWarning, match="val_score_key='mae' is ignored: there are no validation data"):
        assert make_plan(CONFIG, plan_of([], val_score_key="mae"), validates_losses=True).val_score_key is None


def test_a_loss_is_no_score_where_none_is_validated():
    with pytest.raises(ConfigError, match="val_score_key='mse' is a loss, but the network brings its own closure"):
        make_plan(CONFIG, plan_of([], [], val_score_key="mse"), validates_losses=False)


@pytest.mark.parametrize(
    "changes", [{"num_epochs": -1}, {"num_epochs": 1.5}, {"reduce_mode": "median"}, {"val_score_key": "acc"}]
)
def test_what_cannot_be_is_refused(changes):
    with pytest.raises(ConfigError):
        make_plan(CONFIG, plan_of([], [], **changes), validates_losses=True)


def test_every_few_epochs_are_validated_if_there_are_data():
    assert [plan_of([], []).validates(epoch, 2) for epoch in (1, 2, 3, 4)] == [False, True, False, True]
    assert not plan_of([]).validates(2, 2)


def test_workers_of_managers_are_closed_and_other_data_left_alone(regression):
    class Closed(BaseDataManager):
        is_closed = False

        def close(self):
            self.is_closed = True
            super().close()

    manager = Closed(regression(), 4)
    close_workers(manager, None, [{"data": 0}])
    assert manager.is_closed
