"""``python -m delira`` is the command ``delira``."""

import sys

from delira.cli import main

if __name__ == "__main__":
    sys.exit(main())
