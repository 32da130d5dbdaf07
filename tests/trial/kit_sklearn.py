"""scikit-learn for the tests of the Trial: estimators learn by themselves."""

import numpy as np
from kits import Kit
from sklearn.linear_model import SGDClassifier


class SklearnKit(Kit):
    name = "sklearn"
    label_type = "i8"

    def mlp(self, n_in=2, n_hidden=8, n_out=2, seed=0):
        return SGDClassifier(random_state=seed)

    def numpy(self, value):
        return np.asarray(value)

    def adam(self, nets, rate):
        return None

    cross_entropy = None
