"""Settings that cannot be, and names from elsewhere, are refused with what they are here."""

import pytest
from small_backends import build_kit

from delira.errors import ConfigError
from delira.settings.config import read_settings
from delira.training import TrainerConfig


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("gradient_clip_norm", "x", "gradient_clip_norm must be above 0 .* got 'x'"),
        ("gradient_clip_norm", True, "gradient_clip_norm must be above 0 .* got True"),
        ("gradient_clip_value", [], r"gradient_clip_value must be above 0 .* got \[\]"),
        ("gradient_clip_value", float("nan"), "gradient_clip_value must be above 0 .* got nan"),
        ("val_score_key", 1, "val_score_key must name a validation metric or a loss, got 1"),
        ("val_score_key", [], r"val_score_key must name a validation metric or a loss, got \[\]"),
        ("val_score_key", b"x", "val_score_key must name"),
        ("device", 1.5, r"device must be a name such as 'cpu', 'auto' or 'cuda:1', got 1\.5"),
        ("device", True, "device must be a name .* got True"),
        ("device", [], r"device must be a name .* got \[\]"),
        ("verbose", "yes", "verbose must be 0 .* got 'yes'"),
        ("verbose", 1.0, r"verbose must be 0 .* got 1\.0"),
        ("verbose", 3, "verbose must be 0 .* got 3"),
        ("optim_fn", 5, "optim_fn must be a function that returns optimizers by name, got 5"),
        ("convert_batch_to_npy_fn", 5, "convert_batch_to_npy_fn must be a function, got 5"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(setting, value, message):
    with pytest.raises(ConfigError, match=message):
        read_settings({setting: value})
    assert isinstance(read_settings({}), TrainerConfig)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("n_jobs", "runs folds in parallel, n_process_augmentation of the data manager loads in parallel"),
        ("num_workers", "BaseDataManager(…, n_process_augmentation=…)"),
        ("val_kwargs", "test_kwargs of kfold"),
        ("folds", "kfold(folds=[…]) runs some folds alone"),
        ("epochs", "did you mean 'num_epochs'?"),
        ("lr", "write optimizer_params={'lr': …}"),
    ],
)
def test_a_name_from_elsewhere_is_told_what_it_is_here(tmp_path, manager, name, told):
    with pytest.raises(ConfigError) as caught:
        build_kit("toy").experiment(tmp_path).run(manager(), **{name: 2})
    assert f"unknown training setting {name!r}; " in str(caught.value)
    assert told in str(caught.value)
