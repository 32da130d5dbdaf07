"""What was wrong in the order, the weight and the ways of numbers of a step: points 15 to 17, 32, 34 and 46 to 48."""

from put_back import PutBack

NAMES = "tests/honesty/test_binding.py"

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
]
