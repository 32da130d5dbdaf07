"""Where trainings run: here, in processes of this machine, or wherever an executor of one's own takes them."""

from delira.execution.executor import Executor, Handle, Resources, Shared
from delira.execution.fetching import fetch
from delira.execution.mirror import Mirror
from delira.execution.processes import ProcessExecutor
from delira.execution.ray_cluster import RayExecutor
from delira.execution.slurm import SlurmExecutor
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
