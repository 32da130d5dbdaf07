"""Whole samples mixed with others of the batch."""

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

from delira import state as keys
from delira.callbacks.mixing.batches import blend, check_positive, n_samples_of, rows_of
from delira.callbacks.mixing.mixed import MixingCallback, mixup_loss
from delira.callbacks.mixing.randomness import RandomCallback
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_whole

#: a weight that is drawn at every step
RANDOM: Literal["random"] = "random"


def check_lam(lam: float | str, who: str) -> float | str:
    """Refuse what is no weight.

    Raises
    ------
    ConfigError
        If it is neither RANDOM nor from 0 to 1.
    """
    is_number = isinstance(lam, Real) and not isinstance(lam, bool)
    if not (isinstance(lam, str) and lam == RANDOM) and not (is_number and 0 <= float(lam) <= 1):
        raise ConfigError(f"{who}: lam is from 0 to 1, or RANDOM, got {lam!r}")
    return lam


class Mixup(MixingCallback):
    """Train on weighted means of pairs of samples: ``lambda * x + (1 - lambda) * x[permutation]``.

    ``Y_TRUE`` becomes the pair of the targets (:class:`MixedTargets`), for which the criterion is
    :func:`mixup_loss`; ``MIXUP_LAMBDA`` (one number) and ``MIXUP_PERMUTATION`` (shape ``(B,)``) are in the state.
    Validations see the samples as they are.

    Parameters
    ----------
    alpha
        Lambda is drawn from Beta(alpha, alpha), once for a batch.
    lam
        A fixed lambda, from 0 to 1, instead.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if the input holds other numbers than floating-point ones.

    References
    ----------
    Zhang et al., mixup: Beyond empirical risk minimization, ICLR 2018, arXiv:1710.09412.

    Examples
    --------
    >>> import torch
    >>> import delira
    >>> net = torch.nn.Linear(4, 2)
    >>> criterion = mixup_loss(torch.nn.CrossEntropyLoss())
    >>> trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), criterion, ["acc"], [Mixup(0.4)], verbose=0)
    >>> trial = trial.with_train_data(torch.rand(20, 4), torch.arange(20) % 2, batch_size=10)
    >>> sorted(trial.run(1)[0])
    ['epoch', 'lr', 'mixup_acc', 'running_mixup_acc', 'train_steps', 'validation_steps']
    """

    RANDOM = RANDOM
    mixup_loss = staticmethod(mixup_loss)

    def __init__(self, alpha: float = 1.0, lam: float | Literal["random"] = RANDOM):
        name = type(self).__name__
        self.alpha, self.lam = check_positive(alpha, "alpha", name), check_lam(lam, name)

    def on_sample(self, state: State) -> None:
        """Mix the batch."""
        n_samples, rng = n_samples_of(state, type(self).__name__), self._draw(state)
        share = float(rng.beta(self.alpha, self.alpha)) if self.lam == RANDOM else float(self.lam)
        self._mix(state, share, rng.permutation(n_samples))


Policy = Callable[[State], Any]


def default_policy(start: int = 100, end: int = 800, on: int = 8, off: int = 2) -> Policy:
    """When :class:`SamplePairing` pairs: in ``on`` epochs of every ``on + off``, from one epoch to another.

    Parameters
    ----------
    start, end
        The first epoch with pairs, counted from 0, and the first after them: the last epochs learn from samples as
        they are.
    on, off
        Lengths of the turns with pairs and without.

    Returns
    -------
    callable
        True for the states in which samples are paired.

    Raises
    ------
    ConfigError
        If a number is impossible.
    """
    check_whole("default_policy", at_least=0, start=start, end=end, off=off)
    check_whole("default_policy", at_least=1, on=on)
    if end < start:
        raise ConfigError(
            "default_policy: start is at least 0, end at least start, on at least 1 and off at least 0, got "
            f"{(start, end, on, off)}"
        )

    def pairs(state: State) -> bool:
        epoch: int = state[keys.EPOCH]
        return start <= epoch < end and (epoch - start) % (on + off) < on

    return pairs


class SamplePairing(RandomCallback):
    """Train on means of pairs of samples of the batch, ``(x + x[permutation]) / 2``; the targets stay.

    Parameters
    ----------
    policy
        A function of the state that is true where samples are paired; None: :func:`default_policy`.

    Raises
    ------
    ConfigError
        If the policy cannot be called.
    DataError
        At a step, if the input holds other numbers than floating-point ones.

    References
    ----------
    Inoue, Data augmentation by pairing samples for images classification, 2018, arXiv:1801.02929.
    """

    default_policy = staticmethod(default_policy)

    def __init__(self, policy: Policy | None = None):
        if policy is not None and not callable(policy):
            raise ConfigError(f"SamplePairing: policy is a function of the state, got {policy!r}")
        self.policy: Policy = policy or default_policy()

    def on_sample(self, state: State) -> None:
        """Pair, where the policy says so."""
        if self.policy(state):
            rows = self._draw(state).permutation(n_samples_of(state, "SamplePairing"))
            state[keys.X] = blend(state[keys.X], rows_of(state[keys.X], rows), 0.5)
