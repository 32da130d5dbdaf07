"""A run of one epoch, and how it is gone on with, for what is compared then."""

from problems import linear_problem
from small_backends import build_kit

from delira.data_loading import BaseDataManager


def data(n=20, seed=7, **changes):
    return BaseDataManager({**linear_problem(n, 3, seed), **changes}, 4)


def begun(path, backend="toy", callbacks=(), val=None, cls=None, **settings):
    """An experiment, and the folder of its run of one epoch."""
    experiment = build_kit(backend).experiment(path, cls=cls, **settings)
    experiment.run(data(), data(8, 1) if val is None else val, num_epochs=1, callbacks=[*callbacks])
    return experiment, experiment.last_trainer.save_path.parent


def go_on(experiment, folder, callbacks=(), val=None, **settings):
    val = data(8, 1) if val is None else val
    return experiment.run(data(), val, num_epochs=2, callbacks=[*callbacks], resume=folder, **settings)
