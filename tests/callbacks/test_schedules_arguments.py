"""The further arguments of PyTorch's schedules: the same rates in every backend, or a refusal in words."""

import numpy as np
import pytest
from rates_of_fits import of_torch

from delira.callbacks.abstract_callback import Callback
from delira.errors import ConfigError
from delira.training.callbacks import CyclicLR, LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR


class Groups(Callback):
    """Keeps an entry of each group of parameters, as each step uses it."""

    def __init__(self, entry="lr"):
        self.entry, self.seen = entry, []

    def at_iter_begin(self, trainer, **facts):
        groups = trainer.optimizers["default"].optimizer.param_groups
        self.seen.append([group[self.entry] for group in groups])


def two_groups(net, **settings):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    cls = settings.pop("cls", torch.optim.SGD)
    return cls([{"params": [net.weight]}, {"params": [net.bias]}], 0.1, **settings)


GROUPED = {
    "LambdaLR": (
        lambda: LambdaLR([lambda n: 0.9**n, lambda n: 0.5**n], step_on_batch=True),
        {"lr_lambda": [lambda n: 0.9**n, lambda n: 0.5**n]},
    ),
    "CyclicLR": (
        lambda: CyclicLR([0.1, 0.01], [0.5, 0.2], 2, step_on_batch=True),
        {"base_lr": [0.1, 0.01], "max_lr": [0.5, 0.2], "step_size_up": 2, "cycle_momentum": False},
    ),
    "OneCycleLR": (
        lambda: OneCycleLR([0.5, 0.2], 7),
        {"max_lr": [0.5, 0.2], "total_steps": 7, "cycle_momentum": False},
    ),
}


@pytest.mark.parametrize("name", GROUPED)
def test_each_group_of_pytorch_has_a_rate_of_its_own(torch_fit, name):
    make, params = GROUPED[name]
    torch_fit.optimizer, groups = two_groups, Groups()
    torch_fit.trial(groups, make()).run(2)
    np.testing.assert_allclose(groups.seen, of_torch(name, params, 6))


@pytest.mark.parametrize("name", GROUPED)
def test_lists_are_refused_where_there_is_one_rate(fit, name):
    if fit.backend != "torch":
        with pytest.raises(ConfigError, match=f"{name}: a list as .* is for the groups of an optimizer of PyTorch"):
            fit.trial(GROUPED[name][0]()).run(1)


MOMENTA = {
    "CyclicLR": (
        lambda: CyclicLR(0.1, 0.5, 2, step_on_batch=True, cycle_momentum=True, base_momentum=0.7),
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "base_momentum": 0.7},
    ),
    "OneCycleLR": (lambda: OneCycleLR(0.5, 7, cycle_momentum=True), {"max_lr": 0.5, "total_steps": 7}),
}


@pytest.mark.parametrize("name", MOMENTA)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_the_momentum_goes_against_the_rate(torch_fit, tmp_path, name, kind):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    make, params = MOMENTA[name]
    cls, entry = getattr(torch.optim, kind), "momentum" if kind == "SGD" else "betas"
    torch_fit.optimizer, groups = lambda net: two_groups(net, cls=cls), Groups(entry)
    trial = torch_fit.trial(groups, make())
    trial.run(1)
    torch_fit.trial(groups, make()).load(trial.save(tmp_path / "kept")).run(2)
    np.testing.assert_allclose(groups.seen, of_torch(name, params, 6, entry, cls=cls))


@pytest.mark.parametrize("name", MOMENTA)
def test_the_momentum_stays_unless_it_is_asked_for_and_is_refused_where_it_must(fit, name):
    if fit.backend != "torch":
        complaint = f"{name}: cycle_momentum works with PyTorch; in the backend '{fit.backend}'"
        with pytest.raises(ConfigError, match=complaint):
            fit.trial(MOMENTA[name][0]()).run(1)
        return
    groups = Groups("momentum")
    fit.trial(groups, OneCycleLR(0.5, 7)).run(1)
    assert groups.seen == 3 * [[0]]


def test_an_optimizer_without_momentum_is_refused(torch_fit):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    torch_fit.optimizer = lambda net: torch.optim.Adagrad(net.parameters(), 0.1)
    with pytest.raises(ConfigError, match="OneCycleLR: optimizer must support momentum or beta1"):
        torch_fit.trial(OneCycleLR(0.5, 7, cycle_momentum=True)).run(1)


def test_lists_that_do_not_fit_the_groups_are_refused(torch_fit):
    with pytest.raises(ConfigError, match="LambdaLR: Expected 1 lr_lambdas, but got 2"):
        torch_fit.trial(LambdaLR([lambda n: 1.0, lambda n: 1.0])).run(1)


@pytest.mark.parametrize("make", [lambda: StepLR(2), lambda: ReduceLROnPlateau("loss")])
def test_a_rate_that_optax_hides_is_refused_in_words(make):
    optax = pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
    from flax import nnx

    import delira

    net = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    trial = delira.Trial(
        net, optax.sgd(0.1), lambda y_pred, y_true: ((y_pred - y_true) ** 2).mean(), callbacks=[make()]
    )
    with pytest.raises(ConfigError, match=r"make the transformation by optax\.inject_hyperparams"):
        trial.with_train_data(np.zeros((4, 3), "f4"), np.zeros((4, 1), "f4"), 2).run(1, verbose=0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CyclicLR(0.1, 0.2, scale_func=abs), "CyclicLR takes no 'scale_func'; did you mean 'scale_fn'"),
        (lambda: CyclicLR(0.1, 0.2, scale_fn=2.0), "CyclicLR: scale_fn is a function, got 2.0"),
        (lambda: CyclicLR(0.1, 0.2, scale_mode="steps"), "scale_mode must be 'cycle' or 'iterations', got 'steps'"),
        (lambda: CyclicLR(0.1, 0.2, monitor="val_loss"), "CyclicLR counts steps and looks at no value"),
        (lambda: CyclicLR(0.1, [0.2, "1"]), "CyclicLR: max_lr is a number above 0, got '1'"),
        (lambda: OneCycleLR(0.5, 9, anneal_strategy="line"), "anneal_strategy must be 'cos' or 'linear', got 'line'"),
        (
            lambda: OneCycleLR(0.5),
            "OneCycleLR needs total_steps, the updates of the run, or epochs and steps_per_epoch",
        ),
        (lambda: OneCycleLR(0.5, 9, pct_start=1.5), "pct_start is a number of at least 0 and of at most 1, got 1.5"),
        (lambda: OneCycleLR(0.5, 4, pct_start=0.25), "not of one step alone, got 0.25 of 4"),
        (
            lambda: OneCycleLR(0.5, 9, max_momentum="high"),
            "OneCycleLR: max_momentum is a number of at least 0, got 'high'",
        ),
        (lambda: LambdaLR([abs, 2]), "LambdaLR: lr_lambda is a function of the steps so far, got"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_schedule_tells_its_arguments():
    assert repr(StepLR(2, 0.5)) == "StepLR(step_size=2, gamma=0.5, step_on_batch=False)"
    assert repr(LambdaLR(abs)) == "LambdaLR(step_on_batch=False)"
