"""``python -m timermq.cli``: the program, for those who start it by module."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
