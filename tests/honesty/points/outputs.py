"""What predictions are, and what of them is no number: faults of old."""

from put_back import PutBack

VALUES = "tests/honesty/test_impossible_values.py"

POINTS = [
    PutBack(
        point="8",
        what="delira.metrics.accuracy takes NaN for class 0",
        file="delira/metrics/functions.py",
        old="    return np.where(is_lost, np.nan, found) if is_lost.any() else found",
        new="    return found",
        test=f"{VALUES}::test_a_prediction_that_is_not_finite_makes_the_number_none",
    ),
    PutBack(
        point="8",
        what="cat_acc takes NaN for class 0",
        file="delira/metrics/tree/accuracies.py",
        old="        return self._weighted(ops.as_float(ops.equal(found, true)) + ops.doubt(top), true)",
        new="        return self._weighted(ops.equal(found, true), true)",
        test=f"{VALUES}::test_a_prediction_that_is_not_finite_makes_the_number_none",
    ),
    PutBack(
        point="8",
        what="f1 and all that counts labels take NaN for class 0",
        file="delira/metrics/tree/labels.py",
        old="    return ops.where(ops.is_finite(top), found, LOST), true, int(pred.shape[axis])",
        new="    return found, true, int(pred.shape[axis])",
        test=f"{VALUES}::test_a_prediction_that_is_not_finite_makes_the_number_none",
    ),
    PutBack(
        point="8",
        what="scikit-learn's own errors come of NaN in rankings",
        file="delira/metrics/tree/curves.py",
        old="        if not self.is_finite(pred, is_each=true.ndim == pred.ndim):",
        new="        if not self.is_finite(pred, is_each=true.ndim == pred.ndim) and False:",
        test=f"{VALUES}::test_a_prediction_that_is_not_finite_makes_the_number_none",
    ),
    PutBack(
        point="9",
        what="top_5_acc counts the labels 7 and -5 of 3 classes as right",
        file="delira/metrics/tree/seen.py",
        old="            if is_wrong.any():\n                refuse_label(self._name,",
        new="            if is_wrong.any() and False:\n                refuse_label(self._name,",
        test=f"{VALUES}::test_a_label_that_no_class_is_is_refused_by_name_and_sample",
    ),
    PutBack(
        point="9",
        what="f1 truncates the label 0.9 to 0",
        file="delira/metrics/tree/seen.py",
        old='        is_right = np.ones(true.shape, bool) if true.dtype.kind != "f" else true == np.floor(true)',
        new="        is_right = np.ones(true.shape, bool)",
        test=f"{VALUES}::test_a_label_that_is_no_whole_number_is_refused",
    ),
    PutBack(
        point="9",
        what="roc_auc takes any label",
        file="delira/metrics/tree/dataset.py",
        old="        is_wrong = wrong_labels(true, allowed)",
        new="        is_wrong = wrong_labels(true, allowed) & False",
        test=f"{VALUES}::test_a_label_that_no_class_is_is_refused_by_name_and_sample",
    ),
    PutBack(
        point="44",
        what="float16 predictions are summed by scikit-learn as they are",
        file="delira/metrics/tree/adapters.py",
        old='        if pred.dtype.kind == "f" and pred.dtype.itemsize < 4:',
        new='        if pred.dtype.kind == "?":',
        test=f"{VALUES}::test_half_precision_is_summed_as_if_it_were_not",
    ),
]
