"""Training on streams: killed at any step it goes on with the same bits, or says why it cannot."""

import itertools
import logging
import pickle
import threading

import numpy as np
import pytest
from broken_off import Break

from delira.callbacks import ExponentialMovingAverage
from delira.data_loading import BaseDataManager, DataStream
from delira.errors import ConfigError, DataError
from delira.testing.toy import ToyExperiment, ToyNetwork, mean_squared_error
from delira.training.epoch import Feed

X = np.random.default_rng(0).normal(size=(22, 3))
Y = X @ np.ones((3, 1)) + 0.1


class Plain:
    """Shuffles with a generator that goes on from pass to pass, and can say where it stands."""

    def __init__(self, n=22):
        self.n, self.rng, self.order, self.place = n, np.random.default_rng(5), None, 0

    def __iter__(self):
        if self.order is None:
            self.order, self.place = self.rng.permutation(self.n).tolist(), 0
        while self.place < self.n:
            number = self.order[self.place]
            self.place += 1
            yield {"data": X[number], "label": Y[number]}
        self.order = None

    def state_dict(self):
        return {"rng": self.rng.bit_generator.state, "order": self.order, "at": (self.place,), 3: b"bytes"}

    def load_state_dict(self, state):
        assert state[3] == b"bytes"
        self.rng.bit_generator.state = state["rng"]
        self.order, (self.place,) = state["order"], state["at"]


class Epochs:
    """Shuffles by the number of the pass, and has no state."""

    def __init__(self):
        self.epoch, self.told, self.n_read = None, [], 0

    def set_epoch(self, epoch):
        self.epoch = epoch
        self.told.append(epoch)

    def __iter__(self):
        for number in np.random.default_rng(self.epoch).permutation(22):
            self.n_read += 1
            yield X[number], Y[number]


def hugging_face(shuffled=False):
    datasets = pytest.importorskip("datasets")
    rows = [{"data": x.tolist(), "label": y.tolist()} for x, y in zip(X, Y, strict=True)]
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset(num_shards=3)
    return stream.shuffle(seed=1, buffer_size=6) if shuffled else stream


STREAMS = {
    "plain": Plain,
    "epochs": Epochs,
    "function": lambda: lambda: zip(X, Y, strict=True),
    "hugging face": hugging_face,
    "hugging face, shuffled": lambda: hugging_face(True),
}


def trainer(folder, *callbacks, **settings):
    training = {
        "losses": {"mse": mean_squared_error}, "optimizer_params": {"lr": 0.05}, "num_epochs": 3, "verbose": False,
        "val_metrics": {"error": mean_squared_error}, "seed": 3,
    }  # fmt: skip
    params = {"fixed": {"model": {"n_features": 3, "dropout": 0.2}, "training": training | settings}}
    return ToyExperiment(params, ToyNetwork, name="stream", save_path=folder, callbacks=callbacks)


def outcome(folder):
    (run,) = (folder / "stream").iterdir()
    return (run / "fold_00" / "history.jsonl").read_text()


def train(folder, make, step=None, n_batches=None, **settings):
    """Weights and history of a run that was ended after a step, and went on in another experiment."""

    def data():
        return DataStream(make(), 4, n_batches), DataStream(make(), 5)

    def experiment(*callbacks):
        return trainer(folder, *callbacks, ExponentialMovingAverage(0.5), **settings)

    if step is not None:
        with pytest.raises(KeyboardInterrupt):
            experiment(Break(step)).run(*data())
    network = experiment().run(*data(), resume=None if step is None else "auto")
    return network.weight.tolist(), outcome(folder)


@pytest.mark.parametrize("n_batches", [None, 4])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_run_that_was_killed_goes_on_with_the_same_bits(stream, n_batches, tmp_path):
    quiet = train(tmp_path / "quiet", STREAMS[stream], n_batches=n_batches)
    per_epoch = n_batches or 6
    assert quiet[1].count("\n") == 3
    for step in (1, per_epoch - 1, per_epoch, per_epoch + 1, 2 * per_epoch + 3):
        assert train(tmp_path / str(step), STREAMS[stream], step, n_batches, save_freq_steps=1) == quiet, step
    assert train(tmp_path / "epochs", STREAMS[stream], per_epoch + 2, n_batches) == quiet


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation_steps": 2}])
@pytest.mark.parametrize("stream", ["plain", "hugging face"])
def test_torch_goes_on_too_with_averaged_weights_and_accumulation(stream, settings, tmp_path):
    pytest.importorskip("torch")
    from small_backends import build_kit

    kit, results = build_kit("torch"), []
    for step in (None, 4, 6, 7):

        def train(*callbacks, path=tmp_path / str(step)):
            average = ExponentialMovingAverage(0.5)
            run = kit.trainer(path, callbacks=[*callbacks, average], save_freq_steps=1, **settings)
            run.train(2, DataStream(STREAMS[stream](), 4), DataStream(STREAMS[stream](), 4))
            return run

        if step is not None:
            with pytest.raises(KeyboardInterrupt):
                train(Break(step))
        run = train()
        results.append((kit.read(run.module).tolist(), run.state.history))
    assert all(result == results[0] for result in results)


class EndOfEpoch:
    """Ends the process when an epoch has all its steps, before its checkpoint."""

    def at_epoch_end(self, trainer, **facts):
        raise KeyboardInterrupt


class NextEpoch:
    """Ends the process when the second epoch begins, before one of its steps."""

    def at_iter_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == 2:
            raise KeyboardInterrupt


def old_end_of_epoch(stream):
    """As it was when a place inside of an epoch that was over came into the checkpoint of the whole epoch."""
    stream._in_epoch = 0


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_run_that_was_killed_twice_around_the_end_of_an_epoch_goes_on(stream, is_old, tmp_path, monkeypatch):
    def run(*callbacks, **how):
        experiment = trainer(tmp_path, *callbacks, ExponentialMovingAverage(0.5), save_freq_steps=4)
        return experiment.run(DataStream(STREAMS[stream](), 4, 4), DataStream(STREAMS[stream](), 5), **how)

    quiet = train(tmp_path / "quiet", STREAMS[stream], n_batches=4)
    with monkeypatch.context() as patched:
        if is_old:
            patched.setattr(DataStream, "end_epoch", old_end_of_epoch)
        for callback in (EndOfEpoch(), NextEpoch(), NextEpoch()):
            with pytest.raises(KeyboardInterrupt):
                run(callback, resume="auto")
            if is_old and isinstance(callback, NextEpoch):
                break
    network = run(resume="auto")
    assert (network.weight.tolist(), outcome(tmp_path)) == quiet


# ------------------------------------------------------------------ what a stream gives


def labels(stream):
    return [np.ravel(batch["label"]).tolist() for batch in stream]


def test_batches_are_those_of_the_samples_in_their_order():
    pairs = DataStream(lambda: zip(X, np.arange(22), strict=True), 5)
    assert labels(pairs) == [[*range(start, min(start + 5, 22))] for start in range(0, 22, 5)]
    assert labels(pairs) == labels(pairs)
    assert len(labels(DataStream(lambda: zip(X, np.arange(22), strict=True), 5, drop_last=True))) == 4
    ready = DataStream([{"data": X[:3], "label": [1, 2, 3]}, {"data": X[:2], "label": [4, 5]}])
    assert labels(ready) == [[1, 2, 3], [4, 5]]
    renamed = DataStream([{"x": 1.0, "y": 2}], 1, keys={"data": "x", "label": "y"})
    assert [{key: value.tolist() for key, value in batch.items()} for batch in renamed] == [
        {"data": [1.0], "label": [2]}
    ]


def test_an_epoch_of_some_batches_goes_on_where_the_one_before_ended():
    stream = DataStream(lambda: ((0.0, number) for number in range(10)), 4, n_batches=2)
    assert [labels(stream) for _ in range(3)] == [
        [[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9], [0, 1, 2, 3]], [[4, 5, 6, 7], [8, 9]],
    ]  # fmt: skip
    assert stream.n_batches == 2


def test_a_loader_of_torch_over_what_has_no_length_is_read_to_its_end():
    data = pytest.importorskip("torch.utils.data")

    class Samples(data.IterableDataset):
        def __iter__(self):
            return iter([{"label": number} for number in range(10)])

    stream = DataStream(data.DataLoader(Samples(), batch_size=4), resume="skip")
    assert labels(stream) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_every_pass_is_told_its_number():
    stream = Epochs()
    data = DataStream(stream, 6)
    first, second = labels(data), labels(data)
    assert stream.told == [0, 1]
    assert first != second
    assert labels(data.in_order()) == first
    assert labels(data) not in (first, second)
    assert stream.told == [0, 1, 0, 2]


def test_a_place_at_the_end_of_an_epoch_is_one_at_the_beginning_of_the_next():
    first, second, third = (DataStream(Plain(), 4, n_batches=2) for _ in range(3))
    batches = iter(first)
    next(batches), next(batches)
    second.load_state_dict(first.state_dict())
    assert labels(second) == []
    third.load_state_dict(second.state_dict())
    assert labels(third) == labels(second) == labels(DataStream(Plain(), 4))[2:4]


def test_the_position_is_that_of_the_batch_that_was_given():
    stream = DataStream(Plain(), 4)
    whole = labels(DataStream(Plain(), 4))
    batches = iter(stream)
    for number in range(6):
        next(batches)
        state = pickle.loads(pickle.dumps(stream.state_dict()))
        again = DataStream(Plain(), 4)
        again.load_state_dict(state)
        assert again.state_dict() == state
        assert labels(again) == whole[number + 1 :]


def test_a_validation_leaves_a_stream_where_it_was():
    stream, whole = DataStream(Plain(), 4), labels(DataStream(Plain(), 4))
    batches = iter(stream)
    assert [np.ravel(next(batches)["label"]).tolist() for _ in range(2)] == whole[:2]
    assert labels(stream.in_order()) == whole
    assert labels(batches) == whole[2:]


class Told(Plain):
    """Keeps its place in the iterator, as loaders do, and begins at a state that was loaded."""

    def __init__(self):
        self.place, self.begins_at = 0, None

    def __iter__(self):
        places, self.begins_at = range(self.begins_at or 0, 22), None
        for number in places:
            self.place = number + 1
            yield {"label": number}
        self.place = 0

    def state_dict(self):
        return {"place": self.place if self.begins_at is None else self.begins_at}

    def load_state_dict(self, state):
        self.begins_at = state["place"]


def counted():
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"label": list(range(40))}).to_iterable_dataset(num_shards=4)


def skipped_and_taken():
    stream = counted()
    return DataStream(stream.skip(12), 4, n_batches=2), DataStream(stream.take(12), 4)


def twice(make, **how):
    stream = make()
    return DataStream(stream, 4, n_batches=2, **how), DataStream(stream, 4, **how)


def itself(make, **how):
    stream = DataStream(make(), 4, n_batches=2, **how)
    return stream, stream


TRAINED_AND_VALIDATED = {
    "skip and take": skipped_and_taken,
    "one dataset": lambda: twice(counted),
    "one dataset, skipping": lambda: twice(counted, resume="skip"),
    "one stream": lambda: itself(counted),
    "one stream of one's own": lambda: itself(Plain),
    "one loader": lambda: itself(Told),
}


@pytest.mark.parametrize("kind", TRAINED_AND_VALIDATED)
def test_a_validation_of_the_same_data_moves_no_place_to_go_on_from(kind):
    def epoch(trained, validated):
        given = labels(trained)
        states.append(pickle.loads(pickle.dumps(trained.state_dict())))
        validated_on.append(labels(validated.in_order()))
        states.append(pickle.loads(pickle.dumps(trained.state_dict())))
        return given

    states, validated_on = [], []
    streams = TRAINED_AND_VALIDATED[kind]()
    expected = [epoch(*streams) for _ in range(5)]
    assert all(one == validated_on[0] for one in validated_on)
    for place, state in enumerate(states[:8]):
        streams = TRAINED_AND_VALIDATED[kind]()
        streams[0].load_state_dict(state)
        done = place // 2 + 1
        assert [epoch(*streams) for _ in expected[done:]] == expected[done:], place


@pytest.mark.parametrize("preprocessing", [None, dict], ids=["as it is", "changed"])
def test_a_validation_that_is_broken_off_leaves_the_place_of_the_training_before_anything_is_written(preprocessing):
    """The error is still held, and with it what was being read, when the checkpoint of a signal is written."""
    stream = DataStream(Plain(), 4, n_batches=2)
    assert len(labels(stream)) == 2
    before, feed = pickle.dumps(stream.state_dict()), Feed(ToyNetwork.__delira_backend__, dict)
    feed.preprocessing = preprocessing
    try:
        with feed.opened(feed.in_order(stream, None, (0, 0, 0))) as fed:
            next(iter(fed))
            raise KeyError
    except KeyError:
        assert pickle.dumps(stream.state_dict()) == before


class Open:
    """Called like the parts of a stream of Hugging Face, and cannot be copied."""

    def __init__(self):
        self._ex_iterable, self.lock = Plain(), threading.Lock()

    def __iter__(self):
        return iter(self._ex_iterable)


def test_a_stream_that_cannot_be_copied_is_read_as_it_is():
    stream = DataStream(Open(), 4, resume="skip")
    assert stream.stream.lock
    assert labels(stream) == labels(DataStream(Plain(), 4))


def test_a_copied_stream_keeps_the_functions_of_the_user():
    class Shifted:
        by = 1

        def __call__(self, sample):
            return {"label": sample["label"] + self.by}

        def __deepcopy__(self, memo):
            raise AssertionError

    shifted = Shifted()
    stream = DataStream(counted().map(shifted), 4)
    shifted.by = 5
    assert labels(stream)[0] == labels(stream.in_order())[0] == [5, 6, 7, 8]


def test_skipping_reads_up_to_the_place_and_says_so_once(caplog):
    first = Epochs()
    stream = DataStream(first, 4)
    with caplog.at_level(logging.WARNING, "delira"):
        batches = iter(stream)
        expected = [next(batches), next(batches)]
        rest = labels(batches)
        second = Epochs()
        again = DataStream(second, 4)
        again.load_state_dict({"pass": 0, "batches": 2, "samples": 8, "in_epoch": 2, "is_over": False, "stream": None})
        assert labels(again) == rest
        labels(again)
    assert len(expected) == 2
    assert second.n_read == 44
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the Epochs keeps no position that goes with a checkpoint"
    ] * 2
    caplog.clear()
    labels(DataStream(Epochs(), 4, resume="skip"))
    assert not caplog.records


def test_a_shuffle_buffer_of_hugging_face_is_not_believed(caplog):
    with caplog.at_level(logging.WARNING, "delira"):
        labels(DataStream(hugging_face(True), 4))
    assert "keeps no position" in caplog.text
    caplog.clear()
    labels(DataStream(hugging_face(), 4))
    assert not caplog.records


class Loader:
    """Batches of a dataset, with its state, as torchdata's StatefulDataLoader makes them."""

    def __init__(self, dataset, num_workers=0):
        self.dataset, self.num_workers = dataset, num_workers

    def __iter__(self):
        samples = iter(self.dataset)
        while batch := list(itertools.islice(samples, 4)):
            yield {"label": [one["label"] for one in batch]}

    def state_dict(self):
        return self.dataset.state_dict()

    def load_state_dict(self, state):
        self.dataset.load_state_dict(state)


def interleaved():
    datasets = pytest.importorskip("datasets")
    parts = [counted().shuffle(seed=0, buffer_size=8), counted().map(lambda one: {"label": -one["label"]})]
    return datasets.interleave_datasets(parts)


def concatenated():
    datasets = pytest.importorskip("datasets")
    return datasets.concatenate_datasets([counted(), counted().shuffle(seed=0, buffer_size=8)]).skip(2)


UNSEEN_PLACES = {
    "interleaved": lambda: DataStream(interleaved(), 4, n_batches=7),
    "concatenated": lambda: DataStream(concatenated(), 4, n_batches=7),
    "loader of buffers": lambda: DataStream(Loader(counted().shuffle(seed=0, buffer_size=8)), n_batches=7),
    "loader of interleaved": lambda: DataStream(Loader(interleaved()), n_batches=7),
    "loader without workers": lambda: DataStream(Loader(counted()), n_batches=7),
}


@pytest.mark.parametrize("kind", UNSEEN_PLACES)
def test_a_place_that_is_in_no_state_of_hugging_face_is_read_up_to(kind, caplog):
    stream = UNSEEN_PLACES[kind]()
    given, states = [], []
    for _ in range(5):
        given.append(labels(stream))
        states.append(stream.state_dict())
    assert "keeps no position" in caplog.text
    for place, state in enumerate(states[:4], 1):
        again = UNSEEN_PLACES[kind]()
        again.load_state_dict(state)
        assert [labels(again) for _ in given[place:]] == given[place:]


def test_places_that_are_told_are_believed(caplog):
    datasets = pytest.importorskip("datasets")
    for stream in (datasets.interleave_datasets([counted(), counted()]), Loader(counted(), num_workers=1)):
        labels(DataStream(stream))
    assert "keeps no position" not in caplog.text


def test_a_state_that_must_be_told_the_position_is_none():
    class Mosaic(Plain):
        def state_dict(self, num_samples, from_beginning):
            raise AssertionError

    assert len(labels(DataStream(Mosaic(), 4, resume="skip"))) == len(labels(DataStream(Mosaic(), 4))) == 6
    with pytest.raises(ConfigError, match="needs state_dict and load_state_dict"):
        DataStream(Mosaic(), 4, resume="state")


def test_a_stream_that_became_shorter_is_refused():
    stream = DataStream(lambda: zip(X[:3], Y[:3], strict=True), 4, resume="skip")
    stream.load_state_dict({"pass": 0, "batches": 2, "samples": 8, "in_epoch": 2, "is_over": False, "stream": None})
    with pytest.raises(DataError, match="gave 3 of the 8 samples"):
        next(iter(stream))


def test_an_error_says_which_batch():
    def samples():
        yield X[0], Y[0]
        yield X[1], Y[1]
        raise OSError("torn")

    with pytest.raises(OSError, match="torn") as caught:
        labels(DataStream(samples, 2, resume="skip"))
    assert "while batch 2 of pass 0 of the function was read" in caught.value.__notes__


# ------------------------------------------------------------------ what is refused


def test_what_cannot_be_a_stream_is_refused():
    with pytest.raises(ConfigError, match=r"can be read only once.*pass the function that makes it"):
        DataStream(iter([1]))
    for wrong, message in [
        ({"stream": 3}, "must be iterable"),
        ({"stream": [], "batch_size": 0}, "batch_size"),
        ({"stream": [], "n_batches": 1.5}, "n_batches"),
        ({"stream": [], "resume": "seek"}, "resume must be 'state', 'skip' or None"),
        ({"stream": [], "resume": "state"}, "needs state_dict and load_state_dict, which a list does not have"),
        ({"stream": [], "drop_last": 1}, "drop_last"),
        ({"stream": [], "keys": "data"}, "keys must be"),
    ]:
        with pytest.raises(ConfigError, match=message):
            DataStream(**wrong)
    with pytest.raises(DataError, match="a pass through the list gave no batch"):
        next(iter(DataStream([], 4, n_batches=2)))


def test_a_state_that_no_checkpoint_holds_is_refused_before_the_training():
    class Odd(Plain):
        def state_dict(self):
            return {"open": [1, {"file": open}]}

    with pytest.raises(ConfigError, match=r"state_dict\(\) of the Odd\['open'\]\[1\]\['file'\] is a builtin_function"):
        next(iter(DataStream(Odd(), 4)))
    stream = DataStream(Plain(), 4)
    with pytest.raises(ConfigError, match="written with other training data than a DataStream"):
        stream.load_state_dict({"epoch": 3})


def test_folds_and_managers_of_a_stream_are_refused_with_the_cure(tmp_path):
    stream = DataStream(Plain(), 4)
    with pytest.raises(ConfigError, match=r"neither managed nor divided into folds.*ShardDataset"):
        BaseDataManager(stream)
    with pytest.raises(ConfigError, match=r"(?s)DataStream.*"):
        trainer(tmp_path).kfold(stream, num_splits=2)


def test_a_loader_of_others_is_told_its_epoch(tmp_path):
    class Loader(Plain):
        told = ()

        def state_dict(self):
            return {"place": self.place}

        def set_epoch(self, epoch):
            self.told = (*self.told, epoch)

        def __iter__(self):
            return ({key: value[None] for key, value in sample.items()} for sample in super().__iter__())

    loader = Loader()
    trainer(tmp_path).run(loader)
    assert loader.told == (0, 1, 2)
