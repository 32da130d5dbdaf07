"""The examples of the Trial run in every backend that they name, and what they report is true."""

import copy
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from delira.data_loading import BaseDataManager
from delira.metrics.tree import hanging
from delira.state import GRADIENTS, LOSS, MODEL, VALIDATION_DATA, Y_TRUE, X

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "trial"
EXAMPLES = sorted(FOLDER.glob("*.py"))
PACKAGES = {"torch": "torch", "tensorflow": "tensorflow", "jax": "flax"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("trial_*.ipynb"))
#: those that take the backend as an argument
IN_EVERY_BACKEND = {path.stem for path in EXAMPLES if "def in_jax" in path.read_text()}

in_torch = pytest.mark.parametrize("backend", ["torch"])
in_every_backend = pytest.mark.parametrize("backend", PACKAGES)
#: a compiler needs some seconds for each
compiled_later = pytest.mark.slow_cases("tensorflow|jax")


def needs(backend):
    package = PACKAGES[backend]
    pytest.importorskip(package, reason=f"the {backend} backend needs the package {package!r}, which is not installed")


@pytest.fixture
def load(backend, tmp_path, monkeypatch):
    """Imports an example, whose files go into a folder of its own."""
    needs(backend)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hanging, "_DEFAULTS", dict(hanging._DEFAULTS))

    def load(name):
        spec = importlib.util.spec_from_file_location(f"trial_example_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def dense_of(backend, layers):
    """Weight ``(n_in, n_out)`` and bias of the dense layers of a sequential network, as float64."""
    if backend == "torch":
        pairs = [(layer.weight.T, layer.bias) for layer in layers if hasattr(layer, "weight")]
        return [tuple(value.detach().numpy().astype("f8") for value in pair) for pair in pairs]
    pairs = [(layer.kernel, layer.bias) for layer in layers.layers if hasattr(layer, "kernel")]
    return [tuple(np.asarray(value[...], "f8") for value in pair) for pair in pairs]


def hidden_and_output(layers, x):
    (first, first_bias), (second, second_bias) = layers
    hidden = np.maximum(x @ first + first_bias, 0)
    return hidden, hidden @ second + second_bias


def shades(path):
    """Grey values of a picture, 0 (black) to 1."""
    return imread(path)[..., :3].mean(axis=-1)


# ------------------------------------------------------------------ generative adversarial networks


def without_chance(gan, noises):
    """The same network without dropout; notes the noise that its generator is given."""
    for layer in gan.discriminator:
        if hasattr(layer, "p"):
            layer.p = 0.0
    gan.generator.register_forward_pre_hook(lambda module, inputs: noises.append(inputs[0].detach()))
    return gan


def gan_losses(gan, real, noise):
    from torch.nn.functional import softplus

    fake = gan.generator(noise)
    on_fake, on_real = gan.discriminator(fake.detach()), gan.discriminator(real)
    return softplus(-gan.discriminator(fake)).mean(), softplus(on_fake).mean() + softplus(-on_real).mean()


@in_torch
def test_each_network_of_the_gan_gets_the_gradient_of_its_own_loss(load):
    import torch

    module, noises, seen = load("gan_one_model"), [], {}
    trial = module.make_trial()
    gan = without_chance(trial.state[MODEL], noises)
    twin = copy.deepcopy(gan)
    trial.callbacks.append(type("Look", (), {"on_backward": lambda self, state: seen.update(state[GRADIENTS])})())
    real = torch.rand(16, 64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    record = trial.with_train_generator([real]).run(1)[0]

    g_loss, d_loss = gan_losses(twin, real, noises[0])
    np.testing.assert_allclose(
        [record[module.G_LOSS], record[module.D_LOSS]], [g_loss.item(), d_loss.item()], rtol=1e-5
    )
    np.testing.assert_allclose(record["loss"], (g_loss + d_loss).item(), rtol=1e-5)
    for part, loss in (("generator", g_loss), ("discriminator", d_loss)):
        names, weights = zip(*getattr(twin, part).named_parameters(), strict=True)
        for name, expected in zip(names, torch.autograd.grad(loss, weights, retain_graph=True), strict=True):
            np.testing.assert_allclose(seen[f"{part}.{name}"], expected, rtol=1e-4, atol=1e-7, err_msg=name)
    mixed = torch.autograd.grad(g_loss, list(twin.discriminator.parameters()))
    assert max(gradient.abs().max() for gradient in mixed) > 0.01, "the other loss would show in the gradients"


@in_torch
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gan_one_model", "gan_two_optimizers"])
def test_the_gans_draw_digits_of_all_kinds(load, name):
    found = load(name).main()
    assert found["after"] < 3.5 < 6 < found["before"]
    assert found["n_kinds"] >= 9
    ink = 1 - shades(f"runs/trial/{name}.png")
    assert ink.shape == (200, 640)
    assert 0.1 < ink.mean() < 0.35
    assert ink.std() > 0.25  # black and white, not the grey of an untrained generator


@in_torch
def test_the_two_optimizers_do_what_a_loop_by_hand_does(load):
    import torch

    module, noises = load("gan_two_optimizers"), []
    trial = module.make_trial()
    gan = without_chance(trial.state[MODEL], noises)
    twin = copy.deepcopy(gan)
    twin.generator._forward_pre_hooks.clear()
    reals = torch.rand(3, 16, 64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    history = trial.with_train_generator([*reals]).run(1)

    from torch.nn.functional import softplus

    parts = {name: getattr(twin, name) for name in ("discriminator", "generator")}
    optimizers = {name: torch.optim.Adam(part.parameters(), 5e-4, (0.5, 0.999)) for name, part in parts.items()}
    losses = []
    for real, noise in zip(reals, noises[::2], strict=True):  # once for each of the two networks
        fake = twin.generator(noise).detach()
        d_loss = softplus(twin.discriminator(fake)).mean() + softplus(-twin.discriminator(real)).mean()
        optimizers["discriminator"].zero_grad()
        d_loss.backward()
        optimizers["discriminator"].step()
        g_loss = softplus(-twin.discriminator(twin.generator(noise))).mean()
        optimizers["generator"].zero_grad()
        g_loss.backward()
        optimizers["generator"].step()
        losses.append([g_loss.item(), d_loss.item()])
    np.testing.assert_allclose(
        [history[0][key] for key in (module.G_LOSS, module.D_LOSS)], np.mean(losses, 0), rtol=1e-5
    )
    for name, weight in twin.state_dict().items():
        np.testing.assert_allclose(gan.state_dict()[name], weight, rtol=1e-4, atol=1e-6, err_msg=name)
    kept = trial.state_dict()
    assert {name.partition(".")[0] for name in kept["model"]} == set(parts) == set(kept["optimizer"])


@in_torch
@pytest.mark.parametrize("name", ["gan_one_model", "gan_two_optimizers"])
def test_a_gan_that_is_continued_equals_one_that_was_not_interrupted(load, name):
    module, real = load(name), np.random.default_rng(0).random((96, 64)).astype("f4")

    def make():
        return module.make_trial().with_train_data(real, None, batch_size=32)

    whole, begun, resumed = make(), make(), make()
    history = whole.run(3)
    begun.run(1)
    assert resumed.load_state_dict(begun.state_dict()).run(3) == history
    for name, weight in whole.state[MODEL].state_dict().items():
        np.testing.assert_array_equal(resumed.state[MODEL].state_dict()[name], weight, err_msg=name)


# ------------------------------------------------------------------ variational auto-encoder


@compiled_later
@in_every_backend
def test_the_loss_of_the_vae_is_that_of_the_formula(load, backend):
    module = load("vae")
    pixels = module.load_digits().data[:120].astype("f4") / 16
    trial = module.make_trial(backend).with_train_data(pixels, pixels, 40).with_val_data(pixels[:50], pixels[:50], 30)
    record = trial.run(2)[-1]
    model, x = trial.state[MODEL], pixels[:50].astype("f8")
    mu, log_variance = np.split(hidden_and_output(dense_of(backend, model.encoder), x)[1], 2, axis=1)
    logits = hidden_and_output(dense_of(backend, model.decoder), mu)[1]  # the mean, no random code
    bce = (np.logaddexp(0, logits) - logits * x).sum(axis=1).mean()
    kl = 0.5 * (mu**2 + np.exp(log_variance) - 1 - log_variance).sum(axis=1).mean()
    values = trial.evaluate()
    np.testing.assert_allclose([values["val_loss"], values[f"val_{module.KL}"]], [bce + kl, kl], rtol=1e-4)
    assert record["val_loss"] == values["val_loss"]
    first, second = (trial.predict(data_key=VALIDATION_DATA) for _ in range(2))
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.slow
@in_every_backend
def test_the_vae_learns_and_its_codes_give_digits(load, backend):
    module = load("vae")
    found = module.main(backend)
    assert found["val_loss"] < 25 < 30 < found["first"]
    assert 1 < found[f"val_{module.KL}"] < 4, "the code is used"
    assert shades(f"runs/trial/vae_{backend}.png").std() > 0.25


# ------------------------------------------------------------------ callbacks and metrics


@in_torch
def test_the_support_vector_machine_learns_as_one_by_hand(load):
    import torch

    module = load("svm")
    found = module.main()
    assert found["accuracy"] == 1.0
    np.testing.assert_allclose(found["rate"], 0.1 * 0.999**320, rtol=1e-6)
    assert found["drawn"] == [(epoch, batch) for epoch in range(20) for batch in (0, 10)]
    assert shades("runs/trial/svm.png").min() < 0.1

    x, labels = module.make_blobs(500, centers=[[-1.2, 0.8], [1.2, -0.6]], cluster_std=0.5, random_state=0)
    data = BaseDataManager({"x": x, "y": 2.0 * labels - 1}, batch_size=32)
    torch.manual_seed(0)
    start = torch.nn.Linear(2, 1)
    weight, bias, rate = start.weight.detach().double().numpy()[0], start.bias.item(), 0.1
    for epoch in range(1, 21):
        for batch in data.epoch(seed=0, fold=0, epoch=epoch, shuffle=True):
            slope = -batch["y"] * (batch["y"] * (batch["x"] @ weight + bias) < 1) / len(batch["y"])
            step = slope @ batch["x"] + 0.01 * weight / np.linalg.norm(weight)
            weight, bias, rate = weight - rate * step, bias - rate * slope.sum(), rate * 0.999
    np.testing.assert_allclose(found["model"].weight[0].detach(), weight, rtol=1e-3)
    np.testing.assert_allclose(found["model"].bias.item(), bias, atol=1e-3)


@compiled_later
@in_every_backend
def test_the_decay_is_in_the_loss(load, backend):
    module = load("weight_decay")
    x, y = module.load_diabetes(return_X_y=True)
    x, y = (module.StandardScaler().fit_transform(part)[:40].astype("f4") for part in (x, y[:, None]))
    trial = module.make_trial(backend, "own").with_train_data(x, y, batch_size=40)
    layers = dense_of(backend, trial.state[MODEL])
    trial.run(1)
    error = hidden_and_output(layers, x)[1] - y
    norms = sum(np.linalg.norm(weight) for weight, _ in layers)
    np.testing.assert_allclose(float(trial.state[LOSS]), (error**2).mean() + 0.05 * norms, rtol=1e-4)


@pytest.mark.slow
@in_every_backend
def test_the_decay_equals_the_built_in_one_and_helps(load, backend):
    found = load("weight_decay").main(backend)
    assert found["own"] == pytest.approx(found["built-in"], rel=1e-3)
    assert found["own"] < found["none"] - 0.1


@compiled_later
@in_every_backend
def test_the_decorated_metric_stands_for_its_string(load, backend, capsys):
    history = load("decorated_metric").main(backend)
    assert capsys.readouterr().out.endswith("no mean hangs on the metric: True\n")
    assert {"running_acc", "acc_std", "val_acc_std"} <= history[-1].keys()
    assert history[-1]["val_acc_std"] < history[0]["val_acc_std"]


@compiled_later
@in_every_backend
def test_the_decorated_metric_is_the_spread_over_all_samples(load, backend):
    module = load("decorated_metric")
    trial = module.make_trial(backend)
    record = trial.run(1)[0]
    _, labels = module.load_digits(return_X_y=True)
    right = np.asarray(trial.predict(data_key=VALIDATION_DATA)).argmax(axis=1) == labels[1500:]
    np.testing.assert_allclose(record["val_acc_std"], np.std(right, ddof=1), rtol=1e-6)


# ------------------------------------------------------------------ functions


@pytest.mark.slow
@in_every_backend
def test_all_optimizers_find_the_minimum_of_the_function(load, backend, capsys):
    from scipy.optimize import check_grad, minimize

    module = load("himmelblau")
    paths, printed = module.main(backend), capsys.readouterr().out
    minimum = minimize(lambda place: module.himmelblau(*place), module.START, tol=1e-10).x
    for name, path in paths.items():
        assert path.shape == (300, 2)
        np.testing.assert_allclose(path[0], module.START, rtol=1e-6)
        np.testing.assert_allclose(path[-1], minimum, atol=0.02, err_msg=name)
        assert re.search(rf"^{name} +ends at \(\d\.\d+, \d\.\d+\), 0\.0\d+ from a minimum$", printed, re.MULTILINE)

    def slope(place):
        one, two = place[0] ** 2 + place[1] - 11, place[0] + place[1] ** 2 - 7
        return np.array([4 * place[0] * one + 2 * two, 2 * one + 4 * place[1] * two])

    assert check_grad(lambda place: module.himmelblau(*place), slope, np.array(module.START)) < 1e-4
    place, velocity = np.array(module.START), 0.0
    for found in paths["momentum"][:20]:
        np.testing.assert_allclose(found, place, rtol=1e-3)
        velocity = 0.7 * velocity + slope(place)
        place = place - 0.002 * velocity
    assert shades(f"runs/trial/himmelblau_{backend}.png").shape == (400, 480)


@in_torch
@pytest.mark.slow
def test_adam_climbs_where_amsgrad_descends(load):
    found = load("amsgrad").main()
    assert found["Adam"] > 0.5
    assert found["AMSGrad"] < -0.5
    assert Path("runs/trial/amsgrad.png").stat().st_size > 5_000


@pytest.mark.slow
@in_torch
def test_the_weight_walks_as_the_papers_say_and_stays_in_its_range(load):
    module = load("amsgrad")
    for settings in ({}, {"amsgrad": True}):
        path = module.walk(500, **settings)
        np.testing.assert_allclose(path, list(adam_by_hand(500, **settings)), atol=1e-4)


def adam_by_hand(n_steps, amsgrad=False):
    """Where it is before each step (Kingma and Ba, 2015; Reddi et al., 2018)."""
    place = mean = square = largest = 0.0
    for step in range(n_steps):
        yield place
        slope = 10.1 if step % 101 == 1 else -0.1
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        largest = max(largest, square) if amsgrad else square
        root = np.sqrt(largest / (1 - 0.99 ** (step + 1)))
        place = float(np.clip(place - 0.1 * mean / (1 - 0.9 ** (step + 1)) / (root + 1e-8), -1, 1))


# ------------------------------------------------------------------ adversarial examples


@compiled_later
@in_every_backend
def test_the_attacked_pictures_are_those_of_the_formula(load, backend):
    module = load("fgsm")
    trial, attack = module.make_trial(backend, in_training=False)
    trial.run(3)
    pixels, labels = module.load_digits(return_X_y=True)
    x, y = pixels[1400:] / 16, labels[1400:]
    layers = dense_of(backend, trial.state[MODEL])
    hidden, scores = hidden_and_output(layers, x)
    np.testing.assert_allclose(trial.evaluate()["val_acc"], (scores.argmax(1) == y).mean(), rtol=1e-6)
    probability = np.exp(scores - scores.max(1, keepdims=True))
    probability /= probability.sum(1, keepdims=True)
    slope = ((probability - np.eye(10)[y]) @ layers[1][0].T * (hidden > 0)) @ layers[0][0].T
    moved = x + module.EPSILON * np.sign(slope)
    attack.in_validation = True
    accuracy = trial.evaluate()["val_acc"]
    near_zero = np.abs(slope) < 1e-6  # the sign of rounding
    np.testing.assert_allclose(np.where(near_zero, moved, attack.seen[0]), moved, atol=1e-5)
    np.testing.assert_allclose(accuracy, (hidden_and_output(layers, moved)[1].argmax(1) == y).mean(), atol=0.01)


@pytest.mark.slow
@in_every_backend
def test_an_attack_halves_the_accuracy_unless_the_network_was_hardened(load, backend):
    found = load("fgsm").main(backend)
    assert found["plain"] > 0.85
    assert found["plain_attacked"] < 0.35
    assert found["hardened"] > 0.85
    assert found["hardened_attacked"] > 0.55
    assert shades(f"runs/trial/fgsm_{backend}.png").min() < 0.1


# ------------------------------------------------------------------ batches


@compiled_later
@in_every_backend
def test_two_inputs_and_two_outputs_are_learned(load, backend):
    module = load("several_inputs")
    found = module.main(backend)
    pixels, labels = module.load_digits(return_X_y=True)
    targets = [y for _, y in module.pairs(pixels[1400:], labels[1400:], 20, 1)]
    larger, total = (np.concatenate(parts) for parts in zip(*targets, strict=True))
    assert found["larger"].shape == found["total"].shape == (1000, 1)
    bce = (np.logaddexp(0, found["larger"]) - found["larger"] * larger).mean()
    mse = ((found["total"] - total) ** 2).mean()
    np.testing.assert_allclose(found["val_loss"], bce + 0.1 * mse, rtol=1e-4)
    np.testing.assert_allclose(found["val_larger_acc"], ((found["larger"] > 0) == larger).mean(), rtol=1e-6)
    np.testing.assert_allclose(found["val_total_error"], np.abs(found["total"] - total).mean(), rtol=1e-4)
    assert found["val_larger_acc"] > 0.8
    assert found["val_loss"] < 0.5 * found["first"]


@pytest.mark.slow
@in_torch
def test_the_loader_puts_two_digits_side_by_side(load):
    import torch

    module = load("custom_loader")
    left, right = torch.rand(2, 5, 8, 8)
    state = {"iterator": iter([((left, torch.arange(5)), (right, torch.arange(5) + 4))])}
    module.load(state)
    np.testing.assert_array_equal(state[X].reshape(5, 8, 16)[:, :, :8], left)
    np.testing.assert_array_equal(state[X].reshape(5, 8, 16)[:, :, 8:], right)
    assert state[Y_TRUE].tolist() == [4, 6, 8, 10, 12]
    found = module.main()
    assert found["val_acc"] > 0.5 > 0.2 > found["first"]
    assert found["train_steps"] == 28
    assert found["val_top_5_acc"] > found["val_acc"]


# ------------------------------------------------------------------ all of them


def test_every_example_is_listed_tested_and_short():
    readme, tests = (ROOT / "examples" / "README.md").read_text(), Path(__file__).read_text()
    for path in EXAMPLES:
        row = re.search(rf"^\| \[{path.name}\]\(trial/{path.name}\) \| .* \| (.*) \|$", readme, re.MULTILINE)
        assert row, path.name
        assert ("jax" in row[1]) == (path.stem in IN_EVERY_BACKEND), path.name
        assert f'"{path.stem}"' in tests, path.name
        assert len(path.read_text().splitlines()) <= 145, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_from_top_to_bottom_and_names_no_machine(path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert not any(cell["metadata"] for cell in notebook["cells"])
    assert notebook["cells"][0]["source"][0].startswith("# "), "a title"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        shown = {kind: text for kind, text in output.get("data", {}).items() if kind != "image/png"}
        shown = json.dumps([output.get("text"), shown])
        assert not re.search(r"/(home|root|tmp|work|usr|Users)/|\b0x[0-9a-f]+|Warning|Traceback", shown), shown
        assert output.get("name") != "stderr", shown
    assert path.stat().st_size < 250_000


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_an_example_runs_as_a_program(backend, tmp_path):
    needs(backend)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::UserWarning", str(FOLDER / "weight_decay.py"), backend]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    errors = [float(number) for number in re.findall(r"(\d\.\d+) in validation", done.stdout)]
    assert errors[1] == errors[2] < errors[0]
