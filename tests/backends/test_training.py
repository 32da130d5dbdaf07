"""The trainer and the experiment of every backend: the common ones, bound to it."""

import pytest

from delira.experiments.experiment import BaseExperiment
from delira.training.trainer import BaseNetworkTrainer


def test_a_backend_has_a_trainer_and_an_experiment_of_its_own(kit):
    assert issubclass(kit.trainer_cls, BaseNetworkTrainer)
    assert issubclass(kit.experiment_cls, BaseExperiment)
    assert kit.experiment_cls.trainer_cls is kit.trainer_cls
    assert kit.network.__delira_backend__ is kit.trainer_cls.backend


def test_an_estimator_has_them_too():
    pytest.importorskip("sklearn", reason="the backend needs the package 'scikit-learn'")
    from delira.training import SklearnExperiment, SklearnNetworkTrainer

    assert SklearnExperiment.trainer_cls is SklearnNetworkTrainer
    assert SklearnNetworkTrainer.backend.name == "sklearn"
