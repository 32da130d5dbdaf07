"""scikit-learn for the tests of the Trial: estimators learn by themselves."""

import numpy as np
from kits import Kit
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss


class SklearnKit(Kit):
    name = "sklearn"
    label_type = "i8"
    cross_entropy = staticmethod(log_loss)

    def mlp(self, n_in=2, n_hidden=8, n_out=2, seed=0):
        return SGDClassifier("log_loss", random_state=0)

    def numpy(self, value):
        return np.asarray(value)

    def adam(self, nets, rate):
        return None

    def weights(self, net):
        return {"coef": net.coef_.copy(), "intercept": net.intercept_.copy()}
