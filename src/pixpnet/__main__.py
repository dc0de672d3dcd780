"""``python -m pixpnet``: the command line, where its script is not on the path."""

import sys

from pixpnet.cli import main

if __name__ == "__main__":
    sys.exit(main())
