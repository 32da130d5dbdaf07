"""What no backend can make an input of without losing a part of it."""

from delira.errors import DataError


def refuse_complex(is_complex: bool) -> None:
    """Refuse complex numbers where a backend is about to make float32 of the entry ``"data"``.

    Raises
    ------
    DataError
        If they are; says how to keep both parts.
    """
    if is_complex:
        raise DataError(
            "the batch entry 'data' holds complex numbers, and as float32 they would lose their imaginary part; pass "
            "real and imaginary part as two channels, np.stack([x.real, x.imag], axis=1), or write prepare_batch"
        )
