"""Notes on errors: where they happened, added to what they say themselves."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def noting(text: str) -> Iterator[None]:
    """Scope whose errors are told where they happened; their type and their traceback stay.

    Parameters
    ----------
    text
        Where, e.g. ``"in the validation of epoch 3"``.
    """
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise
