from delira.execution.executor import Executor as Executor
from delira.execution.executor import Handle as Handle
from delira.execution.executor import Resources as Resources
from delira.execution.executor import Shared as Shared
from delira.execution.processes import ProcessExecutor as ProcessExecutor

__all__ = [
    "Executor",
    "Handle",
    "ProcessExecutor",
    "Resources",
    "Shared",
]
