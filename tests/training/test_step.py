"""The step is bound once, and again when what it is bound to changes."""

import pytest


def test_another_closure_with_other_arguments_is_called_from_then_on(room, tmp_path, manager):
    trainer = room.trainer(tmp_path)
    trainer.train(1, manager())

    def closure(model, data_dict, optimizers, losses, iter_num):
        loss, pred = room.step(model, data_dict, optimizers, losses)
        return {"number": iter_num}, {"mse": loss}, {"pred": pred}

    trainer.closure_fn = closure
    trainer.train(2, manager())
    assert trainer.state.history[-1]["number"] == pytest.approx(0.8)  # the steps 0, 1, 2 of 4, 4 and 2 samples


def test_a_step_is_bound_once_for_all_epochs(room, tmp_path, manager, monkeypatch):
    bound, bind = [], room.backend.step.bind
    monkeypatch.setattr(room.backend.step, "bind", lambda *given: bound.append(given) or bind(*given))
    trainer = room.trainer(tmp_path)
    trainer.train(3, manager())
    assert len(bound) == 1
    trainer.fold = 1
    assert trainer.step.bound is not None
    assert len(bound) == 2
