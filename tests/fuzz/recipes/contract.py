"""What backends are written with: networks, losses, metrics and hooks of a step, against loops by hand."""

from types import ModuleType

import numpy as np
from fuzz_cases import Entry
from fuzz_values import NAN, NOT_A_MAPPING, NOT_A_TEXT, NOT_CALLABLE, STRANGE, Fresh

from delira.contract import ExportRole, Step, StepHooks, StepRole, mark, needs_losses, run_hooks, tell_marks
from delira.contract.backend import PLAIN, place_of
from delira.testing import ToyBackend, ToyNetwork

NO_DICTS = [*(value for value in NOT_A_MAPPING if value != "x"), None, "xy", np.zeros(2)]
PREDICTION, LABEL = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 1.0])
PREDICTIONS, BATCH = {"pred": PREDICTION, "aux": PREDICTION * 2}, {"label": LABEL, "data": LABEL + 1}


def squared(y_pred, y_true):
    """A loss whose order counts, so that swapped arguments are seen."""
    return float(np.mean((y_pred - y_true) ** 2 + y_pred))


def share_above(y_true, y_pred):
    """A metric, target first."""
    return float(np.mean(y_pred > y_true) + y_true.sum())


def backwards(y_true, y_pred):
    """The loss with its arguments the other way round: their names tell."""
    return squared(y_pred, y_true)


def hand_loss(arguments):
    """The loss of every name, of the entries that are read."""
    given = {**arguments["batch"], **arguments["predictions"]}
    keys = arguments["loss_keys"]
    return {name: squared(*(given[key] for key in keys.get(name, ("pred", "label")))) for name in arguments["losses"]}


def hand_metric(arguments):
    """The metric of every name, of the entries that are read."""
    given = {**arguments["predictions"], **arguments["batch"]}
    keys = arguments["metric_keys"]
    return {
        name: share_above(*(given[key] for key in keys.get(name, ("label", "pred")))) for name in arguments["metrics"]
    }


def called(name, function, hand, own):
    """The entry of ``call_losses`` or of ``call_metrics``."""
    several = name.removeprefix("call_")
    kind = {"losses": "loss", "metrics": "metric"}[several]
    return Entry(
        name=f"delira.contract.{name}",
        good=lambda folder: {several: {"a": function}, f"{kind}_keys": {}, "predictions": PREDICTIONS, "batch": BATCH},
        expected=hand,
        right={
            several: [{}, {"a": function, "b": function}, *own],
            f"{kind}_keys": [{"a": ("aux", "label")}, {"a": ("pred", "data")}, {"a": ["label", "pred"]}],
            "batch": [{"label": LABEL + 1, "x": "text"}, {"label": LABEL, "pred": PREDICTION}],
        },
        wrong={
            several: [*NO_DICTS, {"a": 5}, {"a": "mse"}, {"a": None}],
            f"{kind}_keys": [*NO_DICTS, {"a": ("nonsense", "label")}],
            "predictions": [*NO_DICTS, {}, {"prd": PREDICTION}],
            "batch": [*NO_DICTS, {}, {"lable": LABEL}],
        },
        own=[f"{several}.a"],
        says={
            several: [f"the {kind} 'a'"],
            f"{kind}_keys": ["nonsense"],
            "predictions": ["source", "'pred'"],
            "batch": ["source", "'label'"],
        },
    )


def hooked(hooks, folder):
    """Whether a compiled step may contain the hooks, and who may not be there."""
    return hooks.traceable, hooks.untraceable


def hand_hooked(arguments):
    every = [hook for hooks in arguments.values() for hook in hooks]
    names = [hook.__name__ for hook in every if not getattr(hook, "traceable", False)]
    return not names, names


def traced(step):
    """A hook that a compiled step may contain."""


traced.traceable = True


def double(step):
    """A hook that changes what the step goes on with."""
    step.predictions = step.predictions * 2


def add_three(step):
    step.predictions = step.predictions + 3


def after_hooks(hooks):
    """The prediction after hooks, one after the other."""
    step = Step(None, {}, 5)
    run_hooks(hooks, step)
    return step.predictions


def hand_after(arguments):
    value = 5
    for hook in arguments["hooks"]:
        value = {double: value * 2, add_three: value + 3}[hook]
    return value


def heard(part):
    """What a listener is told of one mark."""
    told = []
    tell_marks(told.append)
    try:
        mark(part)
    finally:
        tell_marks(None)
    mark("nobody listens")
    return told


def told_once(listener):
    """How often somebody is told of a mark between two others."""
    try:
        tell_marks(listener)
        mark("forward")
    finally:
        tell_marks(None)
    return 1 if listener is None else len(listener.told)


class Listener:
    """Writes down what it is told."""

    def __init__(self, *before):
        self.told = list(before)

    def __call__(self, part):
        self.told.append(part)


def speak(verb, *arguments):
    """A verb as the plain case of a role has it, where a backend writes none of its own."""
    role, _, name = place_of(verb).partition(".")
    plain = next(one for one in PLAIN if one.role == role)
    given = getattr(plain, name)(getattr(ToyBackend(), role), *arguments)
    return list(given) if isinstance(given, frozenset) else given


def a_module(name, *own, **imported):
    """A module of somebody's backend, with classes of its own, each on top of another, and what it imports."""
    module = ModuleType(name)
    for base in own:
        setattr(module, f"My{base.__name__}", type(f"My{base.__name__}", (base,), {"__module__": name}))
    vars(module).update(imported)
    return module


STEP = a_module("mine.step", StepRole, Listener, StepRole=StepRole, LIMIT=5)
EXPORT = a_module("mine.export", ExportRole, theirs=STEP.MyStepRole, mark=mark)


class Plus(ToyNetwork):
    """A network that adds a number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def __call__(self, x):
        return x + self.number


#: verbs that a backend may do without, and what they are asked for
REFUSED_VERBS = [
    ("threads", 2),
    ("build_schedules", {}, None, {}),
    ("scale_rates", {}, 0.5),
    ("averaged", None),
    ("renew_statistics", None, ()),
    ("export", None, "x", {}),
    ("named_weights", None),
    ("load_named_weights", None, {}),
    ("layers", None),
    ("copy_optimizer", None, None, None),
    ("differentiate", None, None, None),
    ("no_network",),
    ("no_optimizer",),
    ("move", None, {}, None, "float16"),
]
#: verbs with an answer of their own, and the answer
ANSWERED_VERBS = [
    (("thread_count",), None),
    (("nonfinite", {"a": np.array([1.0, NAN]), "b": np.ones(2), "c": np.array([np.inf])}), ["a", "c"]),
    (("nonfinite", {"a": np.full(2, 1e308)}), []),
    (("nonfinite", {}), []),
    (("is_out_of_memory", MemoryError()), True),
    (("is_out_of_memory", ValueError()), False),
    (("device_memory", None), None),
    (("count_left_out", {}), 0),
    (("learning_rates", {}), {}),
    (("set_rates", {}, 0.5), None),
    (("zero_loss", None), 0.0),
    (("statistics_names", None), []),
    (("forward", Plus(1), {"x": 2}), 3),
    (("snapshot", {"a": [1, 2]}), {"a": [1, 2]}),
]

ENTRIES = [
    called("call_losses", squared, hand_loss, [{"a": backwards}]),
    called(
        "call_metrics", share_above, hand_metric, [{"a": lambda prediction, target: share_above(target, prediction)}]
    ),
    Entry(
        name="delira.contract.look_up",
        good=lambda folder: {"*": ["loss", "a", ("pred", "label"), {"pred": 1}, {"label": 2, "pred": 3}]},
        expected=lambda arguments: [
            next(source[key] for source in arguments["*"][3:] if key in source) for key in arguments["*"][2]
        ],
        right={"*2": [(), ("label",), ["label", "pred", "label"]], "*3": [{}, {"label": 7}], "*1": ["b", 5]},
        wrong={
            "*2": [("prd", "label"), ["label", ""], (5,), (None,)],
            "*3": [5, NAN, STRANGE, None, True],
            "*4": [{}, {"lable": 2}, 5, None, STRANGE],
        },
        says={"*2": ["'prd'", "''", "reads 5", "reads None"], "*3": ["source"], "*4": ["'label'", "source"]},
        free={"kind": "only named in the message", "name": "only named in the message"},
    ),
    Entry(
        name="delira.contract.select_inputs",
        good=lambda folder: {"key_mapping": {"x": "data", "y": "label"}, "batch": {"data": 1, "label": 2, "z": 3}},
        expected=lambda arguments: {name: arguments["batch"][key] for name, key in arguments["key_mapping"].items()},
        right={"key_mapping": [{}, {"x": "z"}, {"x": "data", "y": "data"}], "batch": [{"label": 5, "data": None}]},
        wrong={
            "key_mapping": [*NO_DICTS, {"x": "dta"}, {"x": 5}],
            "batch": [*NO_DICTS, {}, {"data": 1}],
        },
    ),
    Entry(
        name="delira.contract.named_outputs",
        good=lambda folder: {"network": ToyNetwork(), "predictions": {"pred": 1}},
        expected=lambda arguments: arguments["predictions"],
        right={"predictions": [{}, {"a": {"b": 1}}]},
        wrong={"predictions": NO_DICTS},
        says={"predictions": ["ToyNetwork returned"]},
        free={"network": "only named in the message"},
    ),
    Entry(
        name="delira.contract.validation_names",
        good=lambda folder: {"values": {"loss": 1, "mae": 2}},
        expected=lambda arguments: dict(
            zip(["val_" + name for name in arguments["values"]], arguments["values"].values(), strict=True)
        ),
        right={"values": [{}, {"a": 1.5}]},
        wrong={"values": NO_DICTS},
    ),
    Entry(
        name="delira.contract.default_optimizer",
        good=lambda folder: {"optimizers": {"default": STRANGE, "other": 5}},
        expected=lambda arguments: STRANGE,
        right={"optimizers": [{"default": STRANGE}]},
        wrong={"optimizers": [*NO_DICTS, {}, {"gen": STRANGE}, {"Default": STRANGE}]},
        says={"optimizers": ["'default'"]},
    ),
    Entry(
        name="delira.contract.Step",
        good=lambda folder: {"network": 5, "batch": {}},
        use=lambda made, folder: (made.network, made.losses),
        expected=lambda arguments: (arguments["network"], {}),
        right={"network": [1, None, "x", 2.5]},
        free=dict.fromkeys(
            ["batch", "predictions", "losses", "backward_arguments", "gradients", "call"], "hooks and closures set it"
        ),
    ),
    Entry(
        name="delira.contract.StepHooks",
        good=lambda folder: {"sample": (traced,), "forward": (double,)},
        use=hooked,
        expected=hand_hooked,
        right={name: [(), (traced,), [double, add_three]] for name in ("sample", "forward", "criterion", "backward")},
        wrong={
            name: [*(value for value in NOT_CALLABLE if value != []), double, (5,), ("x", double), None]
            for name in ("sample", "forward", "criterion", "backward")
        },
    ),
    Entry(
        name="delira.contract.run_hooks",
        good=lambda folder: {"hooks": (double, add_three)},
        make=after_hooks,
        expected=hand_after,
        right={"hooks": [(), (add_three, double), [double, double, add_three], StepHooks(sample=(double,)).sample]},
        free={"step": "what the hooks make of it is theirs"},
    ),
    Entry(
        name="delira.contract.run_hooks#own",
        good=lambda folder: {"hooks": (), "step": Step(None, {})},
        make=lambda hooks, step: after_hooks([hooks] if callable(hooks) else hooks),
        own=["hooks"],
        free={"step": "what the hooks make of it is theirs"},
    ),
    Entry(
        name="delira.contract.mark",
        good=lambda folder: {"part": "forward"},
        make=heard,
        expected=lambda arguments: [arguments["part"]],
        right={"part": ["backward", "update"]},
        wrong={"part": [*NOT_A_TEXT, "forwards", "", "Forward", None]},
    ),
    Entry(
        name="delira.contract.tell_marks",
        good=lambda folder: {"listener": Listener()},
        make=told_once,
        expected=lambda arguments: 1,
        right={"listener": [None, Fresh("Listener()", Listener)]},
        wrong={"listener": NOT_CALLABLE},
        own=["listener"],
    ),
    Entry(
        name="delira.contract.backend_default",
        good=lambda folder: {"function": lambda: 5},
        use=lambda function, folder: (function(), function.is_backend_default),
        expected=lambda arguments: (5, True),
        wrong={"function": [*NOT_CALLABLE, None, staticmethod(double), classmethod(double), len]},
    ),
    Entry(
        name="delira.contract.needs_losses",
        good=lambda folder: {"example": "{'mse': torch.nn.MSELoss()}"},
        use=lambda decorator, folder: decorator(lambda: 5).needs_losses,
        expected=lambda arguments: arguments["example"],
        right={"example": ["{'a': f}"]},
        wrong={"example": [*NOT_A_TEXT, "", None]},
    ),
    Entry(
        name="delira.contract.needs_losses#function",
        good=lambda folder: {"function": lambda: 5},
        make=lambda function: needs_losses("{'a': f}")(function).needs_losses,
        expected=lambda arguments: "{'a': f}",
        wrong={"function": [*NOT_CALLABLE, None, staticmethod(double), classmethod(double)]},
        free={"example": "above"},
    ),
    *(
        Entry(
            name=f"delira.contract.roles_in#{number}",
            good=lambda folder, modules=modules: {"*": modules},
            expected=lambda arguments, found=found: found,
        )
        for number, (modules, found) in enumerate(
            [
                ((), ()),
                ((STEP,), (STEP.MyStepRole,)),
                ((STEP, EXPORT), (STEP.MyStepRole, EXPORT.MyExportRole)),
                ((EXPORT, STEP), (EXPORT.MyExportRole, STEP.MyStepRole)),
                ((a_module("mine.none", StepRole=StepRole), EXPORT), (EXPORT.MyExportRole,)),
            ]
        )
    ),
    Entry(
        name="delira.contract.Backend",
        good=lambda folder: {"*": [()]},
        make=lambda asked: speak(*asked),
        wrong={"*0": REFUSED_VERBS},
        says={"*0": ["'toy'"]},
    ),
    *(
        Entry(
            name=f"delira.contract.Backend#{number}",
            good=lambda folder, asked=asked: {"*": asked},
            make=speak,
            expected=lambda arguments, answer=answer: answer,
        )
        for number, (asked, answer) in enumerate(ANSWERED_VERBS)
    ),
]
