"""Run the command line: `python -m linmed.cli`."""

import sys

from linmed.cli import main

sys.exit(main())
