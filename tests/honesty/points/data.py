"""Faults of datasets, images, caches and workers."""

from put_back import PutBack

IDS = "tests/honesty/test_data_ids.py"
LABELS = "tests/data_loading/test_labels_stay_true.py"
LEFT_OUT = "tests/data_loading/test_left_out_samples.py"

POINTS = [
    PutBack(
        point="37",
        what="targets are believed after 16 samples",
        file="delira/data_loading/wrapped_dataset.py",
        old="    return np.concatenate([spread, firsts[~np.isin(seen, classes[spread])]]).tolist()",
        new="    return spread.tolist()",
        test=f"{LABELS}::test_a_target_transform_of_a_rare_class_is_seen",
    ),
    PutBack(
        point="37",
        what="labels that a view has read survive set_labels",
        file="delira/data_loading/abstract_dataset.py",
        old=" or not _are_same(kept[0], marks):",
        new=":",
        test=f"{LABELS}::test_labels_that_views_have_read_do_not_survive_set_labels",
    ),
    PutBack(
        point="38",
        what="preview counts batches that were handed out, not those of the epoch",
        file="delira/data_loading/data_manager.py",
        old="        return made.batch or {}, task.indices[~np.isin(task.indices, [index for index, _ in made.bad])]",
        new="        return made.batch or {}, task.indices",
        test=f"{LEFT_OUT}::test_preview_and_batch_at_name_the_samples_that_are_there",
    ),
    PutBack(
        point="38",
        what="ids of 64 bits without a sign become float64",
        file="delira/data_loading/_exact.py",
        old="        return np.dtype(np.uint64)\n    if high",
        new="        return np.dtype(np.float64)\n    if high",
        test=f"{IDS}::test_three_patients_with_large_ids_stay_three",
    ),
    PutBack(
        point="38",
        what="mixed labels become text",
        file="delira/data_loading/_exact.py",
        old="    if kinds & set(_TEXT) and (",
        new="    if not kinds and (",
        test=f"{IDS}::test_text_and_numbers_are_never_made_equal",
    ),
    PutBack(
        point="38",
        what="masked arrays lose their mask",
        file="delira/data_loading/_exact.py",
        old="and np.ma.is_masked(inner):",
        new="and inner is None:",
        test=f"{IDS}::test_what_lies_under_a_mask_is_never_trained_on",
    ),
    PutBack(
        point="38",
        what="complex input loses its imaginary part",
        file="delira/utils/inputs.py",
        old="    if is_complex:",
        new="    if is_complex is None:",
        test=f"{IDS}::test_complex_input_is_refused_before_its_imaginary_part_is_lost",
    ),
    PutBack(
        point="39",
        what="a missing kind of ground truth moves the others up",
        file="delira/data_loading/_items.py",
        old="if kind not in group.truths and kind < max(group.truths)]:",
        new="if kind < 0]:",
        test="tests/data_loading/test_several_ground_truths.py::test_a_depth_map_never_arrives_as_the_mask_that_is_missing",
    ),
]
