"""Samples mixed with others of the batch: whole, or inside of the network."""

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, Literal, Self

import numpy as np

from delira.callbacks.mixing.mixed import (
    MixingCallback,
    RandomCallback,
    blend,
    mixup_loss,
    n_samples_of,
    refuse_weights,
    rows_of,
)
from delira.errors import ConfigError, check_known, check_numbers, check_that, check_whole
from delira.state import EPOCH, MODEL, State, X
from delira.utils.arrays import n_rows, ops_of, shape_of

#: a weight that is drawn at every step
RANDOM: Literal["random"] = "random"


class PairMixing(MixingCallback):
    """Mixes pairs of samples with one weight for a batch; see :class:`Mixup`."""

    RANDOM = RANDOM
    mixup_loss = staticmethod(mixup_loss)

    def __init__(self, alpha: float = 1.0, lam: float | Literal["random"] = RANDOM):
        check_numbers(self, at_least=0, alpha=alpha)
        is_share = isinstance(lam, Real) and not isinstance(lam, bool) and 0 <= float(lam) <= 1
        check_that(is_share or (isinstance(lam, str) and lam == RANDOM), self, "lam is from 0 to 1, or RANDOM", lam)
        self.alpha, self.lam = alpha, lam

    def _draw_pairs(self, rng: np.random.Generator, n_samples: int) -> tuple[float, np.ndarray]:
        """Return the weight of the first of each two samples, and which is the second."""
        if self.lam == RANDOM:  # Beta(0, 0) is 0 or 1: nothing is mixed
            share = float(rng.beta(self.alpha, self.alpha)) if self.alpha else 1.0
        else:
            share = float(self.lam)
        return share, rng.permutation(n_samples)


class Mixup(PairMixing):
    """Train on weighted means of pairs of samples: ``lambda * x + (1 - lambda) * x[permutation]``.

    ``Y_TRUE`` becomes the pair of the targets (:class:`MixedTargets`), for which the criterion is
    :func:`mixup_loss`; ``MIXUP_LAMBDA`` (one number) and ``MIXUP_PERMUTATION`` (shape ``(B,)``) are in the state.
    Validations see the samples as they are.

    Parameters
    ----------
    alpha
        Lambda is drawn from Beta(alpha, alpha), once for a batch; 0 mixes nothing.
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

    def on_sample(self, state: State) -> None:
        """Mix the batch."""
        refuse_weights(state, type(self).__name__)
        share, rows = self._draw_pairs(self._draw(state), n_samples_of(state, type(self).__name__))
        state[X] = blend(state[X], rows_of(state[X], rows), share)
        self._pair(state, share, rows)


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
        epoch: int = state[EPOCH]
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
        check_that(policy is None or callable(policy), "SamplePairing", "policy is a function of the state", policy)
        self.policy: Policy = policy or default_policy()

    def on_sample(self, state: State) -> None:
        """Pair, where the policy says so."""
        if self.policy(state):
            refuse_weights(state, "SamplePairing")
            rows = self._draw(state).permutation(n_samples_of(state, "SamplePairing"))
            state[X] = blend(state[X], rows_of(state[X], rows), 0.5)


class ManifoldMixup(PairMixing):
    """Train on weighted means of what a layer makes of pairs of samples; the layer is drawn at every step.

    Everything else is as with :class:`Mixup`; the criterion is :func:`mixup_loss`. For PyTorch only: layers of Keras
    and flax do not let others change what they return. After a fit the layers are what they were.

    Parameters
    ----------
    alpha
        Lambda is drawn from Beta(alpha, alpha), once for a batch.
    lam
        A fixed lambda, from 0 to 1, instead.

    Raises
    ------
    ConfigError
        If a number is impossible; when a fit begins, if the network is none of PyTorch, or no layer is chosen; at a
        step, if a layer was not called, or gave anything but one array with the samples along its first axis.

    References
    ----------
    Verma et al., Manifold mixup: Better representations by interpolating hidden states, ICML 2019, arXiv:1806.05236.

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> ManifoldMixup(0.4).with_layer_type_filter([torch.nn.ReLU]).get_selected_layers(net)
    ['0', '2']
    """

    not_hooks = ("at_depth",)

    def __init__(self, alpha: float = 1.0, lam: float | Literal["random"] = RANDOM):
        super().__init__(alpha, lam)
        self._names: tuple[str, ...] | None = None
        self._left_out: tuple[str, ...] = ()
        self._left_out_types: tuple[type, ...] = ()
        self._depth: int | None = 0
        self._watched: tuple[Any, list[str], list[Any]] | None = None
        #: layer, lambda and permutation of a forward pass in which nothing was mixed yet
        self._due: tuple[str, float, np.ndarray] | None = None

    # ------------------------------------------------------------------ which layers

    def for_layers(self, layers: Iterable[str]) -> Self:
        """Choose among these layers alone; returns the callback.

        Parameters
        ----------
        layers
            Names as in ``named_modules()``: ``["conv1", "block.0"]``.
        """
        self._names = (layers,) if isinstance(layers, str) else tuple(layers)
        return self

    def with_layer_filter(self, layer_filter: Iterable[str]) -> Self:
        """Leave layers out by parts of their names; returns the callback.

        Parameters
        ----------
        layer_filter
            Texts: ``["norm"]`` leaves out ``norm1`` and ``block.norm``.
        """
        self._left_out = (layer_filter,) if isinstance(layer_filter, str) else tuple(layer_filter)
        return self

    def with_layer_type_filter(self, layer_types: Iterable[type]) -> Self:
        """Leave layers out by their classes; returns the callback.

        Parameters
        ----------
        layer_types
            Classes: ``[torch.nn.BatchNorm2d]``.
        """
        self._left_out_types = (layer_types,) if isinstance(layer_types, type) else tuple(layer_types)
        return self

    def at_depth(self, depth: int | None) -> Self:
        """Choose among the layers of one depth; returns the callback.

        Parameters
        ----------
        depth
            0: attributes of the network, which is so unless another one is chosen; 1: the attributes of these, and so
            on; None: the layers of all depths.
        """
        check_that(depth is None or not depth < 0, "ManifoldMixup", "depth is at least 0, or None", depth)
        self._depth = depth
        return self

    def get_selected_layers(self, model: Any) -> list[str]:
        """Return the names of the layers from which one is drawn at every step.

        Parameters
        ----------
        model
            A network of PyTorch.

        Raises
        ------
        ConfigError
            If there are none, or a layer that was named is none of the network's.
        """
        known = {
            name: layer
            for name, layer in model.named_modules()
            # one that computes something itself, which lists of layers do not
            if name and getattr(type(layer).forward, "__name__", "") != "_forward_unimplemented"
        }
        check_known(self._names or (), known, "ManifoldMixup: there is no layer")
        chosen = [name for name, layer in known.items() if self._is_selected(name, layer)]
        if not chosen:
            raise ConfigError(f"ManifoldMixup: no layer is left; there are {', '.join(known)}")
        return chosen

    def _is_selected(self, name: str, layer: object) -> bool:
        is_wanted = self._depth is None or name.count(".") == self._depth
        if self._names is not None:
            is_wanted = name in self._names
        is_left_out = isinstance(layer, self._left_out_types) or any(text in name for text in self._left_out)
        return is_wanted and not is_left_out

    # ------------------------------------------------------------------ the fit

    def on_start(self, state: State) -> None:
        """Watch the layers."""
        self._watch(state[MODEL])

    def on_sample(self, state: State) -> None:
        """Draw a layer, and make pairs of the targets."""
        if self._watched is None or self._watched[0] is not state[MODEL]:  # a callback has set another one
            self._watch(state[MODEL])
        rng, names = self._draw(state), self._watched[1]  # type: ignore[index]
        share, rows = self._draw_pairs(rng, n_rows(state[X]))
        self._due = (names[rng.integers(len(names))], share, rows)
        self._pair(state, share, rows)

    def on_forward(self, state: State) -> None:
        """Refuse a step in which the targets were mixed alone."""
        if self._due is not None:
            name, self._due = self._due[0], None
            raise ConfigError(
                f"ManifoldMixup: the network did not call its layer {name!r}; leave it out by with_layer_filter, or "
                "choose others by for_layers"
            )

    def on_end(self, state: State) -> None:
        """Leave the layers as they were."""
        super().on_end(state)
        self._release()

    def _watch(self, model: Any) -> None:
        self._release()
        if not hasattr(model, "register_forward_hook") or hasattr(model, "graph_for"):  # a program keeps its layers
            raise ConfigError(
                f"ManifoldMixup mixes what layers of PyTorch return, and the network is a {type(model).__name__}; use "
                "Mixup, which mixes the input"
            )
        names = self.get_selected_layers(model)
        # what is compiled goes on around them: they have other numbers at every step
        disable = ops_of(next(model.parameters())).xp.compiler.disable
        handles = [model.get_submodule(name).register_forward_hook(disable(self._mixer(name))) for name in names]
        self._watched = (model, names, handles)

    def _release(self) -> None:
        if self._watched is not None:
            for handle in self._watched[2]:
                handle.remove()
        self._watched = self._due = None

    def _mixer(self, name: str) -> Any:
        def mix(layer: Any, args: Any, output: Any) -> Any:
            if self._due is None or self._due[0] != name:
                return None
            _, share, rows = self._due
            self._due = None  # a layer may be called several times
            if not shape_of(output) or len(output) != len(rows):
                raise ConfigError(
                    f"ManifoldMixup: the layer {name!r} does not give one array with the samples along its first axis; "
                    "leave it out by with_layer_filter"
                )
            return blend(output, rows_of(output, rows), share)

        return mix
