"""Faults of the losses of an epoch, found by computing every loss of the frameworks by hand."""

from put_back import PutBack

_WEIGHTS = "tests/honesty/test_loss_weights.py"

POINTS = [
    PutBack(
        point="15",
        what="a trial hands the second prediction to the target of a loss of three arguments",
        file="delira/contract/calls.py",
        old="            n_before = min(position, len(predictions))\n",
        new="            pass\n",
        test="tests/honesty/test_every_loss.py::test_losses_of_pytorch_are_those_of_the_data_set[GaussianNLLLoss]",
    ),
    PutBack(
        point="16",
        what="the weights of a loss in TorchScript are not known",
        file="delira/metrics/tree/criteria.py",
        old="    if (kept := _of_torchscript(loss)) is not None:\n",
        new="    if (kept := None) is not None:\n",
        test="tests/honesty/test_every_loss.py::"
        "test_losses_of_pytorch_are_those_of_the_data_set[CrossEntropyLoss in TorchScript]",
    ),
    PutBack(
        point="16",
        what="what a compiled loss leaves out counts",
        file="delira/metrics/tree/criteria.py",
        old="        if inside is not None:\n            loss = inside\n",
        new="        if inside is not None:\n            return None, settings\n",
        test=f"{_WEIGHTS}::test_compiled_losses_count_what_they_are_made_of_counts[module]",
    ),
    PutBack(
        point="16",
        what="the parts of a batch count as their samples, whatever the loss counts",
        file="delira/training/step.py",
        old="shares, weights), run",
        new="shares), run",
        test=f"{_WEIGHTS}::test_the_loss_of_batches_in_parts_is_that_of_the_whole_data_set[7-weights and ignored]",
    ),
    PutBack(
        point="17",
        what="a compiled prediction of Keras loses its mask, which the training counts",
        file="delira/backends/tensorflow/calls.py",
        old="            leaf._keras_mask = mask\n",
        new="            pass\n",
        test="tests/honesty/test_keras_evaluate.py::"
        "test_an_experiment_leaves_out_what_a_mask_leaves_out_as_keras_does[settings0]",
    ),
]
