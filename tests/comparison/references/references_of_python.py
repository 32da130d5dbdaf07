"""What other packages of Python say of the numbers of inputs.json.

    python references_of_python.py    # in this folder; writes references_of_python.json

Needs baycomp, mlxtend, statsmodels and scikit-posthocs (requirements/peers.txt). Where they are installed, the tests
ask them again; where not, the tests compare with what is written here.
"""

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
INPUTS = json.loads((HERE / "inputs.json").read_text())


def of_baycomp() -> dict[str, Any]:
    import baycomp

    found = {}
    for name, runs in (("ten_folds", 1), ("five_folds", 1), ("many_folds", 3)):
        differences = np.array(INPUTS[name])
        for rope in (0.0, 0.01):
            test = baycomp.CorrelatedTTest(differences, np.zeros(len(differences)), rope=rope, runs=runs)
            found[f"{name} {rope:g}"] = [float(share) for share in test.probs()]  # first better, (rope,) second better
    return found


def of_mlxtend() -> dict[str, Any]:
    from mlxtend.evaluate import mcnemar, mcnemar_table

    first, second = np.array(INPUTS["right_first"]), np.array(INPUTS["right_second"])
    table = mcnemar_table(y_target=np.ones(len(first)), y_model1=first, y_model2=second)
    _, p_value = mcnemar(table, exact=True)
    return {"mcnemar": float(p_value)}


def of_statsmodels() -> dict[str, Any]:
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests

    first, second = np.array(INPUTS["right_first"]), np.array(INPUTS["right_second"])
    table = [[np.sum((first == a) & (second == b)) for b in (1, 0)] for a in (1, 0)]
    return {
        "mcnemar": float(mcnemar(table, exact=True).pvalue),
        "holm": multipletests(INPUTS["p_values"], method="holm")[1].tolist(),
    }


def of_posthocs() -> dict[str, Any]:
    from scikit_posthocs import posthoc_nemenyi_friedman

    return {"nemenyi": posthoc_nemenyi_friedman(np.array(INPUTS["scores"])).to_numpy().tolist()}


#: package -> what it says
ASK = {"baycomp": of_baycomp, "mlxtend": of_mlxtend, "statsmodels": of_statsmodels, "scikit-posthocs": of_posthocs}


def main() -> None:
    versions = {package: importlib.metadata.version(package) for package in ASK}
    content = {"command": "python references_of_python.py", "versions": versions}
    content |= {package: ask() for package, ask in ASK.items()}
    (HERE / "references_of_python.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
