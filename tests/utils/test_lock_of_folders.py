"""A folder is one training's alone, inside of a process, too."""

import json
import os
import threading

import numpy as np
import pytest
from broken_off import Interrupted

from delira.errors import FolderInUseError
from delira.utils.lock import locked


def raised_in_a_thread(work):
    errors = []

    def run():
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


def enter(folder, **options):
    with locked(folder, patience=0, **options):
        pass


def test_a_folder_is_locked_alone_once_in_a_process(tmp_path):
    inner = tmp_path / "fold_00"
    inner.mkdir()
    with locked(tmp_path), locked(tmp_path, alone=True), locked(inner, alone=True):
        enter(tmp_path)
        for work in (lambda: enter(tmp_path, alone=True), lambda: enter(inner / "..", alone=True)):
            (error,) = raised_in_a_thread(work)
            assert isinstance(error, FolderInUseError)
            assert f"in use by this process, {os.getpid()}, already" in str(error)
        assert raised_in_a_thread(lambda: enter(tmp_path)) == []
    with pytest.raises(Interrupted), locked(tmp_path, alone=True):
        raise Interrupted
    with locked(tmp_path):
        for _ in range(2):
            enter(tmp_path, alone=True)
    assert [*inner.iterdir()] == []


def test_a_second_training_in_the_same_folder_and_process_is_refused(kit, tmp_path, manager):
    expected = kit.read(kit.trainer(tmp_path / "unbroken", save_freq=1).train(2, manager()))
    folder, errors = tmp_path / "run", []

    class Second:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            if curr_epoch == 2:
                second = kit.trainer(folder, save_freq=1)  # looking is allowed
                assert second.state.epoch == 1
                errors.extend(raised_in_a_thread(lambda: second.train(3, manager())))

    trainer = kit.trainer(folder, save_freq=1, callbacks=[Second()])
    assert kit.same(kit.read(trainer.train(2, manager())), expected)
    (error,) = errors
    assert isinstance(error, FolderInUseError)
    assert trainer.train(3, manager()) is not None
    assert [json.loads(line)["epoch"] for line in (folder / "history.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert np.isfinite(kit.read(trainer.module)).all()
