"""How a user asks for a feature: where a backend lacks it, each of these must raise a ConfigError."""

from collections.abc import Callable
from typing import Any

from delira.callbacks import ExponentialMovingAverage
from delira.errors import ConfigError
from delira.io import export
from delira.models import load_named_weights, named_weights
from delira.testing.spec.bench import Bench


def _train(**settings: Any) -> Callable[[Bench], None]:
    def ask(bench: Bench) -> None:
        bench.trained(**settings)

    return ask


def _every(*asks: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """Raises if each of these does."""

    def ask(bench: Bench) -> None:
        for each in asks[1:]:
            try:
                each(bench)
            except ConfigError:
                continue
            return
        asks[0](bench)

    return ask


def _average(bench: Bench) -> None:
    bench.trained(callbacks=[ExponentialMovingAverage(0.9)])


def _rollback(bench: Bench) -> None:
    bench.trainer(nonfinite="rollback").scale_rates(0.5)


def _named_weights(bench: Bench) -> None:
    network = bench.linear()
    load_named_weights(network, named_weights(network))


def _export(bench: Bench) -> None:
    for suffix in bench.tested.exports or (".pt2", ".onnx", ".zip", ""):
        export(bench.linear(), bench.folder / f"exported{suffix}", bench.arrays())


#: feature -> what asks for it
REFUSALS: dict[str, Callable[[Bench], None]] = {
    "gradients": _train(optimizer_cls=object, optimizer_params={"lr": 0.1}),
    "schedules": _train(lr_scheduler_cls=object, lr_scheduler_params={}),
    "accumulation": _train(gradient_accumulation_steps=2),
    "clipping": _every(_train(gradient_clip_norm=1.0), _train(gradient_clip_value=1.0)),
    "skip_nonfinite": _train(nonfinite="skip"),
    "rollback": _rollback,
    "micro_batches": _train(micro_batches=2),
    "mixed_precision": _train(mixed_precision="bf16"),
    "average": _average,
    "compiled": _every(_train(compiled=True), _train(jit_compile=True)),
    "named_weights": _named_weights,
    "export": _export,
}
