"""Ids, groups and labels come out of datasets as they went in: never rounded, never made text, never unmasked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.data_loading import (
    BaseDataManager,
    BaseLazyDataset,
    ConcatDataset,
    DictDataset,
    GroupRandomSampler,
    IterableDataset,
    WrappedDataset,
)
from delira.errors import DataError

BIG = 2**63
#: what float64 cannot tell apart
PATIENTS = [BIG + 1, BIG + 2, 5]


def samples(ids):
    return IterableDataset([{"data": np.zeros(2), "patient": one} for one in ids])


@pytest.mark.parametrize(
    "dataset",
    [
        samples(PATIENTS),
        DictDataset({"data": np.zeros((3, 2)), "patient": PATIENTS}),
        ConcatDataset(samples(PATIENTS[:2]), samples(PATIENTS[2:])),
        WrappedDataset([(np.zeros(2), one) for one in PATIENTS], ["data", "patient"]),
        samples([np.uint64(one) if one > 5 else one for one in PATIENTS]),
    ],
    ids=["samples", "arrays", "parts", "wrapped", "numpy"],
)
def test_three_patients_with_large_ids_stay_three(dataset):
    assert dataset.labels("patient").tolist() == PATIENTS
    assert len(np.unique(dataset.labels("patient"))) == 3
    batch = next(iter(BaseDataManager(dataset, 3)))
    assert batch["patient"].tolist() == PATIENTS
    assert len(GroupRandomSampler.from_dataset(dataset, key="patient").order(np.random.default_rng(0))) == 3


def test_large_ids_that_are_set_stay_as_they_are():
    dataset = samples([0, 1, 2])
    dataset.set_labels("patient", PATIENTS)
    assert dataset.labels("patient").tolist() == PATIENTS
    assert len(GroupRandomSampler(PATIENTS)._groups) == 3


def test_large_ids_of_pandas_stay_as_they_are_beside_missing_ones():
    pandas = pytest.importorskip("pandas")
    ids = [2**62 + 1, 2**62 + 2, None]
    labels = DictDataset({"patient": pandas.array(ids, dtype="Int64")}).labels("patient")
    assert labels.tolist()[:2] == ids[:2]
    assert labels[2] is pandas.NA


@settings(max_examples=60)
@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=6))
def test_integers_come_back_exactly_or_are_refused(ids):
    for read in (
        lambda: samples(ids).labels("patient"),
        lambda: DictDataset({"patient": ids}).labels("patient"),
        lambda: next(iter(BaseDataManager(samples(ids), len(ids))))["patient"],
        lambda: ConcatDataset([samples([one]) for one in ids]).labels("patient"),
    ):
        if min(ids) < 0 and max(ids) >= BIG:
            with pytest.raises(DataError, match="fit into no one type"):
                read()
        else:
            assert read().tolist() == ids


def test_integers_that_floats_would_round_are_refused():
    with pytest.raises(DataError, match=r"entry 'patient' of sample 0 holds integers that .* would round"):
        samples([2**53 + 1, 0.5]).labels("patient")
    assert samples([3, 0.5]).labels("patient").tolist() == [3, 0.5]


@pytest.mark.parametrize("mixed", [["1", 1], [1, "1"], [True, "True"], [b"a", "a"], [0.5, "0.5"]])
def test_text_and_numbers_are_never_made_equal(mixed):
    for read in (
        lambda: samples(mixed).labels("patient"),
        lambda: DictDataset({"patient": mixed}),
        lambda: samples([0, 0]).set_labels("patient", mixed),
        lambda: ConcatDataset(samples(mixed[:1]), samples(mixed[1:])).labels("patient"),
        lambda: next(iter(BaseDataManager(samples(mixed), 2))),
        lambda: GroupRandomSampler(mixed),
        lambda: GroupRandomSampler.from_dataset(samples([0, 0]), groups=mixed),
    ):
        with pytest.raises(DataError, match=r"would become text.*give all samples one type"):
            read()


def test_objects_of_several_types_are_no_labels():
    dataset = DictDataset({"patient": np.array(["1", 1], dtype=object)})
    with pytest.raises(DataError, match=r"'patient' is text in some samples .* and a number in others"):
        dataset.labels("patient")
    missing = DictDataset({"patient": np.array(["a", None, float("nan")], dtype=object)})
    assert missing.labels("patient").tolist()[:2] == ["a", None]


MASKED = np.ma.array([[1.0, 999.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]])


@pytest.mark.parametrize(
    "read",
    [
        lambda: DictDataset({"data": MASKED}),
        lambda: DictDataset({"data": [*MASKED]}),
        lambda: next(iter(BaseDataManager([{"data": MASKED}, {"data": MASKED}], 2))),
        lambda: next(iter(BaseDataManager(BaseLazyDataset(range(2), lambda i: {"data": MASKED[0]}), 2))),
        lambda: next(iter(BaseDataManager(WrappedDataset([(MASKED, 1)]), 1))),
        lambda: samples([0, 0]).set_labels("label", MASKED[0]),
    ],
)
def test_what_lies_under_a_mask_is_never_trained_on(read):
    with pytest.raises(DataError, match=r"a masked array of which 1 values are masked.*array\.filled"):
        read()


def test_a_transform_that_masks_is_refused():
    data = BaseDataManager({"data": np.array([[1.0, 999.0]])}, 1, transforms=lambda batch: mask_large(batch))
    with pytest.raises(DataError, match=r"entry 'data' that transform .* made of batch 1 is a masked array"):
        next(iter(data))


def mask_large(batch):
    return {"data": np.ma.masked_greater(batch["data"], 100)}


def test_a_masked_array_without_masked_values_is_an_array():
    plain = np.ma.array([[1.0, 2.0]], mask=False)
    assert next(iter(BaseDataManager({"data": plain}, 1)))["data"].tolist() == [[1, 2]]


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_complex_input_is_refused_before_its_imaginary_part_is_lost(backend):
    name = {"torch": "PyTorch", "tensorflow": "Tf", "jax": "Jax"}[backend]
    pytest.importorskip(backend)
    module = __import__(f"delira.backends.{backend}.network", fromlist=["network"])
    network = getattr(module, f"Abstract{name}Network")
    device = {"torch": lambda: __import__("torch").device("cpu"), "tensorflow": lambda: "CPU:0"}.get(backend)
    device = device() if device else None
    for dtype in (np.complex64, np.complex128):
        with pytest.raises(DataError, match="would lose their imaginary part"):
            network.prepare_batch({"data": np.full((2, 3), 1 + 2j, dtype)}, device, device)
    kept = network.prepare_batch({"data": np.zeros((2, 3)), "field": np.full(2, 1 + 2j, np.complex64)}, device, device)
    assert np.asarray(kept["field"]).tolist() == [1 + 2j, 1 + 2j]
