"""The state of a trial: what stays in it, and that no graph does."""

import copy
import pickle
import subprocess
import sys
import weakref

from kits import BACKENDS, TORCH, WEIGHT, linear_trial, quiet

from delira import state as keys
from delira.callbacks.decorators import (
    on_criterion,
    on_end_epoch,
    on_sample,
    on_start_training,
    on_start_validation,
    on_step_training,
)
from delira.metrics import lambda_metric, mean
from delira.state import EPOCH, LOSS, Y_PRED, Y_TRUE, state_key

KL = state_key("kl_of_asks")


@TORCH
def test_507_no_graph_is_kept_over_the_steps(kit, line):
    net, graphs, alive, kept = kit.linear(WEIGHT), [], [], []

    @mean
    def keep(state):
        kept.extend((state[Y_PRED], state[LOSS], state[KL]))
        return 0.0

    @on_criterion
    def note(state):
        state[KL] = 2 * state[LOSS]
        graphs.extend(map(weakref.ref, (state[Y_PRED], state[LOSS], state[KL])))

    @on_step_training
    def count(state):
        alive.append(sum(graph() is not None for graph in graphs))

    whole = lambda_metric("whole", on_epoch=True)(lambda y_pred, y_true: float(y_pred.sum()))
    metrics = ["loss", "mse", "mae", "r2", Y_PRED, LOSS, KL, whole, keep]
    quiet(net, kit.sgd(net, 0.05), kit.mse, metrics, [note, count]).with_train_data(*line).run(1)
    assert len(graphs) == len(kept) == 36
    assert alive == alive[:1] * 12, "values are kept with their graphs"


@BACKENDS
def test_what_a_callback_keeps_in_the_state_stays(kit, line):
    """There is one state: nothing is copied over it between passes and calls (4.3)."""
    note, seen = state_key("note"), []

    @on_start_training
    def write(state):
        state.setdefault(note, []).append(state[EPOCH])

    @on_start_validation
    @on_end_epoch
    def read(state):
        seen.append(list(state[note]))

    trial = linear_trial(kit, write, read).with_train_data(*line, 6).with_val_data(*line, 6)
    trial.run(1)
    trial.run(2)
    trial.evaluate()
    assert seen == [[0]] * 2 + [[0, 1]] * 4
    assert trial.state[note] == [0, 1]


def test_390_keys_are_equal_where_they_were_stored_and_read_again():
    for one in (pickle.loads(pickle.dumps(KL)), copy.deepcopy(KL), str(KL)):
        assert one == KL
        assert hash(one) == hash(KL)
        assert {one: 1}[KL] == 1
    program = "from delira.state import LOSS, state_key; print(state_key('kl_of_asks'), LOSS, state_key('loss'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.split() == [KL, LOSS, "loss_1"]


NOTE = state_key("note_of_the_third_look")


@TORCH
def test_a_new_key_keeps_no_graph_though_another_one_went(kit, line):
    seen, notes = [], (NOTE, state_key("other_note_of_the_third_look"))

    @on_sample
    def take(state):
        for key in notes:
            state.pop(key, None)

    @on_step_training
    def look(state):
        seen.append(state[notes[state[keys.BATCH]]].requires_grad)

    def note(state):
        loss = state[notes[state[keys.BATCH]]] = kit.mse(state[Y_PRED], state[Y_TRUE])
        return loss

    linear_trial(kit, take, look, criterion=note).with_train_data(*line, 6).run(2)
    assert seen == [False] * 4
