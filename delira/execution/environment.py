"""Environment variables that a program has set, for processes of other machines that compute for it."""

import contextlib
import os
import re
from pathlib import Path

from delira.utils.urls import secrets_in

#: names of variables that belong to one machine or process (also what frameworks set when they have looked around)
_OF_MACHINE = re.compile(
    r"(RAY|SLURM|TPU|PYTEST|SSH|XDG|CONDA|JPY)_.*|.*_VISIBLE_DEVICES|(|LD_LIBRARY_|PYTHON|HDF5_PLUGIN_)PATH|LD_PRELOAD|"
    r"HOME|USER|PWD|OLDPWD|TMPDIR|TEMP|TMP|SHLVL|HOSTNAME|LOGNAME|PYTHONHOME|VIRTUAL_ENV|MPLBACKEND|WANDB_SERVICE|"
    r"MASTER_(ADDR|PORT)|(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|_"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
#: where the system does not tell what a process began with
_WHEN_IMPORTED = {**os.environ}


def environment_set() -> dict[str, str]:
    """Return the environment variables that this program has set since it began: libraries read them.

    What belongs to this machine is left out, and what may be secret: a cluster shows such variables to its users.
    """
    began = _WHEN_IMPORTED
    with contextlib.suppress(OSError):  # a program may set some before it imports anything
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
        began = dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry) or began
    return {
        name: value
        for name, value in os.environ.items()
        if began.get(name) != value
        and not (_OF_MACHINE.fullmatch(name) or _SECRET.search(name) or ("://" in value and secrets_in(value)))
    }
