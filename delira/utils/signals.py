"""Signals of people and schedulers, and one that is for nobody but processes of delira."""

import os
import signal

#: makes a worker write down what each of its threads is doing; not one that a scheduler sends to all processes of a job
DUMP_SIGNAL = signal.SIGRTMIN + 3 if hasattr(signal, "SIGRTMIN") else getattr(signal, "SIGUSR2", signal.SIGTERM)
#: SIGUSR1 is what SLURM is usually told to send before the time is over; Windows has none
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


def of_submitit() -> tuple[int, ...]:
    """What submitit has SLURM send before a job is queued again, and means something only where somebody hears it."""
    names = ("SIGUSR2", f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}")
    numbers = {getattr(signal, name) for name in names if isinstance(getattr(signal, name, None), signal.Signals)}
    return tuple(sorted(numbers - {*STOP_SIGNALS, DUMP_SIGNAL}))
