"""The default closure of every backend: forward, losses, gradients, update, metrics; and what ready networks add."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from delira.contract.calls import CallsRole
from delira.contract.kinds import ByName, Network
from delira.contract.step import (
    DEFAULT_LOSS_KEYS,
    NO_HOOKS,
    Step,
    StepHooks,
    backend_default,
    call_loss,
    call_losses,
    default_optimizer,
    loss_entries,
    named_outputs,
    run_hooks,
    select_inputs,
    validation_names,
)
from delira.errors import ConfigError
from delira.utils.binding import ordered

if TYPE_CHECKING:
    from delira.contract.backend import Backend

Results = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def default_closure(backend: "Backend") -> Callable[..., Results]:
    """The closure of a backend whose networks learn by losses and gradients.

    Parameters
    ----------
    backend
        Its roles ``calls`` and ``step`` say how: by ``outputs``, ``learn``, ``predict``, ``values`` and ``measure``.
    """
    calls, how = backend.calls, backend.step

    @backend_default
    def closure(
        model: Network,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> Results:
        """Forward, losses, gradients, update.

        Without ``optimizers`` nothing is learned: no gradients, and the names of losses and metrics get
        the prefix ``val_``.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of arrays, cut off from the gradients.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        loss_keys, metric_keys = kwargs.get("loss_keys") or {}, kwargs.get("metric_keys") or {}

        def compute(step: Step) -> Step:
            outputs = _called(calls, step, kwargs.get("key_mapping"))
            step.predictions = how.outputs(step.network, outputs)
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, loss_keys, step.predictions, step.batch)
            step.losses |= calls.added_losses(step.network)
            run_hooks(hooks.criterion, step)
            return step

        step = Step(model, data_dict, call=kwargs.get("call"))
        run_hooks(hooks.sample, step)
        if not optimizers:
            how.predict(step, compute)
        else:
            how.learn(default_optimizer(optimizers), step, compute, hooks.backward)
        predictions, values = how.values(step)
        found = how.measure(metrics, metric_keys, predictions, step.batch) if metrics else {}
        if optimizers:
            return found, values, predictions
        return validation_names(found), validation_names(values), predictions

    return closure


def _called(calls: CallsRole, step: Step, key_mapping: Mapping[str, str] | None) -> ByName:
    """What the network of a step returns for its batch."""
    if step.call is not None:
        return step.call(step.network, step.batch)  # type: ignore[no-any-return]
    network = step.network
    inputs = select_inputs(key_mapping or calls.key_mapping(network), step.batch)
    return named_outputs(network, calls.call_apart(network, inputs, lambda own: network(**own)))


#: what a GAN is judged by -> the target of its logits
GAN_PARTS = {"discr_real": 1, "discr_fake": 0, "adversarial": 1}

# ------------------------------------------------------------------ labels


def labelled(
    prepare_batch: Callable[..., dict[str, Any]], change: Callable[..., dict[str, Any]], **settings: int
) -> Callable[..., Any]:
    """A backend's default ``prepare_batch`` with labels as the losses of a ready network take them.

    Parameters
    ----------
    prepare_batch
        The default one.
    change
        Called with the prepared batch, and as ``batch`` with what was prepared; changes ``"label"``.
    **settings
        Further arguments of ``change``.
    """

    @backend_default
    def prepare_with_labels(batch: ByName, input_device: Any, output_device: Any) -> dict[str, Any]:
        return change(prepare_batch(batch, input_device, output_device), batch=batch, **settings)

    text = inspect.getdoc(change)
    prepare_with_labels.__doc__ = f"Make arrays of a batch, as every network of the backend.\n\nLabels: {text}\n"
    return prepare_with_labels


# ------------------------------------------------------------------ generative adversarial networks


def gan_inputs(model: Network, batch: ByName, arguments: ByName) -> tuple[Any, Any]:
    """Real images, and the noise that others are made of, or ``None``.

    Parameters
    ----------
    model
        The network.
    batch
        The prepared batch.
    arguments
        What else the closure was called with.

    Raises
    ------
    ConfigError
        If there are hooks.
    """
    if arguments.get("hooks", NO_HOOKS) not in (None, NO_HOOKS):
        raise ConfigError("the closure of a GAN makes two updates, so it runs no hooks of a step; write a closure")
    inputs = select_inputs(arguments.get("key_mapping") or model.__delira_backend__.calls.key_mapping(model), batch)
    return inputs["real_image_batch"], inputs.get("noise")


def gan_losses(
    losses: Mapping[str, Callable[..., Any]] | None, logits: ByName, full_like: Callable[[Any, int], Any]
) -> dict[str, Any]:
    """Every loss of every part that there are logits of, as ``<name>_<part>``.

    Parameters
    ----------
    losses
        Functions by name.
    logits
        What the discriminator says, by the names in ``GAN_PARTS``.
    full_like
        Makes an array of one number, in the shape of another.
    """
    return {
        f"{name}_{part}": call_loss(name, loss, (values, full_like(values, GAN_PARTS[part])))
        for part, values in logits.items()
        for name, loss in (losses or {}).items()
    }


def gan_optimizer(optimizers: ByName, name: str, builder: str) -> Any:
    """The optimizer of one of the two networks.

    Parameters
    ----------
    optimizers
        The trainer's optimizers by name.
    name
        ``"gen"`` or ``"discr"``.
    builder
        What builds both.

    Raises
    ------
    ConfigError
        If it is not there.
    """
    if name not in optimizers:
        raise ConfigError(
            f"a GAN is trained with the optimizers 'gen' and 'discr', but there are only {sorted(optimizers)}; pass "
            f"optim_fn={builder}, which is in delira.training"
        )
    return optimizers[name]


def gan_results(
    images: Any,
    logits: ByName,
    losses: dict[str, Any],
    metrics: Mapping[str, Callable[..., Any]] | None,
    learns: bool,
    full_like: Callable[[Any, int], Any],
) -> Results:
    """What the closure returns: metrics, losses and predictions.

    Parameters
    ----------
    images
        Those that were made.
    logits
        What the discriminator says, by part.
    losses
        Values by name.
    metrics
        Functions by name, called with targets and logits of each part.
    learns
        Whether there were updates; without any, names get the prefix ``val_``.
    full_like
        Makes an array of one number, in the shape of another.
    """
    values = {
        f"{name}_{part}": metric(*ordered(metric, logits[part], full_like(logits[part], wanted), "target first"))
        for part, wanted in GAN_PARTS.items()
        for name, metric in (metrics or {}).items()
    }
    predictions = {"fake_images": images, "discr_fake": logits["discr_fake"], "discr_real": logits["discr_real"]}
    if learns:
        return values, losses, predictions
    return validation_names(values), validation_names(losses), predictions


# ------------------------------------------------------------------ variational autoencoders


def autoencoder_closure(closure: Callable[..., Any], divergence: Callable[[ByName], Any]) -> Any:
    """A backend's default closure with one more loss, ``"kl"``; its losses are validated, too.

    Parameters
    ----------
    closure
        The default closure.
    divergence
        The loss, out of the predictions.
    """

    def add_divergence(step: Step) -> None:
        step.losses["kl"] = divergence(step.predictions)

    add_divergence.traceable = True  # type: ignore[attr-defined]

    def validation_losses(
        losses: ByName, loss_keys: ByName, key_mapping: Mapping[str, str], step: Step
    ) -> dict[str, Any]:
        """The losses of a batch that nothing is learned from."""
        keys = _loss_keys_of(losses, loss_keys, key_mapping)
        step.losses = call_losses(losses, keys, step.predictions, step.batch)
        add_divergence(step)
        return step.losses

    def with_divergence(
        model: Network,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> Results:
        """The default closure with one more loss, ``"kl"``; ``loss_keys`` and ``metric_keys`` default to the images.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of arrays.
        """
        mapping = kwargs.get("key_mapping") or model.__delira_backend__.calls.key_mapping(model)
        images = next(iter(mapping.values()))
        hooks = kwargs.get("hooks") or NO_HOOKS
        kwargs |= {
            "hooks": dataclasses.replace(hooks, criterion=(add_divergence, *hooks.criterion)),
            "key_mapping": mapping,
            "loss_keys": _loss_keys_of(losses, kwargs.get("loss_keys"), mapping),
            "metric_keys": {name: ordered(one, "pred", images, "target first") for name, one in (metrics or {}).items()}
            | dict(kwargs.get("metric_keys") or {}),
        }
        return closure(model, data_dict, optimizers, losses, metrics, fold, **kwargs)  # type: ignore[no-any-return]

    with_divergence.validation_losses = validation_losses  # type: ignore[attr-defined]
    return with_divergence


def _loss_keys_of(losses: ByName | None, loss_keys: ByName | None, key_mapping: Mapping[str, str]) -> dict[str, Any]:
    """What losses read: prediction and images, unless it is said."""
    images = next(iter(key_mapping.values()))
    return {name: loss_entries(one, "pred", images) for name, one in (losses or {}).items()} | dict(loss_keys or {})


# ------------------------------------------------------------------ outputs of several scales


def closure_over_scales(closure: Callable[..., Results]) -> Callable[..., Results]:
    """A backend's default closure with every loss of ``"pred"`` over all scales that the network returns.

    Parameters
    ----------
    closure
        The default closure.
    """

    @backend_default
    def over_scales(
        model: Network,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> Results:
        """The default closure; where the network returns coarser outputs too, a loss is the mean over the scales.

        The weights are 1, 1/2, 1/4, …, divided by their sum; what a coarser output is compared with is every second
        (fourth, …) entry.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of arrays.
        """
        hooks = kwargs.get("hooks") or NO_HOOKS
        loss_keys = kwargs.get("loss_keys") or {}

        def weigh(step: Step) -> None:
            _weigh_scales(step, losses or {}, loss_keys, model.init_kwargs["strides"])

        weigh.traceable = True  # type: ignore[attr-defined]
        kwargs["hooks"] = dataclasses.replace(hooks, criterion=(weigh, *hooks.criterion))
        return closure(model, data_dict, optimizers, losses, metrics, fold, **kwargs)

    over_scales.is_over_scales = True  # type: ignore[attr-defined]
    return over_scales


def named_scales(outputs: Sequence[Any]) -> dict[str, Any]:
    """Outputs of scales by name, ``"pred"``, ``"pred_1"`` and so on.

    Parameters
    ----------
    outputs
        The finest first.
    """
    return {f"pred_{number}" if number else "pred": output for number, output in enumerate(outputs)}


def _weigh_scales(step: Step, losses: ByName, loss_keys: ByName, strides: Sequence[tuple[int, ...]]) -> None:
    """Replace losses of the finest output by their means over all scales, of which there are several in training."""
    finest, *coarser = named_scales([(), *strides])
    coarser = [name for name in coarser if name in step.predictions]
    if not coarser:
        return
    keys = {name: loss_keys.get(name, DEFAULT_LOSS_KEYS) for name in losses}
    learned = {name: loss for name, loss in losses.items() if finest in keys[name]}
    read = {key for name in learned for key in keys[name]}
    lengths = tuple(step.predictions[finest].shape)[2:]
    whole = 2 - 0.5 ** len(coarser)  # 1 + 1/2 + 1/4 + …
    weighed = {name: step.losses[name] / whole for name in learned}
    steps = (1,) * len(lengths)
    for number, output in enumerate(coarser):
        steps = tuple(fine * stride for fine, stride in zip(steps, strides[number], strict=True))
        outputs = {**step.predictions, finest: step.predictions[output]}
        batch = {key: _coarser(value, lengths, steps) if key in read else value for key, value in step.batch.items()}
        for name, value in call_losses(learned, loss_keys, outputs, batch).items():
            weighed[name] = weighed[name] + value * (0.5 ** (number + 1) / whole)
    step.losses |= weighed


def _coarser(value: Any, lengths: tuple[int | None, ...], steps: tuple[int, ...]) -> Any:
    """Every so many entries of an array whose last axes have these lengths; others as they are."""
    own = tuple(getattr(value, "shape", ()))
    is_alike = len(own) > len(lengths) and all(
        None in (mine, theirs) or mine == theirs for mine, theirs in zip(own[-len(lengths) :], lengths, strict=True)
    )
    return value[(..., *(slice(None, None, step) for step in steps))] if is_alike else value


_Class = TypeVar("_Class", bound=type)


def described_by_base(cls: _Class) -> _Class:
    """Show the docstring of the first base below the class' own; a decorator.

    Parameters
    ----------
    cls
        The class of a backend.
    """
    docstrings = (cls.__doc__, cls.__bases__[0].__doc__)
    cls.__doc__ = "\n\n".join(inspect.cleandoc(text) for text in docstrings if text)  # none of them with python -OO
    return cls
