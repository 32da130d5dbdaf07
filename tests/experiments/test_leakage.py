"""Leakage: groups stay on one side, identities are noticed, identical samples are found."""

import collections
import random
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import model_selection

from delira.data_loading import AbstractDataset, BaseDataManager, BaseLazyDataset, ConcatDataset, DictDataset
from delira.data_loading._describe import identical_samples
from delira.errors import ConfigError, DataError
from delira.experiments.leakage import codes_of, find_leaks, identity_keys
from delira.experiments.splits import SplitConfig, Splitter

pytestmark = pytest.mark.turns

N = 24
PATIENTS = np.array([f"patient {number // 3}" for number in range(N)])  # 8 of them, 3 samples each


def arrays(**more):
    rng = np.random.default_rng(7)
    return {"data": rng.normal(size=(N, 3)), "label": rng.normal(size=(N, 1)), **more}


def leaks(dataset, key_mapping=None, **options):
    """What find_leaks finds in 4 folds, and what it warned of."""
    config = SplitConfig(**{"num_splits": 4, "shuffle": True, **options})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find_leaks(BaseDataManager(dataset), config, list(Splitter(dataset, config, 0)), key_mapping)
    assert [str(warning.message) for warning in caught] == found.get("warnings", [])
    return found


def shared(values, split):
    parts = [set(values[part].tolist()) for part in (split.train, split.val, split.test) if part is not None]
    return sum(map(len, parts)) - len(set.union(*parts))


# ---- groups


class Given:
    """A user's splitter: whatever folds it is made of."""

    def __init__(self, *folds):
        self.folds = folds

    def get_n_splits(self, x=None, y=None, groups=None):
        return len(self.folds)

    def split(self, x, y=None, groups=None):
        return iter(self.folds)

    def __repr__(self):
        return "Given()"


GROUPED = {"groups_key": "patient", "val_split": None}
ignoring = pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # scikit-learn says so, and goes on


@ignoring
def test_a_splitter_that_ignores_groups_is_refused_with_the_group_and_the_fold():
    dataset = DictDataset(arrays(patient=PATIENTS))
    # 24 samples in 5 parts: the first block ends inside of a patient
    config = SplitConfig(split_type=model_selection.KFold(5), **GROUPED)
    with pytest.raises(
        ConfigError, match="the patient 'patient 1' is in the training and the test part of fold 0; use"
    ):
        list(Splitter(dataset, config, 0))


@ignoring
def test_a_splitter_that_keeps_groups_together_by_itself_is_allowed():
    dataset = DictDataset(arrays(patient=PATIENTS))
    config = SplitConfig(split_type=model_selection.KFold(4), **GROUPED)  # blocks of two patients
    assert all(shared(PATIENTS, split) == 0 for split in Splitter(dataset, config, 0))


def test_only_the_fold_that_breaks_a_group_is_named():
    good = (np.arange(12), np.arange(12, 24))
    bad = (np.arange(11), np.arange(11, 24))
    config = SplitConfig(split_type=Given(good, bad), **GROUPED)
    numbers = np.arange(N) // 3
    with pytest.raises(ConfigError, match="the patient 3 is in the training and the test part of fold 1"):
        list(Splitter(DictDataset(arrays(patient=numbers)), config, 0))


@ignoring
def test_a_validation_part_that_breaks_a_group_is_refused():
    series = model_selection.TimeSeriesSplit(3, test_size=6)  # the parts end with patients, the inner cut does not
    config = SplitConfig(split_type=series, groups_key="patient", val_split=0.3)
    with pytest.raises(ConfigError, match="'patient 1' is in the training and the validation part of fold 0"):
        list(Splitter(DictDataset(arrays(patient=PATIENTS)), config, 0))


def test_a_splitter_that_puts_a_sample_into_two_parts_is_refused():
    config = SplitConfig(split_type=Given((np.arange(20), np.arange(19, 24))), val_split=None)
    with pytest.raises(ConfigError, match="sample 19 is in the training and the test part of fold 0"):
        list(Splitter(DictDataset(arrays()), config, 0))


def test_a_splitter_that_names_samples_that_do_not_exist_is_refused():
    config = SplitConfig(split_type=Given((np.arange(20), np.arange(20, 26))), val_split=None)
    with pytest.raises(IndexError, match="indices 24, 25 are not in the dataset of 24 samples"):
        list(Splitter(DictDataset(arrays()), config, 0))


@settings(max_examples=50)
@given(
    groups=st.lists(st.integers(0, 9), min_size=24, max_size=24).filter(lambda g: len(set(g)) >= 4),
    kind=st.sampled_from(["random", "shuffled", "stratified", "GroupShuffleSplit"]),
    seed=st.integers(0, 99),
)
def test_no_group_is_ever_on_two_sides(groups, kind, seed):
    groups = np.array(groups)
    dataset = DictDataset({"data": np.zeros((N, 1)), "label": np.arange(N) % 2, "subject": groups})
    split_type = {
        "GroupShuffleSplit": model_selection.GroupShuffleSplit(2, test_size=0.4, random_state=seed),
        "stratified": "stratified",
    }.get(kind, "random")
    config = SplitConfig(
        num_splits=2, split_type=split_type, shuffle=kind == "shuffled", groups_key="subject", val_split=0.3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, that a class has few groups
        try:
            splits = list(Splitter(dataset, config, seed))
        except ConfigError as error:
            if "cannot divide" not in str(error):  # too few groups may be left for a validation part
                raise
            splits = []
    assert all(shared(groups, split) == 0 for split in splits)


def without_some(kind, value):
    values = np.array(PATIENTS if kind is object else np.arange(N) // 3, dtype=kind)
    values[[7, 9]] = value
    return values


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (without_some(float, np.nan), "nan"),
        (without_some(object, None), "None"),
        (without_some(object, np.nan), "nan"),
        (without_some(float, np.nan)[:, None], "nan"),
    ],
)
@pytest.mark.parametrize("split_type", ["random", "stratified", model_selection.GroupKFold(4)])
def test_a_sample_without_a_group_is_named(values, shown, split_type):
    dataset = DictDataset({"data": np.zeros((N, 1)), "label": np.arange(N) % 2, "patient": values})
    config = SplitConfig(split_type=split_type, num_splits=4, groups_key="patient")
    with pytest.raises(DataError, match=f"sample 7 of DictDataset has no group: its 'patient' is {shown}; give every"):
        Splitter(dataset, config, 0)


def test_a_group_that_pandas_calls_missing_is_missing():
    pandas = pytest.importorskip("pandas")
    dataset = DictDataset(arrays())
    dataset.set_labels("patient", pandas.Series(["a", pandas.NA, "b"] * 8, dtype="string"))
    with pytest.raises(DataError, match="sample 1 of DictDataset has no group: its 'patient' is <NA>"):
        Splitter(dataset, SplitConfig(num_splits=4, groups_key="patient"), 0)


def test_a_sample_without_a_group_is_named_of_samples_and_of_subsets():
    config = SplitConfig(num_splits=4, groups_key="patient")
    samples = [{"data": np.zeros(1), "patient": None if number == 5 else number // 3} for number in range(N)]
    with pytest.raises(DataError, match="sample 5 of IterableDataset has no group: its 'patient' is None"):
        Splitter(BaseDataManager(samples).dataset, config, 0)
    with pytest.raises(DataError, match="sample 5 of IterableDataset has no group"):
        Splitter(BaseDataManager(samples).dataset.get_subset(range(2, N)), config, 0)


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "b", "c"],
        [2, 1, 2, 3],
        [np.nan, 1.0, np.nan, 2.0],
        np.array([None, "a", None, "c"], dtype=object),
        [[1, 2], [1, 3], [1, 2], [0, 2]],
        [["x"], ["y"], ["x"], ["z"]],
    ],
)
def test_equal_values_get_one_code(values):
    first, second, third, fourth = codes_of(values).tolist()
    assert first == third
    assert len({first, second, fourth}) == 3


# ---- identities


@pytest.mark.parametrize(
    "key",
    ["patient", "Patient", "PATIENT_ID", "PatientID", "patientid", "patients", "subject", "subject-nr", "case",
     "case no", "site", "site_name", "StudyInstanceUID", "participant_id", "id_patient", "person", "donor", "hospital",
     "pid", "PID", "MRN", "subj", "subj_id", "pat_id", "PatID", "pt-id", "sub_id", "user", "user_id", "speaker",
     "speaker_id", "mouse", "rat_no", "series_uid", "SeriesInstanceUID", "study_uid", "centre", "center_id"],
)  # fmt: skip
def test_names_of_identities_are_noticed(key):
    assert identity_keys([key, "data"]) == [key]


@pytest.mark.parametrize(
    "key",
    ["briefcase", "website", "patient_age", "n_patients", "case_control", "label", "inpatient", "opposite", "personal",
     "lesion_site", "impatient", "study_date", "data", "number", "id", "", 3, ("patient",),
     "pat", "pt", "sub", "subs", "path", "pats", "sub_index", "series", "series_number", "rate", "ratio", "scanner",
     "scanner_id", "grid", "user_agent", "bbox_center", "center_x", "mouse_x", "pidx", "pt_age"],
)  # fmt: skip
def test_other_names_are_not(key):
    assert identity_keys([key]) == []


def test_an_identity_that_was_not_grouped_by_is_warned_of_with_the_cure():
    (text,) = leaks(DictDataset(arrays(patient_id=PATIENTS)))["warnings"]
    assert "'patient_id' (8 of its 8 values are on two sides of a fold)" in text
    assert "groups_key='patient_id' to keep each patient_id on one side" in text
    assert "groups_key='' if the samples are independent" in text


def test_all_identities_are_named_and_the_finest_one_is_advised():
    sites = np.arange(N) % 2
    (text,) = leaks(DictDataset(arrays(site=sites, patient=PATIENTS)))["warnings"]
    assert "'patient' (8 of its 8 values are on two sides of a fold) and 'site' (2 of its 2 values" in text
    assert "groups_key='patient'" in text


def test_an_identity_inside_of_an_entry_is_warned_of_without_a_count():
    samples = [{"data": np.zeros(3), "meta": {"patient": number // 3, "age": 40}} for number in range(N)]
    (text,) = leaks(BaseDataManager(samples).dataset)["warnings"]
    assert "samples carry 'patient' inside of 'meta' (its values were not looked at), but" in text
    assert "cannot name a nested entry: put 'patient' at the top level and pass groups_key='patient'" in text
    assert leaks(BaseDataManager(samples).dataset, groups_key="") == {}
    for sample in samples:
        sample["site"] = int(sample["meta"]["patient"]) % 3
    (text,) = leaks(BaseDataManager(samples).dataset)["warnings"]
    assert "'site' (3 of its 3 values are on two sides of a fold) and 'patient' inside of 'meta'" in text
    assert "Pass groups_key='site'" in text


def test_what_is_inside_of_an_entry_and_beside_it_too_is_counted_there():
    samples = [{"data": np.zeros(3), "patient": number, "meta": {"patient": number}} for number in range(N)]
    assert leaks(BaseDataManager(samples).dataset) == {}


@pytest.mark.parametrize("key", ["case_id", "subject", "site"])
def test_two_values_may_be_two_patients(key):
    (text,) = leaks(DictDataset(arrays(**{key: np.arange(N) % 2})))["warnings"]
    assert f"{key!r} (2 of its 2 values" in text


@pytest.mark.parametrize(
    ("entry", "options"),
    [
        ({"patient": np.arange(N)}, {}),  # each sample is its own
        ({"patient": PATIENTS}, {"groups_key": "patient"}),
        ({"patient": PATIENTS, "site": np.arange(N) % 2}, {"groups_key": "patient"}),
        ({"patient": PATIENTS}, {"groups_key": ""}),
        ({"patient": PATIENTS}, {"split_type": model_selection.KFold(4), "val_split": None, "num_splits": None}),
        ({"case": np.zeros((N, 2, 2))}, {}),  # an image
        ({"subject": np.arange(N) % 2}, {"label_key": "subject"}),  # what is learned
        ({"patient_age": np.arange(N) % 3}, {}),
        ({"case": np.arange(N) % 2}, {}),  # case or control
        ({"Person": np.arange(N) % 2 == 0}, {}),
        ({"meta": np.zeros(N), "sub": np.arange(N) % 3}, {}),
    ],
)
def test_where_nothing_leaks_nothing_is_said(entry, options):
    assert leaks(DictDataset(arrays(**entry)), **options) == {}


def test_labels_that_samples_do_not_have_are_identities_too():
    dataset = DictDataset(arrays())
    dataset.set_labels("patient", PATIENTS)
    for shown in (dataset, dataset.get_subset(range(N))):
        assert "'patient' (8 of its 8 values" in leaks(shown)["warnings"][0]


class Images(AbstractDataset):
    """Counts how often an image of ``size`` MB is read; draws while it reads."""

    def __init__(self, size):
        super().__init__()
        self.reads = collections.Counter()
        self.size = size

    def __len__(self):
        return N

    def __getitem__(self, index):
        self.reads[index] += 1
        np.random.random()
        random.random()
        image = np.broadcast_to(np.float32(0), (self.size, 2**18))
        return {"data": image, "label": np.zeros(1), "patient": PATIENTS[index]}


def test_images_are_not_loaded_for_a_warning():
    dataset = Images(size=3)
    (text,) = leaks(dataset)["warnings"]
    assert "'patient' (its values were not looked at, since that would load every sample)" in text
    assert dataset.reads == {0: 1}


def test_small_data_are_read_once():
    dataset = Images(size=1)
    assert "'patient' (8 of its 8 values" in leaks(dataset)["warnings"][0]
    assert dataset.reads == {0: 2} | dict.fromkeys(range(1, N), 1)


class SlowImages(Images):
    """Has a site as well, and needs 0.1 s for each sample."""

    def __getitem__(self, index):
        time.sleep(0.1)
        return {**super().__getitem__(index), "site": index % 2}


def test_reading_for_a_warning_ends_when_it_takes_too_long():
    dataset = SlowImages(size=1)  # 2.4 s
    (text,) = leaks(dataset)["warnings"]
    for key in ("patient", "site"):
        assert f"{key!r} (its values were not looked at, since that would load every sample)" in text
    assert len(dataset.reads) <= 12
    assert max(dataset.reads.values()) == dataset.reads[0] == 2


def test_slow_samples_are_not_read_for_values_at_hand():
    dataset = SlowImages(size=1)
    dataset.set_labels("patient", PATIENTS)
    dataset.set_labels("site", np.arange(N) % 2)
    (text,) = leaks(dataset)["warnings"]
    assert "'patient' (8 of its 8 values" in text
    assert "'site' (2 of its 2 values" in text
    assert dataset.reads == {0: 1}


def test_samples_are_read_once_for_all_identities():
    reads = []

    def load(item):
        reads.append(item)
        return {"data": np.zeros(1), "patient": f"{item // 3}", "site": item % 2, "case": np.zeros(1 + item % 2)}

    dataset = BaseLazyDataset(range(N), load)
    (text,) = leaks(dataset)["warnings"]
    assert "'patient' (8 of its 8 values" in text
    assert "'site' (2 of its 2 values" in text
    assert "case" not in text  # not one value for each sample
    assert collections.Counter(reads) == {0: 2} | dict.fromkeys(range(1, N), 1)


def test_values_at_hand_are_used_although_others_cannot_be_read():
    dataset = BaseLazyDataset(range(N), broken)
    dataset.set_labels("site", np.arange(N) % 2)
    (text,) = leaks(dataset)["warnings"]
    assert "samples carry 'site' (2 of its 2 values" in text


def test_values_at_hand_are_used_however_large_the_images_are():
    dataset = Images(size=3)
    dataset.set_labels("patient", PATIENTS)
    for shown in (dataset, dataset.get_subset(range(N)), ConcatDataset(dataset)):
        dataset.reads.clear()
        assert "'patient' (8 of its 8 values" in leaks(shown)["warnings"][0]
        assert dataset.reads == {0: 1}


def broken(item):
    if item == 5:
        raise OSError("no such image")
    return {"data": np.zeros(3), "label": np.zeros(1), "patient": item // 3}


def test_a_sample_that_cannot_be_read_is_left_to_the_training():
    assert leaks(BaseLazyDataset(range(N), broken)) == {}
    assert leaks(BaseLazyDataset([5] * N, broken), check_duplicates=True) == {}


def test_the_warning_is_given_once_and_points_at_the_caller(kit, tmp_path):
    experiment = kit.experiment(tmp_path)
    data = BaseDataManager(arrays(patient=PATIENTS), 5)
    with pytest.warns(UserWarning, match="samples carry 'patient'") as caught:
        result = experiment.kfold(data, {"rmse": rmse}, 1, 3)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.info["warnings"] == [str(caught[0].message)]
    assert "samples carry" in result.to_html()
    settled = experiment.kfold(data, {"rmse": rmse}, 1, 3, groups_key="")
    assert "warnings" not in settled.info
    assert settled.info["split_type"] == "random"
    assert settled.groups is None
    for ours, theirs in zip(result.folds, settled.folds, strict=True):
        np.testing.assert_array_equal(ours.predictions["pred"], theirs.predictions["pred"])


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups_key": False}, "groups_key must name an entry, or be '' for no groups, got False"),
        ({"check_duplicates": "yes"}, "check_duplicates must be True or False, got 'yes'"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        SplitConfig(**options)


# ---- identical samples


def copies():
    """Samples 1 and 20 are one image, and 3, 4 and 23; 0 differs from 2 in its dtype only."""
    data = np.random.default_rng(0).normal(size=(N, 2, 2)).astype(np.float32)
    data[20], data[4], data[23] = data[1], data[3], data[3]
    samples = [{"data": image, "label": np.float64(number)} for number, image in enumerate(data)]
    samples[2]["data"] = samples[0]["data"].astype(np.float64)
    return samples


def test_identical_samples_are_found():
    assert identical_samples(BaseDataManager(copies()).dataset, ["data"]) == [(1, 20), (3, 4, 23)]
    assert identical_samples(BaseDataManager(copies()).dataset, ["data", "label"]) == []


def test_equal_bytes_of_another_shape_or_kind_are_not_identical():
    zeros = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.zeros((2, 3), np.int64), np.zeros((2, 3))]
    dataset = BaseDataManager([{"data": array} for array in zeros]).dataset
    assert identical_samples(dataset, ["data"]) == [(0, 4)]


def noisy(item):
    return {"data": np.full(4, item) + np.random.normal(size=4) + random.random()}


def test_noise_added_while_reading_hides_no_copies_and_generators_stay_as_they_are():
    dataset = BaseLazyDataset([1, 2, 1], noisy)
    np.random.seed(3)
    random.seed(4)
    before = np.random.get_state()[1].tolist(), random.getstate()
    assert identical_samples(dataset, ["data"]) == [(0, 2)]
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before


def test_copies_on_two_sides_are_reported():
    found = leaks(BaseDataManager(copies()).dataset, check_duplicates=True)
    assert found["duplicates"] == [[1, 20], [3, 4, 23]]
    (text,) = found["warnings"]
    assert "samples that are identical in 'data' are on two sides of a fold" in text
    assert ": 1 = 20, 3 = 4 = 23; remove the copies, or give copies a common group (groups_key)" in text


def test_copies_on_one_side_are_harmless():
    dataset = BaseDataManager(copies()).dataset
    one_side = Given((np.arange(2, 20), np.array([0, 1, 20, 21])))  # 3 and 4, 1 and 20
    assert leaks(dataset, check_duplicates=True, split_type=one_side, num_splits=None, val_split=None) == {}
    dataset.set_labels("image", [1 if n in (1, 20) else 3 if n in (3, 4, 23) else 100 + n for n in range(N)])
    assert leaks(dataset, check_duplicates=True, groups_key="image") == {}


def test_nobody_looks_for_copies_unless_asked():
    assert leaks(BaseDataManager(copies()).dataset) == {}


def test_many_copies_are_shortened_in_the_warning_only():
    found = leaks(DictDataset({"data": np.arange(N) // 2, "label": np.arange(N)}), check_duplicates=True, shuffle=True)
    assert len(found["duplicates"]) == 12
    assert "18 = 19, and 2 more; remove" in found["warnings"][0]
    found = leaks(DictDataset({"data": np.zeros((N, 2)), "label": np.arange(N)}), check_duplicates=True)
    assert found["duplicates"] == [[*range(N)]]
    assert "8 = 9 = ...; remove" in found["warnings"][0]


@pytest.mark.parametrize(
    ("names", "key_mapping", "compared"),
    [
        (("data", "label"), None, "'data'"),
        (("left", "right", "label"), None, "'left', 'right'"),
        (("left", "right", "label"), {"x": "right"}, "'right'"),
        (("left", "right", "label"), {"x": "left", "y": "right"}, "'left', 'right'"),
        (("label",), None, "'label'"),
    ],
)
def test_what_the_network_reads_is_compared(names, key_mapping, compared):
    dataset = DictDataset({name: np.zeros((N, 2)) for name in names})
    (text,) = leaks(dataset, key_mapping, check_duplicates=True)["warnings"]
    assert f"identical in {compared} are" in text


def test_a_cross_validation_with_copies_says_so_and_goes_on(kit, tmp_path):
    data = arrays()
    data["data"][20] = data["data"][1]
    experiment, manager = kit.experiment(tmp_path), BaseDataManager(data, 5)
    with pytest.warns(UserWarning, match="check_duplicates: .*: 1 = 20; remove") as caught:
        result = experiment.kfold(manager, {"rmse": rmse}, 1, 3, check_duplicates=True)
    assert caught[0].filename == __file__
    assert result.info["duplicates"] == [[1, 20]]
    assert result.info["warnings"] == [str(caught[0].message)]
    assert "check_duplicates: true" in result.info["settings"]
    plain = experiment.kfold(manager, {"rmse": rmse}, 1, 3)
    assert plain.table() == result.table()


def test_the_report_of_a_clean_run_mentions_nothing(kit, tmp_path):
    result = kit.experiment(tmp_path).kfold(BaseDataManager(arrays(), 5), {"rmse": rmse}, 1, 3, check_duplicates=True)
    assert not {"warnings", "duplicates"} & result.info.keys()
