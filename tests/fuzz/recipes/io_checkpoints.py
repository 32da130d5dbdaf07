"""Checkpoints and exports of every backend: what comes back is what was saved, and what is none is refused by name."""

import numpy as np
from fuzz_cases import Entry
from fuzz_containers import NO_PATHS, SPOILED, spoiled
from fuzz_names import resolve
from fuzz_networks import BACKENDS, INPUTS, OUTPUTS, filled, linear, outputs_of, weights_of
from fuzz_values import NAN, NOT_A_COUNT, NOT_A_MAPPING, STRANGE, Fresh, raises_user_error

#: backend -> ending of its functions, and of its files
CHECKPOINTS = {
    "PyTorch": ("torch", ".pt"),
    "TorchScript": ("torchscript", "_trainer_state.pt"),
    "Tf": ("tf", ".zip"),
    "Jax": ("jax", ".zip"),
}
NO_PLACES = [f"{__file__}/a{{}}", "/dev/null/a{}"]
NO_MODELS = [5, "x", [], {}, STRANGE, dict, b"x", np.zeros(2), {"linear": np.zeros(2)}, True]
NO_OPTIMIZERS = [*NOT_A_MAPPING, {"default": 5}, {"default": None}, {"default": "Adam"}, {5: 5}, {"default": {}}]
EPOCHS = [value for value in NOT_A_COUNT if value is not None]
#: what no checkpoint may hold: it could not be read back, or only by running code
NOT_KEPT = [
    STRANGE,
    raises_user_error,
    int,
    [STRANGE],
    {"a": {"b": STRANGE}},
    np.array([{}, None]),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    Fresh("a list that holds itself", lambda: holding_itself()),
    range(3).__iter__(),
]


def holding_itself():
    """A list that holds itself."""
    made = []
    made.append(made)
    return made


def as_arrays(model):
    """Weights in the order of their names, whatever keeps them."""
    weights = model.state_dict() if hasattr(model, "state_dict") else model
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    return {name: (array.dtype.name, array.tolist()) for name, array in sorted(arrays.items())}


def file_of(folder, backend):
    """The file that a checkpoint is read from."""
    return folder / f"net{CHECKPOINTS[backend][1]}"


def saved(folder, backend, **more):
    """A checkpoint, and its file."""
    function = resolve(f"delira.io.save_checkpoint_{CHECKPOINTS[backend][0]}")
    file = file_of(folder, backend)
    function(file, filled(backend), epoch=3, **more)
    return file


def read_back(backend):
    """What the file of a checkpoint holds."""

    def read(made, folder):
        tree = resolve(f"delira.io.load_checkpoint_{CHECKPOINTS[backend][0]}")(made)
        weights = as_arrays(tree.get("model", {}))
        return weights, tree["epoch"] or 0, tree["note"]

    return read


def loaded_spoiled(backend, folder, kind):
    """Read what stands in place of a checkpoint."""
    load = resolve(f"delira.io.load_checkpoint_{CHECKPOINTS[backend][0]}")
    return load(spoiled(saved(folder, backend), kind))["epoch"]


def saving(backend):
    name, ending = CHECKPOINTS[backend]
    places = [place.format(ending) for place in NO_PLACES]
    return Entry(
        name=f"delira.io.save_checkpoint_{name}",
        good=lambda folder: {
            "file": file_of(folder, backend),
            "model": filled(backend),
            "optimizers": None,
            "epoch": 3,
            "note": [1, "x", None, {"a": 0.5}],
        },
        use=read_back(backend),
        expected=lambda arguments: (
            as_arrays({} if arguments["model"] is None else weights_of(backend)),
            arguments["epoch"] or 0,
            arguments["note"],
        ),
        right={"model": [None], "optimizers": [{}], "epoch": [0, None, np.int64(7), 10**9], "note": [{}, "täxt"]},
        wrong={
            "file": [*NO_PATHS, *places, *([] if backend == "TorchScript" else ["/tmp", "."])],
            "model": NO_MODELS,
            "optimizers": NO_OPTIMIZERS,
            "epoch": EPOCHS,
            "note": NOT_KEPT,
        },
        says={"file": places},
        needs=BACKENDS[backend],
        is_slow=backend == "Tf",
    )


def loading(backend):
    name, _ = CHECKPOINTS[backend]
    places = {"map_location": ["nonsense", 5, STRANGE, [], NAN, "cuda:x", True]} if name.startswith("torch") else {}
    models = {"model": NO_MODELS, "optimizers": [*NO_OPTIMIZERS, {"default": STRANGE}]} if name == "tf" else {}
    yield Entry(
        name=f"delira.io.load_checkpoint_{name}",
        good=lambda folder: {"file": saved(folder, backend)},
        use=lambda tree, folder: (as_arrays(tree["model"]), tree["epoch"]),
        expected=lambda arguments: (as_arrays(weights_of(backend)), 3),
        right={"map_location": ["cpu", None]} if places else {},
        wrong={"file": NO_PATHS, **places, **models},
        needs=BACKENDS[backend],
    )
    # TorchScript's state of the trainer may be missing, and then the program alone is the checkpoint
    kinds = [kind for kind in SPOILED if name != "torchscript" or not kind.startswith(("missing", "link", "zip of"))]
    yield Entry(
        name=f"delira.io.load_checkpoint_{name}#spoiled",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=lambda folder, kind: loaded_spoiled(backend, folder, kind),
        expected=lambda arguments: 3,
        wrong={"kind": kinds},
        says={"kind": ["net", "/file"]},
        needs=BACKENDS[backend],
    )


def with_network(backend):
    """A checkpoint that goes into a network, and one of a layout to come."""

    def load(folder, kind):
        more = {"format": 99} if kind == "of a later format" else {}
        network = linear(backend)
        resolve(f"delira.io.load_checkpoint_{CHECKPOINTS[backend][0]}")(saved(folder, backend, **more), network)
        return outputs_of(network)

    return Entry(
        name=f"delira.io.load_checkpoint_{CHECKPOINTS[backend][0]}#network",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=load,
        expected=lambda arguments: OUTPUTS,
        wrong={"kind": ["of a later format"]},
        says={"kind": ["format 99"]},
        needs=BACKENDS[backend],
    )


# ------------------------------------------------------------------ exports

#: backend -> formats besides weights alone
FORMATS = {"PyTorch": [".pt2", ".onnx"], "TorchScript": [".ptj"], "Tf": [".savedmodel"], "Jax": [".stablehlo"]}


def exported(backend):
    """Export, and compute with the weights in the file."""

    def export(**arguments):
        from delira.io import export, load_weights

        network = linear(backend)
        load_weights(export(**arguments), network)
        return as_arrays(resolve("delira.models.named_weights")(network))

    ending = FORMATS[backend][0]
    yield Entry(
        name=f"delira.io.export#{backend}",
        good=lambda folder: {"network": filled(backend), "path": folder / "net.safetensors"},
        make=export,
        expected=lambda arguments: as_arrays(weights_of(backend)),
        right={"example": [None, {"data": INPUTS}]},
        wrong={"network": [5, None, "x", STRANGE, dict, {}], "path": [*NO_PATHS, "/tmp", "."]},
        says={"network": ["belongs to no backend"]},
        needs=(BACKENDS[backend], "safetensors"),
    )
    yield Entry(
        name=f"delira.io.export#{backend}{ending}",
        good=lambda folder: {
            "network": filled(backend),
            "path": folder / f"net{ending}",
            "example": {"data": INPUTS},
            "key_mapping": {"x": "data"},
        },
        use=lambda path, folder: path.name,
        expected=lambda arguments: f"net{ending}",
        right={"example": [{"data": INPUTS[:1]}], "key_mapping": [None], "preprocessing": [True, False]},
        wrong={
            "path": [f"net{other}" for other in (".nonsense", ".pkl", ".h5")],
            "example": [
                *NOT_A_MAPPING,
                None,
                {},
                {"other": INPUTS},
                {"data": "x"},
                {"data": None},
                {"data": INPUTS[:0]},
                {"data": np.float32(3)},
                {"data": STRANGE},
            ],
            "key_mapping": [*NOT_A_MAPPING, {"x": "dta"}, {"x": 5}, {5: "data"}, {"z": "data"}, {}, {"x": ["data"]}],
            "preprocessing": [None, "no", 1, {}],
        },
        says={"example": ["the example", "input"], "key_mapping": ["dta"]},
        needs=BACKENDS[backend],
        is_slow=True,
    )


# ------------------------------------------------------------------ estimators


def estimator(fitted=True, **params):
    """A ridge regression, alone and as a network."""
    from sklearn.linear_model import Ridge

    from delira.models import SklearnEstimator

    network = SklearnEstimator(Ridge(**params))
    if fitted:
        network.learn(INPUTS, OUTPUTS[:, 0], batch=False)
    return network


def predicted(network):
    """What it predicts."""
    return np.asarray(network(INPUTS)["pred"], dtype=float)


def ridge_by_hand():
    """Centred normal equations with a penalty of 1."""
    x, y = INPUTS.astype(float), OUTPUTS[:, 0].astype(float)
    centred = x - x.mean(0)
    slope = np.linalg.solve(centred.T @ centred + np.eye(3), centred.T @ (y - y.mean()))
    return centred @ slope + y.mean()


def saved_estimator(folder):
    """A checkpoint of an estimator."""
    from delira.io import save_checkpoint_sklearn

    return save_checkpoint_sklearn(folder / "net.zip", estimator(), epoch=3)


def loaded_estimator(made, folder=None):
    """What an estimator predicts that was read from a file."""
    from delira.io import load_checkpoint_sklearn

    return predicted(load_checkpoint_sklearn(made, estimator(fitted=False))["model"])


ESTIMATORS = [
    Entry(
        name="delira.io.save_checkpoint_sklearn",
        good=lambda folder: {"file": folder / "net", "model": estimator(), "epoch": 3},
        use=loaded_estimator,
        expected=lambda arguments: ridge_by_hand(),
        right={"epoch": [0, None, np.int64(5)]},
        wrong={"file": [*NO_PATHS, "/dev/null/a.zip"], "model": [*NO_MODELS, None], "epoch": EPOCHS},
        needs=("sklearn", "skops"),
    ),
    Entry(
        name="delira.io.load_checkpoint_sklearn",
        good=lambda folder: {"file": saved_estimator(folder), "model": estimator(fitted=False)},
        use=lambda tree, folder: predicted(tree["model"]),
        expected=lambda arguments: ridge_by_hand(),
        wrong={
            "file": NO_PATHS,
            "model": [*NO_MODELS, None, Fresh("other parameters", lambda: estimator(fitted=False, alpha=2.0))],
        },
        says={"model": ["other parameters"]},
        needs=("sklearn", "skops"),
    ),
    Entry(
        name="delira.io.load_checkpoint_sklearn#spoiled",
        good=lambda folder: {"folder": folder, "kind": "whole"},
        make=lambda folder, kind: loaded_estimator(spoiled(saved_estimator(folder), kind)),
        expected=lambda arguments: ridge_by_hand(),
        wrong={"kind": SPOILED},
        says={"kind": ["net.zip", "/file"]},
        needs=("sklearn", "skops"),
    ),
]

ENTRIES = [
    *map(saving, BACKENDS),
    *(entry for backend in BACKENDS for entry in loading(backend)),
    with_network("Tf"),
    *(entry for backend in BACKENDS for entry in exported(backend)),
    *ESTIMATORS,
]
