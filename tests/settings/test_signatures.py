"""What help() shows of the settings."""

import inspect


def test_help_shows_every_setting_and_print_the_parameters(kit, tmp_path):
    for function in (kit.experiment_cls, kit.experiment_cls.run, kit.experiment_cls.kfold):
        names = inspect.signature(function).parameters
        assert {"optimizer_cls", "lr_scheduler_cls", "val_score_key", "seed"} <= names.keys()
    assert {"split_type", "groups_key", "val_split"} <= names.keys()
    text = str(kit.experiment(tmp_path, name="digits"))
    assert "'digits'" in text
    assert "num_epochs" in text
