"""The parts of a trainer, built of what they need, and of no trainer."""

import functools

from delira.settings.config import read_settings
from delira.training.epoch import Feed, RunningEpoch
from delira.training.evaluation import AveragedWeights, Evaluator
from delira.training.objective import Events, Objective
from delira.training.predictor import Evaluation
from delira.training.run import Run, TrainingPlan
from delira.training.saving import PhaseTimes
from delira.training.step import TrainingStep

#: what callbacks of the events ``at_*`` get in place of a trainer
SHOWN = object()


def plan_of(train_data=None, val_data=None, **changes):
    given = {"num_epochs": 2, "val_score_key": None, "val_score_mode": "lowest", "reduce_mode": "mean", **changes}
    return TrainingPlan(train_data=train_data, val_data=val_data, **given)


class Parts:
    """A run with its network, and every part that works on it."""

    def __init__(self, kit, *callbacks, network=None, **settings):
        backend, network = kit.backend, kit.build() if network is None else network
        config = read_settings({"losses": {"mse": kit.loss}, **settings})
        self.run = run = Run(config, backend, callbacks=callbacks)
        self.objective = objective = Objective()
        objective.run, run.network, run.key_mapping = run, network, backend.calls.key_mapping(network)
        run.devices = devices = backend.devices.resolve((), "cpu")
        params = kit.settings["optimizer_params"]
        run.optimizers = backend.optimizers.build(network, None, kit.optimizer_cls, params, config.update)
        prepare, run.closure = objective.methods_of(network)
        prepare = functools.partial(prepare, input_device=devices.input, output_device=devices.output)
        self.feed = Feed(backend, prepare)
        self.events = objective.events = Events(run, objective, SHOWN)
        times = PhaseTimes(None, lambda: None)
        self.step = objective.step = TrainingStep(run, self.events, objective, self.feed, times, self.read)
        self.averages = AveragedWeights(run, self.feed, self.step, self.forward, SHOWN)
        self.passes = []
        self.evaluator = Evaluator(objective, self.averages, self.evaluate)
        run.hook_state = objective.make_state(SHOWN)
        self.events.begin()
        self.step.bind_hooks()

    def read(self, metrics, predictions, batch):
        """What metrics over the epoch read, on the host."""
        to_numpy = self.run.backend.arrays.to_numpy
        return to_numpy(dict(predictions)), to_numpy(dict(batch))

    def forward(self, prepared):
        """The predictions of a prepared batch."""
        return self.run.network(prepared["data"])

    def evaluate(self, data, *, watcher, **how):
        """Stands for a predictor's pass: every batch goes through the watcher."""
        self.passes.append(how)
        for batch in data:
            prepared = watcher.before(self.feed.prepare(batch), batch)
            watcher.after(self.forward(prepared), prepared, len(batch["data"]))
            if watcher.is_enough:
                break
        return Evaluation({}, {}, {})

    def running(self):
        """What takes the values of an epoch that begins now."""
        return RunningEpoch.of(self.run, None)

    def train_on(self, *batches, running=None):
        """Steps on some batches, of an epoch that begins now."""
        running = running or self.running()
        with self.events.learning():
            for number, batch in enumerate(batches, 1):
                self.step.train_on(batch, None, number == len(batches), running)
        return running
