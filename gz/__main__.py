"""python -m gz: the same as the `gz` command."""

import sys

from gz.cli import main

if __name__ == "__main__":
    sys.exit(main())
