"""Networks of users in an estimator: where their sizes come from, what their outputs are, and what is refused."""

import copy

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn_problems import QUICK, classes, needs, values

from delira import models
from delira.errors import ConfigError, DataError, MissingBackendError, NetworkError
from delira.metrics import accuracy
from delira.sklearn import Classifier, Regressor, networks
from delira.testing import ToyNetwork, ToySGD, mean_squared_error

torch = pytest.importorskip("torch", reason="the networks here are of the package 'torch', which is not installed")
CE = torch.nn.CrossEntropyLoss


class Linear(models.AbstractPyTorchNetwork):
    """Rows of features to logits or values."""

    def __init__(self, n_features, n_outputs, **kwargs):
        super().__init__(n_features=n_features, n_outputs=n_outputs, **kwargs)
        self.layer = torch.nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return {"pred": self.layer(x)}


class Probabilities(Linear):
    def forward(self, x):
        return {"pred": torch.softmax(self.layer(x), dim=1)}


class Flat(Linear):
    def forward(self, x):
        return {"pred": self.layer(x)[:, 0]}


class OtherName(Linear):
    def forward(self, x):
        return {"logits": self.layer(x)}


class TwoOutputs(Linear):
    def forward(self, x):
        return {"logits": self.layer(x), "features": x}


class Spelled(models.AbstractPyTorchNetwork):
    def __init__(self, in_features, num_classes, n_classes, out_features=1):
        super().__init__(
            in_features=in_features, num_classes=num_classes, n_classes=n_classes, out_features=out_features
        )
        self.layer = torch.nn.Linear(in_features, num_classes)

    def forward(self, x):
        return {"pred": self.layer(x)}


class Needy(Linear):
    def __init__(self, n_features, n_outputs, width):
        super().__init__(n_features, n_outputs)


def nll(pred, label):
    """A loss that nobody knows."""
    return -torch.log(pred[torch.arange(len(label)), label] + 1e-6).mean()


def kept_arguments(estimator):
    return {name: value for name, value in estimator.network_.init_kwargs.items() if name != "hidden"}


def test_sizes_are_those_of_the_data_by_their_usual_names():
    x, y = classes(60)
    assert kept_arguments(Classifier(num_epochs=1).fit(x, y)) == {"n_features": 5, "n_outputs": 3}
    assert kept_arguments(Regressor(num_epochs=1).fit(x, values(60, 2)[1])) == {"n_features": 5, "n_outputs": 2}
    assert kept_arguments(Classifier(Spelled, num_epochs=1).fit(x, y)) == {
        "in_features": 5, "num_classes": 3, "n_classes": 3, "out_features": 3,
    }  # fmt: skip


def test_a_size_that_the_user_gives_stays():
    x, y = classes(60)
    fitted = Classifier(Spelled, {"out_features": 9}, num_epochs=1).fit(x, y)
    assert fitted.network_.init_kwargs["out_features"] == 9
    with pytest.raises(DataError, match=r"says 'pred' of the shape \(n, 7\), and y asks for 3 scores .*: \(n, 3\)"):
        Classifier(model={"n_outputs": 7}).fit(x, y)


def test_images_go_through_a_network_of_images():
    x = np.random.default_rng(0).normal(size=(12, 2, 16, 16))
    y = np.arange(12) % 2
    network, arguments = models.ClassificationNetworkBasePyTorch, {"start_filts": 4}
    classifier = Classifier(network, arguments, num_epochs=1, batch_size=4, random_state=0).fit(x, y)
    assert kept_arguments(classifier) == {"in_channels": 2, "n_outputs": 2, "start_filts": 4}
    assert classifier.predict_proba(x).shape == (12, 2)
    regressor = Regressor(models.RegressionNetworkBasePyTorch, arguments, num_epochs=1, batch_size=4).fit(x, y)
    assert regressor.predict(x).shape == (12,)


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name"), [("tensorflow", "Tf"), ("flax", "Jax")])
def test_images_go_through_networks_of_other_frameworks(package, name):
    needs(package, name)
    x, y = np.random.default_rng(0).normal(size=(12, 2, 16, 16)), np.arange(12) % 2
    network = getattr(models, f"ClassificationNetworkBase{name}")
    classifier = Classifier(network, {"start_filts": 4}, num_epochs=1, batch_size=4, random_state=0).fit(x, y)
    assert classifier.predict_proba(x).shape == (12, 2)


def test_a_network_of_torchscript_is_one_like_others():
    x, y = classes(60)
    x = np.kron(x[:, None, :4].reshape(-1, 1, 2, 2), np.ones((8, 8)))
    classifier = Classifier(
        models.ClassificationNetworkBaseTorchScript, {"start_filts": 4}, num_epochs=1, random_state=0
    )
    assert classifier.fit(x, y).predict_proba(x).shape == (60, 3)


def test_an_output_of_one_number_a_sample_is_compared_as_it_is():
    x, y = values()
    for network in (Linear, Flat):
        regressor = Regressor(network, optimizer_params={"lr": 0.1}, **QUICK)
        assert regressor.fit(x, y).score(x, y) > 0.9
        assert regressor.fit(x, y[:, None]).score(x, y[:, None]) > 0.9


# ------------------------------------------------------------------ what outputs are


def test_logits_become_probabilities_by_a_softmax():
    x, y = classes()
    classifier = Classifier(Linear, **QUICK).fit(x, y)
    with torch.no_grad():
        logits = classifier.network_(torch.from_numpy(x.astype(np.float32)))["pred"].numpy()
    np.testing.assert_allclose(classifier.predict_proba(x), softmax(logits.astype(float), axis=1), atol=1e-6)


def test_outputs_that_a_setting_calls_probabilities_are_taken_as_they_are():
    x, y = classes()
    classifier = Classifier(Probabilities, losses={"nll": nll}, training={"output": "probabilities"}, **QUICK).fit(x, y)
    with torch.no_grad():
        said = classifier.network_(torch.from_numpy(x.astype(np.float32)))["pred"].numpy()
    np.testing.assert_allclose(classifier.predict_proba(x), said, atol=1e-5)


def test_outputs_of_which_nobody_says_what_they_are_are_no_probabilities():
    x, y = classes()
    classifier = Classifier(Probabilities, losses={"nll": nll}, **QUICK).fit(x, y)
    assert classifier.score(x, y) > 0.5
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(AttributeError) as told:
        classifier.predict_proba(x)
    assert "whether the outputs of Probabilities are logits or probabilities" in str(told.value.__cause__)
    assert "say training={'output': 'logits'}" in str(told.value.__cause__)


def test_two_classes_may_be_one_output_of_yes_or_no():
    x, numbers = classes(n_classes=2)
    y = np.array(["no", "yes"])[numbers]
    for network in (Linear, Flat):
        classifier = Classifier(
            network, losses={"bce": torch.nn.BCEWithLogitsLoss()}, optimizer_params={"lr": 0.05}, **QUICK
        )
        classifier.fit(x, y)
        assert classifier.network_.layer.out_features == 1
        with torch.no_grad():
            logits = classifier.network_(torch.from_numpy(x.astype(np.float32)))["pred"].numpy().reshape(-1)
        np.testing.assert_allclose(classifier.predict_proba(x)[:, 1], expit(logits), atol=1e-6)
        np.testing.assert_array_equal(classifier.predict(x) == "yes", logits > 0)
        assert classifier.score(x, y) > 0.8
    with pytest.raises(ConfigError, match="the loss 'bce' tells two classes apart, and y has 3"):
        classifier.fit(*classes())


def test_an_output_may_have_another_name_if_its_loss_reads_it():
    x, y = classes()
    with_keys = {"losses": {"ce": CE()}, "training": {"loss_keys": {"ce": ("logits", "label")}}}
    assert Classifier(OtherName, **with_keys, **QUICK).fit(x, y).score(x, y) > 0.5
    with pytest.raises(DataError, match=r"TwoOutputs says \['logits', 'features'\].* called 'pred'; name it so"):
        Classifier(TwoOutputs, **with_keys, **QUICK).fit(x, y)


def test_several_losses_optimizers_metrics_and_callbacks_are_those_of_the_trainer():
    from delira.training.callbacks import AbstractCallback

    class Counting(AbstractCallback):
        shared = ("seen",)

        def __init__(self):
            self.seen = []

        def at_epoch_end(self, trainer, **facts):
            self.seen.append(trainer.state.epoch)

    x, y = classes()
    counting = Counting()
    classifier = Classifier(
        Linear,
        losses={"ce": CE(), "smooth": CE(label_smoothing=0.1)},
        optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        training={"metrics": {"accuracy": accuracy}, "callbacks": [counting], "val_score_key": "ce"},
        val_split=0.2,
        num_epochs=3,
    )
    classifier.fit(x, y)
    assert {"ce", "smooth", "accuracy", "val_accuracy", "val_ce"} <= classifier.history_[0].keys()
    assert counting.seen == [1, 2, 3]
    with pytest.raises(ConfigError, match=r"one score .* \['ce', 'smooth'\]; name it: training=\{'val_score_key'"):
        classifier.set_params(training=None).fit(x, y)


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model_cls": Needy}, r"Needy needs the argument 'width', which the data do not say .*model=\{'width': …\}"),
        ({"model": {"hiden": 3}}, "takes no 'hiden'; did you mean 'hidden'"),
        ({"model": 3}, "model must be a dict of arguments"),
        ({"model_cls": LogisticRegression()}, "must be a class, got an instance of LogisticRegression"),
        ({"model_cls": LinearRegression}, "LinearRegression is no classifier; use delira.sklearn.Regressor"),
        ({"model_cls": LogisticRegression, "losses": {"ce": CE()}}, "losses: an estimator of scikit-learn brings its"),
        ({"model_cls": LogisticRegression, "model": {"c": 1}}, "LogisticRegression takes no 'c'"),
        ({"num_epochs": 0}, "num_epochs"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"val_split": 2}, "val_split must be a number between 0 and 1"),
        ({"patience": -1, "val_split": 0.2}, "patience must be"),
        ({"patience": 3}, "patience=3 waits for a better score of a validation.*val_split=0.2"),
        ({"losses": [CE()]}, "losses must be a dict"),
        ({"training": {"lerning_rate": 1}}, "training takes no 'lerning_rate'"),
        ({"training": {"seed": 1}}, "training names 'seed', which is an argument of the estimator: say random_state"),
        ({"training": {"losses": {}}}, "training names 'losses', which is an argument of the estimator"),
        ({"training": 3}, "training must be a dict"),
        ({"random_state": "x"}, "cannot be used to seed"),
        ({"verbose": 7}, "verbose"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_means_nothing_is_refused_at_the_fit_with_its_name(params, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        Classifier(**params).fit(*classes(30))


def test_what_no_backend_knows_is_refused():
    with pytest.raises(NetworkError, match="belongs to no backend"):
        Classifier(dict).fit(*classes(30))
    with pytest.raises(ConfigError, match="KMeans is no classifier"):
        Classifier(KMeans).fit(*classes(30))


def test_a_backend_of_ones_own_learns_with_what_is_named():
    x, y = values(n=200)
    training = {"losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD, "optimizer_params": {"lr": 0.1}}
    regressor = Regressor(ToyNetwork, **training, **QUICK).fit(x, y)
    assert regressor.score(x, y) > 0.9
    np.testing.assert_array_equal(copy.deepcopy(regressor).predict(x), regressor.predict(x))
    for name in ("losses", "optimizer_cls"):
        with pytest.raises(ConfigError, match=f"the backend 'toy' has no default for {name}; name one"):
            Regressor(ToyNetwork, **{**training, name: None}).fit(x, y)


def test_an_estimator_of_the_other_kind_is_named():
    needs("skops", "sklearn")
    with pytest.raises(ConfigError, match=r"LinearSVC is a classifier; use delira.sklearn.Classifier"):
        Regressor(LinearSVC).fit(*values(30))


def test_without_a_framework_a_network_has_to_be_named(monkeypatch):
    monkeypatch.setattr(networks, "installed_backends", lambda: ("sklearn",))
    with pytest.raises(MissingBackendError, match=r"install one, e.g. pip install 'delira"):
        Classifier().fit(*classes(30))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x, y: (np.where(x > 2, np.nan, x), y), ValueError, "Input X contains NaN"),
        (lambda x, y: (np.where(x > 2, 1e300, x), y), ValueError, "too large for dtype"),
        (lambda x, y: (x[:, 0], y), ValueError, "Expected 2D array, got 1D array"),
        (lambda x, y: (x[:-1], y), ValueError, "inconsistent numbers of samples"),
        (lambda x, y: (x, None), ValueError, "requires y to be passed, but the target y is None"),
        (lambda x, y: (x, y + 0.5 * x[:, 0]), ValueError, "Unknown label type: continuous"),
        (lambda x, y: (x, np.stack([y, y], 1)), ValueError, "y should be a 1d array"),
        (lambda x, y: (x.astype(str), y.astype(str)), None, ""),
        (lambda x, y: (np.full(x.shape, "a"), y), ValueError, "could not convert string to float"),
        (lambda x, y: (1j * x, y), ValueError, "Complex data not supported"),
    ],
    ids=range(10),
)
def test_data_are_refused_in_the_words_of_scikit_learn(change, error, message):
    x, y = change(*classes())
    classifier = Classifier(num_epochs=1)
    if error is None:
        classifier.fit(x, y)
        return
    with pytest.raises(error, match=message):
        classifier.fit(x, y)


def test_sparse_data_other_features_and_weights_are_refused():
    from scipy.sparse import csr_array
    from sklearn.exceptions import NotFittedError

    x, y = classes(30)
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        Classifier().fit(csr_array(x), y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Classifier().predict(x)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Regressor().network_  # noqa: B018
    classifier = Classifier(num_epochs=1).fit(x, y)
    with pytest.raises(ValueError, match="X has 4 features, but Classifier is expecting 5"):
        classifier.predict(x[:, :4])
    with pytest.raises(TypeError, match="sample_weight"):
        classifier.fit(x, y, sample_weight=np.ones(len(y)))
