"""Faults of metrics over a data set: what counts in them, and what they are told of predictions."""

from put_back import PutBack

_EVERY = "tests/honesty/test_every_metric.py"

POINTS = [
    PutBack(
        point="16",
        what="the mean of a ragged last batch counts like that of a whole one",
        file="delira/metrics/gather.py",
        old="[row if batch.weight is None else (batch.weight, *row[1:]) for batch, row in",
        new="[row for batch, row in",
        test=f"{_EVERY}::test_an_experiment_prints_the_number_of_the_whole_data_set[positive_numbers]",
    ),
    PutBack(
        point="16",
        what="a running mean looks back on all batches of the pass",
        file="delira/metrics/tree/aggregators.py",
        old="deque(maxlen=self.batch_size)",
        new="deque()",
        test=f"{_EVERY}::test_running_means_are_those_of_the_last_batches_and_the_rest_is_of_all_samples",
    ),
    PutBack(
        point="16",
        what="weights of samples do not reach scikit-learn",
        file="delira/metrics/of_arrays.py",
        old="            return float(self.score_fn(y_true=true, y_pred=pred, **{**self.kwargs, **kwargs}))",
        new='            kwargs = {**self.kwargs, **kwargs, "sample_weight": None}\n'
        "            return float(self.score_fn(y_true=true, y_pred=pred, **kwargs))",
        test=f"{_EVERY}::test_weights_of_samples_weigh_the_samples[labels]",
    ),
    PutBack(
        point="42",
        what="a pass that is continued at its end has forgotten what the loss says",
        file="delira/metrics/tree/curves.py",
        old="        super().reset(state)\n        self.known = self.known_in(state)\n",
        new="        super().reset(state)\n",
        test=f"{_EVERY}::test_a_pass_that_goes_on_from_its_state_ends_with_the_same_number[ended-ignored]",
    ),
    PutBack(
        point="42",
        what="AurocMetric in a trial ranks raw logits column by column",
        file="delira/metrics/tree/adapters.py",
        old="        function = with_known(self.function, self.known)",
        new="        function = self.function",
        test=f"{_EVERY}::test_a_trial_prints_the_number_of_the_whole_data_set[classes]",
    ),
]
