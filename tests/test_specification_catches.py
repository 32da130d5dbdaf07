"""The specification finds faults: backends with one fault each, and the checks that must notice it."""

import contextlib
import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from spec_backends.toy import HalveTheRate, Linear, ToyUnderTest

from delira.contract import NO_HOOKS, UpdateConfig
from delira.contract.backend import PLAIN, place_of
from delira.testing import ToyBackend, ToyExperiment, ToySGD, ToyTrainer, check_backend, spec_checks
from delira.testing.spec import BackendUnderTest
from delira.testing.toy.backend import BACKEND

#: the toy's roles by name
ROLES = {role.role: role for role in (*PLAIN, *ToyBackend.roles)}


def plain(verb: str) -> Callable[..., Any]:
    """A verb as the toy has it."""
    role, _, name = place_of(verb).partition(".")
    return getattr(ROLES[role], name)


class Faulty:
    """Builds backends that differ from the toy backend in one thing."""

    def __init__(self) -> None:
        self.backend_changes: dict[str, Any] = {}
        self.network_changes: dict[str, Any] = {}
        self.kit_changes: dict[str, Any] = {}
        self.trainer_changes: dict[str, Any] = {}
        self.experiment_changes: dict[str, Any] = {}
        self.optimizer: type = ToySGD

    def build(self) -> BackendUnderTest:
        shared = {
            "generator": property(lambda self: BACKEND.generator, lambda self, new: vars(BACKEND).update(generator=new))
        }
        changes: dict[str, dict[str, Any]] = defaultdict(dict)
        for verb, change in self.backend_changes.items():
            role, _, name = place_of(verb).partition(".")
            changes[role][name] = change
        roles = [type(f"Faulty_{name}", (ROLES[name],), found) for name, found in changes.items()]
        backend = type("FaultyBackend", (ToyBackend,), {**shared, "roles": (*ToyBackend.roles, *roles)})()
        trainer = type("FaultyTrainer", (ToyTrainer,), {"backend": backend, **self.trainer_changes})
        network = type("Linear", (Linear,), {"__delira_backend__": backend, **self.network_changes})
        network.__module__, network.__qualname__ = Linear.__module__, "Linear"
        optimizer = self.optimizer
        settings = {
            "sgd": lambda self, lr, momentum=0.0: {
                "optimizer_cls": optimizer, "optimizer_params": {"lr": lr, "momentum": momentum},
            }
        }  # fmt: skip
        experiment = type("FaultyExperiment", (ToyExperiment,), {"trainer_cls": trainer, **self.experiment_changes})
        more = {"trainer_cls": trainer, "experiment_cls": experiment, "Linear": network, **settings}
        return type("FaultyBackend", (ToyUnderTest,), {**more, **self.kit_changes})()


FAULTS: dict[str, tuple[Callable[[Faulty], None], str]] = {}


def fault(*checks: str) -> Callable:
    """Register a fault, with the checks of which each must notice it."""

    def register(function: Callable[[Faulty], None]) -> Callable[[Faulty], None]:
        FAULTS[function.__name__] = (function, checks)
        return function

    return register


# ---- the faults


def default_closure(change: Callable[..., Any]) -> Any:
    """The toy backend's closure, called through ``change(closure, model, data_dict, optimizers, **kwargs)``."""
    original = Linear.closure

    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        return change(original, model, data_dict, optimizers, losses=losses, metrics=metrics, fold=fold, **kwargs)

    closure.is_backend_default = True
    return staticmethod(closure)


@fault("learning-has_momentum")
def forgets_momentum(faulty):
    class Plain(ToySGD):
        def apply(self, gradient):
            self.weight -= self.lr * gradient

    faulty.optimizer = Plain


@fault("learning-is_gradient_descent", "learning-lowers_the_loss")
def never_learns(faulty):
    class Lazy(ToySGD):
        def apply(self, gradient):
            pass

    faulty.optimizer = Lazy


@fault("learning-is_gradient_descent")
def sums_over_samples(faulty):
    class Sums(ToySGD):
        def apply(self, gradient):
            super().apply(4 * gradient)

    faulty.optimizer = Sums


@fault("resume-after_an_epoch", "resume-inside_an_epoch", "checkpoints-gives_a_state_back")
def drops_the_optimizer_state(faulty):
    class Forgets(ToySGD):
        def load_state_dict(self, state):
            self.lr = float(state["lr"])

    faulty.optimizer = Forgets


@fault("resume-with_a_schedule")
def forgets_the_learning_rate(faulty):
    class Forgets(ToySGD):
        def load_state_dict(self, state):
            self.velocity[...] = state["velocity"]

    faulty.optimizer = Forgets


@fault("checkpoints-copies_a_state")
def state_trees_and_snapshots_share_memory(faulty):
    def state_tree(self, network, optimizers):
        states = {name: optimizer.state_dict() for name, optimizer in optimizers.items()}
        return {"model": {"weight": network.weight}, "optimizer": states}

    faulty.backend_changes |= {"state_tree": state_tree, "snapshot": lambda self, tree, previous=None: tree}


@fault("checkpoints-refuses_foreign_weights")
def takes_foreign_weights(faulty):
    def load_state_tree(self, tree, network, optimizers):
        network.weight = tree["model"]["weight"].copy()

    faulty.backend_changes["load_state_tree"] = load_state_tree


@fault("checkpoints-changes_nothing_that_it_refuses")
def changes_what_it_refuses(faulty):
    def load_state_tree(self, tree, network, optimizers):
        network.weight += 1
        plain("load_state_tree")(self, tree, network, optimizers)
        network.weight[...] = tree["model"]["weight"]

    faulty.backend_changes["load_state_tree"] = load_state_tree


@fault("evaluation-drops_nothing_in_prediction", "evaluation-learns_only_in_its_scopes")
def evaluates_in_training_mode(faulty):
    def call(self, x):
        return {"pred": x * (self.dropout == 0.0 or not self.is_training) @ self.weight}

    faulty.network_changes["__call__"] = call
    faulty.backend_changes["evaluating"] = lambda self, network: plain("training")(self, network)


@fault("evaluation-learns_only_in_its_scopes", "evaluation-gives_modes_back_after_an_error")
def keeps_the_mode(faulty):
    @contextlib.contextmanager
    def training(self, network):
        network.is_training = True
        yield

    faulty.backend_changes["training"] = training


@fault("evaluation-gives_modes_back_after_an_error")
def keeps_the_mode_after_errors(faulty):
    @contextlib.contextmanager
    def training(self, network):
        before, network.is_training = network.is_training, True
        yield
        network.is_training = before

    faulty.backend_changes["training"] = training


@fault("evaluation-predicts_without_learning")
def learns_in_prediction(faulty):
    def call(self, x):
        if not self.is_training:
            self.weight *= 0.999
        return {"pred": x @ self.weight}

    faulty.network_changes["__call__"] = call


@fault("evaluation-predicts_without_learning")
def draws_when_it_predicts(faulty):
    def forward(self, network, inputs):
        self.generator.random()
        return network(**inputs)

    faulty.backend_changes["forward"] = forward


@fault("evaluation-predicts_data_sets_as_batches")
def mixes_the_samples_of_a_batch(faulty):
    def call(self, x):
        shift = 0 if self.is_training else x.mean(axis=0)
        return {"pred": (x - shift) @ self.weight}

    faulty.network_changes["__call__"] = call


@fault("data-never_changes_a_batch")
def changes_the_batch(faulty):
    def prepare_batch(batch, input_device, output_device):
        batch["data"] = np.asarray(batch["data"], dtype=np.float32)
        return Linear.prepare_batch(batch, input_device, output_device)

    faulty.network_changes["prepare_batch"] = staticmethod(prepare_batch)


@fault("data-passes_what_is_no_number")
def refuses_texts(faulty):
    def prepare_batch(batch, input_device, output_device):
        return {name: np.asarray(value, dtype=np.float64) for name, value in batch.items()}

    faulty.network_changes["prepare_batch"] = staticmethod(prepare_batch)


@fault("data-takes_integers_as_input", "data-takes_bools_as_input")
def keeps_integers_integers(faulty):
    def prepare_batch(batch, input_device, output_device):
        prepared = Linear.prepare_batch(batch, input_device, output_device)
        if np.asarray(batch["data"]).dtype.kind in "ub":
            prepared["data"] = prepared["data"] / 255
        return prepared

    faulty.network_changes["prepare_batch"] = staticmethod(prepare_batch)


@fault("data-takes_every_floating_type")
def misreads_half_precision(faulty):
    def prepare_batch(batch, input_device, output_device):
        prepared = Linear.prepare_batch(batch, input_device, output_device)
        if np.asarray(batch["data"]).dtype == np.float16:
            prepared["data"] = prepared["data"] / 2
        return prepared

    faulty.network_changes["prepare_batch"] = staticmethod(prepare_batch)


@fault("data-prepares_as_promised")
def loses_entries(faulty):
    def prepare_batch(batch, input_device, output_device):
        prepared = Linear.prepare_batch(batch, input_device, output_device)
        return {name: prepared[name] for name in ("data", "label") if name in prepared}

    faulty.network_changes["prepare_batch"] = staticmethod(prepare_batch)


@fault("steps-hooks_change_the_batch", "steps-hooks_see_every_step")
def ignores_hooks(faulty):
    def change(closure, *args, **kwargs):
        return closure(*args, **{**kwargs, "hooks": NO_HOOKS})

    faulty.network_changes["closure"] = default_closure(change)


@fault("steps-hooks_see_every_step")
def tells_hooks_of_gradients_too_late(faulty):
    def change(closure, model, data, optimizers, *, hooks, **kwargs):
        result = closure(
            model, data, optimizers, hooks=type(hooks)(hooks.sample, hooks.forward, hooks.criterion), **kwargs
        )
        for hook in hooks.backward:
            from delira.contract import Step

            hook(Step(model, data, result[2], result[1]))
        return result

    faulty.network_changes["closure"] = default_closure(change)


@fault("steps-counts_for_closures")
def counts_from_one(faulty):
    def bind_step(self, closure, network, arguments, compiling):
        def step(batch, counters):
            return closure(network, batch, **arguments, **{name: number + 1 for name, number in counters.items()})

        return step

    faulty.backend_changes["bind_step"] = bind_step


@fault("steps-counts_for_closures")
def freezes_counters(faulty):
    def bind_step(self, closure, network, arguments, compiling):
        seen = {}

        def step(batch, counters):
            for name, number in counters.items():
                seen.setdefault(name, number)
            return closure(network, batch, **arguments, **{name: seen[name] for name in counters})

        return step

    faulty.backend_changes["bind_step"] = bind_step


@fault("steps-compiles")
def ignores_compile(faulty):
    def bind_step(self, closure, network, arguments, compiling):
        return lambda batch, counters: closure(network, batch, **arguments, **counters)

    faulty.backend_changes["bind_step"] = bind_step


def ignore_updates(self, network, builder, optimizer_cls, optimizer_params, update):
    return plain("build_optimizers")(self, network, builder, optimizer_cls, optimizer_params, UpdateConfig())


@fault("updates-accumulates", "updates-clips_the_norm", "updates-computes_in_parts", "guards-leaves_bad_batches_out")
def ignores_what_it_cannot_do(faulty):
    faulty.backend_changes["build_optimizers"] = ignore_updates
    faulty.backend_changes["concatenate"] = lambda self, trees: {"pred": np.concatenate([t["pred"] for t in trees])}


def claims(faulty, *features):
    lacks = {name: reason for name, reason in ToyUnderTest.lacks.items() if name not in features}
    faulty.kit_changes["lacks"] = lacks
    faulty.backend_changes["build_optimizers"] = ignore_updates


@fault("updates-accumulates", "updates-accumulates_by_samples", "updates-accumulates_to_the_end")
def claims_to_accumulate(faulty):
    claims(faulty, "accumulation")


@fault("updates-clips_the_norm", "updates-clips_values")
def claims_to_clip(faulty):
    claims(faulty, "clipping")


@fault("guards-leaves_bad_batches_out")
def claims_to_skip(faulty):
    claims(faulty, "skip_nonfinite")


@fault("updates-computes_in_parts", "updates-computes_in_unequal_parts")
def updates_with_every_part(faulty):
    claims(faulty, "micro_batches")
    faulty.backend_changes["concatenate"] = lambda self, trees: {"pred": np.concatenate([t["pred"] for t in trees])}


@fault("updates-leaves_frozen_weights_alone")
def claims_to_freeze(faulty):
    claims(faulty, "freezing")


@fault("updates-refuses_unknown_schedules")
def ignores_schedules(faulty):
    faulty.backend_changes["build_schedules"] = lambda self, optimizers, cls, params: []


@fault("updates-follows_a_schedule")
def ignores_the_schedule(faulty):
    faulty.kit_changes["halving"] = lambda self: {}


@fault("updates-follows_a_schedule", "updates-scales_rates")
def reports_a_wrong_rate(faulty):
    faulty.backend_changes["learning_rates"] = lambda self, optimizers: {"lr": 0.1}


@fault("updates-scales_rates", "guards-rolls_back")
def scales_no_rates(faulty):
    faulty.backend_changes["scale_rates"] = lambda self, optimizers, factor: None


@fault("seeds-draws_by_its_seed", "seeds-seeds_the_framework")
def ignores_the_seed(faulty):
    faulty.backend_changes["seed"] = lambda self, seed: setattr(self.backend, "generator", np.random.default_rng(0))


@fault("seeds-seeds_the_framework")
def seeds_with_32_bits(faulty):
    def seed(self, seed):
        self.generator = np.random.default_rng(seed >> 32)

    faulty.backend_changes["seed"] = seed


@fault("seeds-repeats_itself")
def draws_from_the_operating_system(faulty):
    def change(closure, model, data, optimizers, **kwargs):
        noise = np.random.default_rng().normal(scale=1e-9, size=model.weight.shape)
        model.weight += noise
        return closure(model, data, optimizers, **kwargs)

    faulty.network_changes["closure"] = default_closure(change)


@fault("seeds-obeys_its_threads")
def ignores_the_number_of_threads(faulty):
    faulty.backend_changes |= {"threads": lambda self, number: contextlib.nullcontext(), "thread_count": lambda self: 4}


@fault("seeds-obeys_its_threads")
def keeps_the_number_of_threads(faulty):
    @contextlib.contextmanager
    def threads(self, number):
        self.number = number or getattr(self, "number", 4)
        yield

    faulty.backend_changes |= {"threads": threads, "thread_count": lambda self: getattr(self, "number", 4)}


@fault("seeds-repeats_itself_deterministically")
def draws_anew_where_it_is_to_be_deterministic(faulty):
    @contextlib.contextmanager
    def deterministic(self):
        noise["scale"] = 1e-3
        yield
        noise["scale"] = 0.0

    class Noisy(ToySGD):
        def apply(self, gradient):
            super().apply(gradient + noise["scale"] * generator.normal(size=gradient.shape))

    noise, generator = {"scale": 0.0}, np.random.default_rng(0)
    faulty.optimizer = Noisy
    faulty.backend_changes |= {"deterministic": deterministic}


@fault("seeds-gives_generators_back", "seeds-continues_generators", "resume-with_dropout")
def forgets_its_generator(faulty):
    faulty.backend_changes["set_generator_state"] = lambda self, state: None


@fault("seeds-keeps_runs_apart", "seeds-repeats_itself")
def leaks_between_runs(faulty):
    shared = {}

    class Shares(ToySGD):
        def __init__(self, weight, lr=0.1, momentum=0.0):
            super().__init__(weight, lr, momentum)
            self.velocity = shared.setdefault(weight.shape, self.velocity)

    faulty.optimizer = Shares


@fault("seeds-keeps_networks_apart")
def shares_weights_between_networks(faulty):
    shared = {}

    def init(self, n_features=3, n_outputs=1, dropout=0.0):
        Linear.__init__(self, n_features, n_outputs, dropout)
        self.weight = shared.setdefault(n_features, self.weight)

    faulty.network_changes["__init__"] = init


@fault("learning-weights_losses_by_samples")
def averages_batches_unweighted(faulty):
    def train_single_epoch(self, *args, **kwargs):
        found = ToyTrainer._train_single_epoch(self, *args, **kwargs)
        for values in found:
            for sizes in values._sizes.values():
                sizes[:] = [1] * len(sizes)
        return found

    faulty.trainer_changes["_train_single_epoch"] = train_single_epoch


@fault("learning-validates_exactly")
def rounds_predictions(faulty):
    faulty.backend_changes["to_numpy"] = lambda self, tree: tree
    faulty.network_changes["__call__"] = lambda self, x: {"pred": x @ self.weight + (0 if self.is_training else 1e-3)}


@fault("average-averages_by_hand", "average-validates_the_average")
def averages_nothing(faulty):
    def average(self, average, network, decay):
        return {"weight": network.weight.copy()}

    faulty.backend_changes["average"] = average


@fault("average-trains_beside_the_average", "average-averages_by_hand")
def trains_on_the_average(faulty):
    def average(self, average, network, decay):
        averaged = plain("average")(self, average, network, decay)
        network.weight[...] = averaged["weight"]
        return averaged

    faulty.backend_changes["average"] = average


@fault("guards-knows_bad_weights")
def finds_no_bad_weights(faulty):
    faulty.backend_changes["nonfinite"] = lambda self, weights: []


@fault("guards-names_the_bad_step")
def hides_bad_losses(faulty):
    original = plain("read_scalars")

    def read_scalars(self, values):
        return np.nan_to_num(original(self, values))

    faulty.backend_changes["read_scalars"] = read_scalars


@fault("weights-copies_weights")
def shows_its_own_weights(faulty):
    faulty.backend_changes["named_weights"] = lambda self, network: {"weight": network.weight}


@fault("weights-names_weights_steadily")
def numbers_its_weights(faulty):
    def named_weights(self, network):
        network.number = getattr(network, "number", None) or faulty.__dict__.setdefault("count", [0])
        if not hasattr(network, "own_number"):
            network.number[0] += 1
            network.own_number = network.number[0]
        return {f"weight_{network.own_number}": network.weight.copy()}

    faulty.backend_changes["named_weights"] = named_weights


@fault("weights-refuses_other_weights")
def takes_any_weights(faulty):
    def load_named_weights(self, network, weights):
        network.weight[...] = weights.get("weight", network.weight)

    faulty.backend_changes["load_named_weights"] = load_named_weights


@fault("weights-trains_given_weights")
def trains_on_a_copy(faulty):
    def load_named_weights(self, network, weights):
        plain("load_named_weights")(self, network, weights)
        network.weight = network.weight.copy()

    faulty.backend_changes["load_named_weights"] = load_named_weights


@fault("weights-exports_what_it_predicts")
def exports_nothing(faulty):
    faulty.backend_changes["export"] = lambda self, network, path, example: None


@fault("errors-refuses_absent_gpus", "errors-refuses_unknown_devices")
def takes_any_device(faulty):
    faulty.backend_changes["devices"] = lambda self, gpu_ids, device: plain("devices")(self, (), None)


@fault("errors-refuses_losses_that_are_no_number")
def averages_losses_of_samples(faulty):
    faulty.backend_changes["read_scalars"] = lambda self, values: np.array([np.mean(value) for value in values])


@fault("checkpoints-notices_damage", "checkpoints-falls_back_from_damage")
def believes_damaged_files(faulty):
    def load_state(cls, file_name):
        return {"model": {}, "optimizer": {}, "epoch": 0, "step": 0}

    faulty.trainer_changes["load_state"] = classmethod(load_state)
    faulty.backend_changes["read_checkpoint"] = lambda self, path: copy.deepcopy({"epoch": 0, "model": {}})


@fault("checkpoints-reads_what_it_wrote", "checkpoints-holds_nothing_that_runs")
def keeps_python_objects(faulty):
    def state_tree(self, network, optimizers):
        return {**plain("state_tree")(self, network, optimizers), "class": repr(network.weight)}

    faulty.backend_changes["state_tree"] = state_tree
    faulty.backend_changes["read_checkpoint"] = lambda self, path: {
        **plain("read_checkpoint")(self, path), "class": HalveTheRate
    }  # fmt: skip


@fault("events-tells_events_in_order", "events-tells_the_end_of_a_failure")
def forgets_a_moment(faulty):
    faulty.trainer_changes["_at_epoch_begin"] = lambda self, *args, **facts: None


@fault("events-tells_the_facts")
def tells_no_score(faulty):
    def at_epoch_end(self, metrics_val, val_score_key, epoch, is_best, **facts):
        ToyTrainer._at_epoch_end(self, metrics_val, None, epoch, is_best, **facts)

    faulty.trainer_changes["_at_epoch_end"] = at_epoch_end


@fault("events-tells_the_values_of_a_step", "learning-measures_training_exactly")
def predicts_after_the_update(faulty):
    def change(closure, model, data, optimizers, **kwargs):
        metrics, losses, _ = closure(model, data, optimizers, **kwargs)
        return metrics, losses, model(data["data"])

    faulty.network_changes["closure"] = default_closure(change)


@fault("events-stops_early", "events-stops_when_told")
def goes_on(faulty):
    def at_epoch_end(self, *args, **facts):
        ToyTrainer._at_epoch_end(self, *args, **facts)
        self.state.stop_training = False

    faulty.trainer_changes["_at_epoch_end"] = at_epoch_end


@fault("experiments-begins_each_fold_anew", "experiments-repeats_cross_validations", "experiments-repeats_runs")
def trains_one_network_in_all_folds(faulty):
    networks = []

    def build_trainer(self, request, folder, checkpoint=None):
        trainer = ToyExperiment.build_trainer(self, request, folder, checkpoint)
        networks.append(trainer.module.weight)
        trainer.module.weight[...] = networks[0]
        networks[0] = trainer.module.weight
        return trainer

    faulty.experiment_changes["build_trainer"] = build_trainer


@fault("experiments-runs_and_tests")
def predicts_with_a_fresh_network(faulty):
    def test(self, network, *args, **kwargs):
        return ToyExperiment.test(self, type(network)(n_features=3), *args, **kwargs)

    faulty.experiment_changes["test"] = test


@fault("guards-knows_bad_weights")
def hides_negative_infinities(faulty):
    def nonfinite(self, weights):
        return [name for name, value in weights.items() if np.isnan(value).any() or (value == np.inf).any()]

    faulty.backend_changes["nonfinite"] = nonfinite


@fault("guards-knows_bad_weights")
def takes_large_weights_for_infinite_ones(faulty):
    def nonfinite(self, weights):
        with np.errstate(over="ignore", invalid="ignore"):
            return [name for name, value in weights.items() if not np.isfinite(value.sum())]

    faulty.backend_changes["nonfinite"] = nonfinite


@fault("errors-keeps_the_users_errors")
def wraps_errors_of_steps(faulty):
    def change(closure, *args, **kwargs):
        try:
            return closure(*args, **kwargs)
        except Exception as error:
            raise RuntimeError(str(error)) from error

    faulty.network_changes["closure"] = default_closure(change)


def ignores(name: str) -> Callable[[Faulty], None]:
    """A fault: the closure does not know of a setting."""

    def fault(faulty: Faulty) -> None:
        def change(closure, *args, **kwargs):
            return closure(*args, **{**kwargs, name: None})

        faulty.network_changes["closure"] = default_closure(change)

    return fault


for setting in ("key_mapping", "loss_keys", "metric_keys"):
    FAULTS[f"ignores {setting}"] = (ignores(setting), ("steps-reads_entries_of_other_names",))


@fault("errors-refuses_what_it_lacks")
def ignores_the_limit_of_values(faulty):
    def build_optimizers(self, network, builder, optimizer_cls, optimizer_params, update):
        update = dataclasses.replace(update, clip_value=None)
        return plain("build_optimizers")(self, network, builder, optimizer_cls, optimizer_params, update)

    faulty.backend_changes["build_optimizers"] = build_optimizers


@fault("errors-refuses_what_it_lacks")
def ignores_jit_compile(faulty):
    def bind_step(self, closure, network, arguments, compiling):
        return plain("bind_step")(self, closure, network, arguments, dataclasses.replace(compiling, jit=False))

    faulty.backend_changes["bind_step"] = bind_step


@fault("checkpoints-returns_the_best")
def predicts_with_the_weights_of_its_first_prediction(faulty):
    def call(self, x):
        if self.is_training:
            self.traced = None
        elif getattr(self, "traced", None) is None:
            self.traced = self.weight.copy()
        return {"pred": x @ (self.weight if self.is_training else self.traced)}

    faulty.network_changes["__call__"] = call


# ---- they are found


@pytest.fixture(autouse=True)
def _generator():
    before = BACKEND.generator
    yield
    BACKEND.generator = before


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_the_right_check(name):
    function, checks = FAULTS[name]
    faulty = Faulty()
    function(faulty)
    report = check_backend(faulty.build(), only=checks, raises=False)
    assert {str(outcome.check) for outcome in report.failures} == set(checks), f"{report}"


@pytest.mark.slow
def test_the_same_backend_without_a_fault_keeps_all_promises():
    check_backend(Faulty().build(), only=sorted({name for _, names in FAULTS.values() for name in names}))


def test_every_area_is_tried():
    areas = {name.partition("-")[0] for _, names in FAULTS.values() for name in names}
    assert areas == {check.area for check in spec_checks()}
