"""What was written for TensorBoard, by its own reader."""

import pytest
from event_files import read_events

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")


def scalars(folder):
    """``{name: {step: value}}``."""
    reader = read_events(folder)
    found = {}
    for name in reader.Tags()["scalars"]:
        steps = found.setdefault(name, {})
        for event in reader.Scalars(name):
            assert event.step not in steps, f"{name} was written twice at step {event.step}"
            steps[event.step] = event.value
    return found


def texts(folder, name):
    reader = read_events(folder)
    return {event.step: event.tensor_proto.string_val[0].decode() for event in reader.Tensors(f"{name}/text_summary")}


def without_counts(record):
    return {name: value for name, value in record.items() if name not in ("epoch", "train_steps", "validation_steps")}


def assert_epochs(found, history):
    expected = {}
    for step, record in enumerate(history, 1):
        for name, value in without_counts(record).items():
            expected.setdefault(name, {})[step] = pytest.approx(value, rel=1e-6)
    assert found == expected
