"""Labels that are not certain."""

import numpy as np
from mixing_batches import LABELS, a_step, one_hot, sampled

from delira.state import Y_TRUE
from delira.training.callbacks import (
    LabelSmoothingRegularisation,
)


def test_smooth_labels_are_those_of_the_paper(convert):
    for classes, given in ((3, LABELS), (-1, one_hot(LABELS))):
        callback = LabelSmoothingRegularisation(0.3, classes)
        state = sampled(callback, None, convert(given))
        np.testing.assert_allclose(state[Y_TRUE], 0.7 * one_hot(LABELS) + 0.1, rtol=1e-6)
        state = a_step(callback, None, convert(given))
        callback.on_sample_validation(state)
        np.testing.assert_array_equal(state[Y_TRUE], one_hot(LABELS))


def test_smooth_labels_of_pixels_have_the_framework_s_axis_of_classes(framework, convert):
    labels = np.random.default_rng(0).integers(0, 3, (4, 5, 6))
    found = np.asarray(sampled(LabelSmoothingRegularisation(0.3, 3), None, convert(labels))[Y_TRUE])
    expected = 0.7 * one_hot(labels) + 0.1
    np.testing.assert_allclose(found, np.moveaxis(expected, -1, 1) if framework == "torch" else expected, rtol=1e-6)


def test_the_label_of_an_experiment_s_batch_is_found_among_others(convert):
    names = convert(np.arange(8))
    state = sampled(LabelSmoothingRegularisation(0.0, 3), None, {"label": convert(LABELS), "number": names})
    np.testing.assert_array_equal(state[Y_TRUE]["label"], one_hot(LABELS))
    assert state[Y_TRUE]["number"] is names
