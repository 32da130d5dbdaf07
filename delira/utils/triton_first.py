"""To be imported by a backend before its framework is; see :func:`delira.utils.import_order.import_triton_first`."""

from delira.utils.import_order import import_triton_first

import_triton_first()
