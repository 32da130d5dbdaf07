"""What a piece of code prints in processes of its own."""

import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[1]


def printed(code, folder, hash_seeds="12"):
    """All that a piece of code prints, run in a folder with each of some seeds of Python's hashes."""
    environments = [os.environ | {"PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": seed} for seed in hash_seeds]
    command = [sys.executable, "-c", code]
    return {
        subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=True).stdout
        for env in environments
    }
