"""The trainer and the experiment of every backend: the common ones, bound to it."""

import pytest

from delira.experiments.experiment import BaseExperiment
from delira.training.trainer import BaseNetworkTrainer


def test_a_backend_has_a_trainer_and_an_experiment_of_its_own(room):
    assert issubclass(room.trainer_cls, BaseNetworkTrainer)
    assert issubclass(room.experiment_cls, BaseExperiment)
    assert room.experiment_cls.trainer_cls is room.trainer_cls
    assert room.network.__delira_backend__ is room.trainer_cls.backend


def test_an_estimator_has_them_too():
    pytest.importorskip("sklearn", reason="the room needs the package 'scikit-learn'")
    from delira.training import SklearnExperiment, SklearnNetworkTrainer

    assert SklearnExperiment.trainer_cls is SklearnNetworkTrainer
    assert SklearnNetworkTrainer.backend.name == "sklearn"
