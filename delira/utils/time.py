"""Time stamps."""

import datetime


def now() -> str:
    """Local time as ``YYYY-MM-DD_HH-MM-SS``."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
