"""What losses and settings say of the outputs of a network."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from delira.contract import DEFAULT_LOSS_KEYS
from delira.errors import ConfigError
from delira.metrics.scoring import predicted_key
from delira.metrics.tree.criteria import OUTPUTS, Criterion, combined, describe_criterion
from delira.metrics.tree.criteria import with_output as with_setting
from delira.utils.checks import did_you_mean

if TYPE_CHECKING:
    from delira.contract import Backend
    from delira.settings.config import TrainerConfig


def check_output(output: object) -> None:
    """Refuse a setting ``output`` that says nothing of what predictions may be.

    Raises
    ------
    ConfigError
        Naming what may be said.
    """
    if output is None:
        return
    given = output if isinstance(output, Mapping) else {"": output}
    for name, said in given.items():
        if not isinstance(name, str) or not isinstance(said, str) or said not in OUTPUTS:
            entry = f"output[{name!r}]" if isinstance(output, Mapping) else "output"
            guess = did_you_mean(said, OUTPUTS) if isinstance(said, str) else ""
            raise ConfigError(
                f"{entry} must be one of {', '.join(map(repr, OUTPUTS))}, or a dict of them by the name of a "
                f"prediction, got {said!r}{guess}"
            )


def known_output(config: "TrainerConfig", prediction: str | None, backend: "Backend | None" = None) -> Criterion:
    """Return what losses and settings say of a prediction.

    Parameters
    ----------
    config
        Settings of a trainer.
    prediction
        Name of the prediction; None: of one that nobody names.
    backend
        The verbs of the framework, which say where channels are; None: nobody says it.
    """
    losses = [
        loss for name, loss in config.losses.items() if prediction in config.loss_keys.get(name, DEFAULT_LOSS_KEYS)
    ]
    known = combined([describe_criterion(loss) for loss in losses])
    said = config.output.get(prediction or "") if isinstance(config.output, Mapping) else config.output
    known = with_setting(known, said)
    if backend is None:
        return known
    if not backend.is_differentiable and known.told_by == "values":
        known = known._replace(told_by="backend")
    return known if known.class_axis is not None else known._replace(class_axis=-1 if backend.channels_last else 1)


def known_outputs(
    config: "TrainerConfig", metrics: Mapping[str, Any], keys: Mapping[str, Sequence[str]], backend: "Backend"
) -> dict[str, tuple[str, Criterion]]:
    """Return what losses and settings say of each prediction that metrics and losses read, with the name of its target.

    Parameters
    ----------
    config, backend
        As for :func:`known_output`.
    metrics, keys
        Metrics by name, and the entries that each reads.
    """
    pairs = [(predicted_key(metric, keys[name]), keys[name]) for name, metric in metrics.items()]
    pairs += [(pair[0], pair) for name in config.losses if (pair := config.loss_keys.get(name, DEFAULT_LOSS_KEYS))]
    pairs += [(DEFAULT_LOSS_KEYS[0], DEFAULT_LOSS_KEYS)]
    found: dict[str, tuple[str, Criterion]] = {}
    for prediction, pair in pairs:
        targets = [entry for entry in pair if entry != prediction]
        if prediction is not None and len(targets) == 1 and prediction not in found:
            found[prediction] = (targets[0], known_output(config, prediction, backend))
    return found
