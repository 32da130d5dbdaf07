from delira.execution.executor import Executor as Executor
from delira.execution.executor import Handle as Handle
from delira.execution.executor import Resources as Resources
from delira.execution.executor import Shared as Shared
from delira.execution.fetching import fetch as fetch
from delira.execution.mirror import Mirror as Mirror
from delira.execution.processes import ProcessExecutor as ProcessExecutor
from delira.execution.ray_cluster import RayExecutor as RayExecutor
from delira.execution.slurm import SlurmExecutor as SlurmExecutor

__all__ = [
    "Executor",
    "Handle",
    "Mirror",
    "ProcessExecutor",
    "RayExecutor",
    "Resources",
    "Shared",
    "SlurmExecutor",
    "fetch",
]
