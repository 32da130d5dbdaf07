"""What was wrong in the order, the weight and the ways of numbers of a step: points 15 to 17, 32, 34 and 46 to 48."""

from put_back import PutBack

NAMES = "tests/honesty/test_binding.py"
KERAS = "tests/honesty/test_keras_evaluate.py"
IN_PLACE = "tests/honesty/test_in_place.py"

POINTS = [
    PutBack(
        point="15",
        what="metrics are called target first, whatever their names",
        file="delira/metrics/scoring.py",
        old="    return ordered(metric, prediction, target, documented_order(metric))",
        new="    return DEFAULT_KEYS if documented_order(metric) == 'target first' else (prediction, target)",
        test=f"{NAMES}::test_names_are_found_wherever_they_are",
    ),
    PutBack(
        point="15",
        what="training metrics are called target first, whatever their names",
        file="delira/contract/step.py",
        old='            keys = ordered(metric, prediction, target, "target first")',
        new="            keys = (target, prediction)",
        test=f"{NAMES}::test_functions_of_torchmetrics_get_the_prediction_first",
    ),
    PutBack(
        point="15",
        what="losses are called prediction first, whatever their names",
        file="delira/contract/step.py",
        old="    if len(read) == 2:\n        read = ordered(",
        new="    if getattr(loss, TARGET_FIRST, False):\n        read = ordered(",
        test=f"{NAMES}::test_losses_are_called_as_their_names_say",
    ),
    PutBack(
        point="15",
        what="one known name does not bind the other",
        file="delira/utils/binding.py",
        old="    if first == last:",
        new="    if first == last or None in (first, last):",
        test=f"{NAMES}::test_one_known_target_makes_the_other_the_prediction",
    ),
    PutBack(
        point="15",
        what="an assumed order is not said",
        file="delira/metrics/metric_set.py",
        old="            if self._n_updates == 0 and name in self._unsaid:",
        new="            if False:",
        test=f"{NAMES}::test_names_that_tell_nothing_keep_the_documented_order_and_say_so_once",
    ),
    PutBack(
        point="15",
        what="a trial's criterion is called prediction first, whatever its names",
        file="delira/training/trial/calls.py",
        old='    is_target_first = order_of(criterion) == "target first"',
        new="    is_target_first = getattr(criterion, TARGET_FIRST, False)",
        test=f"{NAMES}::test_the_criterion_of_a_trial_is_called_as_its_names_say",
    ),
    PutBack(
        point="34",
        what="a network that works in place overwrites what metrics and losses read",
        file="delira/backends/torch/network.py",
        old="                outputs = call_apart(model, select_inputs(mapping, step.batch), lambda own: model(**own))",
        new="                outputs = model(**select_inputs(mapping, step.batch))",
        test=f"{IN_PLACE}::test_metrics_losses_and_users_read_the_batch_as_it_was",
    ),
    PutBack(
        point="34",
        what="predict changes the user's array",
        file="delira/contract/backend.py",
        old="        return self.call_apart(network, inputs, lambda own: network(**own))",
        new="        return network(**inputs)",
        test=f"{IN_PLACE}::test_predict_leaves_arrays_and_tensors_of_the_user_alone",
    ),
    PutBack(
        point="34",
        what="a closure of the user's own overwrites what metrics read",
        file="delira/training/base_trainer.py",
        old="            if self.has_default_closure:  # calls the network apart by itself",
        new="            if True:",
        test=f"{IN_PLACE}::test_a_closure_of_the_users_own_leaves_the_batch_alone",
    ),
    PutBack(
        point="34",
        what="a trial's network overwrites the user's tensors",
        file="delira/training/trial/run.py",
        old="self.backend.call_apart(network, x, call)",
        new="call(x)",
        test=f"{IN_PLACE}::test_a_trial_leaves_batches_alone",
    ),
    PutBack(
        point="34",
        what="an estimator that works in place overwrites the batch",
        file="delira/backends/sklearn/network.py",
        old="        labels = np.asarray(self.estimator.predict(_rows(np.array(x))))",
        new="        labels = np.asarray(self.estimator.predict(_rows(x)))",
        test=f"{IN_PLACE}::test_an_estimator_that_works_in_place_leaves_the_batch_alone",
    ),
    PutBack(
        point="17",
        what="the validation loss of a trial leaves out what layers add to the loss",
        file="delira/training/trial/watcher.py",
        old="            for added in trainer.backend.added_losses(trainer.module).values():",
        new="            for added in ():",
        test=f"{KERAS}::test_a_trial_evaluates_as_keras_does",
    ),
    PutBack(
        point="17",
        what="an experiment's validation leaves out what layers add to the loss",
        file="delira/training/watcher.py",
        old="            step.losses |= trainer.backend.added_losses(trainer.module)\n",
        new="",
        test=f"{KERAS}::test_an_experiment_validates_as_keras_does",
    ),
]
