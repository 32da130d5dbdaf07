"""Variables of a session, which have their values since TensorFlow 2."""

import numpy as np

from delira.training.train_utils import initialize_uninitialized  # refused


class Session:
    def __init__(self):
        self.weight = np.full(2, 3.0)


def made():
    session = Session()
    initialize_uninitialized(session)
    return session


def prepared(session):
    initialize_uninitialized(session)


assert made().weight.sum() == 6
assert prepared(made()) is None
