"""The log of a run: what trackers are told of it, and the messages of its numbers."""

import json

from delira.callbacks.run_log import facts_of, message_of
from delira.logging import log


def test_a_message_has_the_form_of_old():
    assert message_of("mse", 0.5, 3, 1) == {"value": {"value": 0.5, "name": "mse", "counter": 3, "env_appendix": "_01"}}


def test_trackers_are_told_model_training_and_versions_and_no_passwords(kit, tmp_path):
    trainer = kit.trainer(tmp_path, seed=5)
    told = facts_of(trainer.run, {"num_epochs": 2, "losses": {"mse": kit.loss}, "logging_kwargs": {"password": "x"}})
    assert told["seed"] == 5
    assert told["model.class"] == kit.network.__qualname__
    assert told["model.n_features"] == 3
    assert told["training.num_epochs"] == 2
    assert str(told["training.losses.mse"]).endswith(kit.loss.__qualname__)
    assert any(name.startswith("versions.") for name in told)
    assert not any("password" in name for name in told)


def test_what_a_callback_logs_is_in_the_file_of_messages(kit, tmp_path, manager):
    class Logs:
        def at_epoch_end(self, trainer, *, curr_epoch, **facts):
            log({"value": {"value": curr_epoch * 2, "name": "twice"}})

    kit.trainer(tmp_path, callbacks=[Logs()]).train(2, manager())
    lines = (tmp_path / "logs" / "messages.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [2, 4]
