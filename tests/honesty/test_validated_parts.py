"""The parts of the loss of a ready autoencoder are validated as they are trained: reconstruction and divergence."""

import importlib

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, need

from delira.data_loading import BaseDataManager

IMAGES = np.random.default_rng(0).random((12, 1, 8, 8)).astype("f4")


def parts_of(framework):
    """Experiment, network, loss, optimizer and its settings."""
    models, training = importlib.import_module("delira.models"), importlib.import_module("delira.training")
    if framework == "torch":
        torch = importlib.import_module("torch")
        found = training.PyTorchExperiment, models.VariationalAutoencoderPyTorch, torch.nn.BCEWithLogitsLoss()
        return *found, torch.optim.Adam, {"lr": 1e-3}
    if framework == "tensorflow":
        keras = importlib.import_module("keras")
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        rate = {"learning_rate": 1e-3}
        return training.TfExperiment, models.VariationalAutoencoderTf, loss, keras.optimizers.Adam, rate
    optax = importlib.import_module("optax")

    def loss(prediction, target):
        return optax.sigmoid_binary_cross_entropy(prediction, target).mean()

    return training.JaxExperiment, models.VariationalAutoencoderJax, loss, optax.adam, {"learning_rate": 1e-3}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("framework", DIFFERENTIABLE)
def test_the_losses_of_an_autoencoder_are_those_of_its_predictions(framework, tmp_path):
    need(framework)
    experiment, network, loss, optimizer, rate = parts_of(framework)
    training = {"losses": {"bce": loss}, "optimizer_cls": optimizer, "optimizer_params": rate, "val_score_mode": "min"}
    params = {"model": {"in_channels": 1, "image_size": 8, "latent_dim": 3}, "training": training}
    made = experiment(params, network, save_path=tmp_path, verbose=False, val_score_key="bce")
    data = BaseDataManager({"data": IMAGES}, 5, n_process_augmentation=0)  # 5, 5 and 2 images
    trained = made.run(data, data, num_epochs=1)
    predictions = made.test(trained, data)[0]
    logits, mean, log_var = (predictions[name].astype("f8") for name in ("pred", "mean", "log_var"))
    expected = {
        "val_bce": np.mean(np.logaddexp(0, logits) - IMAGES * logits),
        "val_kl": np.mean(0.5 * (mean**2 + np.exp(log_var) - 1 - log_var).sum(1)) / 64,
    }
    (record,) = made.last_trainer.state.history
    assert {name: record[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert {"bce", "kl"} <= record.keys()
    state = made.last_trainer.state
    assert (state.best_epoch, state.best_score) == (1, record["val_bce"])
