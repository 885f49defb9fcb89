"""`python -m mrcjax` is the command `mrcjax`."""

import sys

from mrcjax.cli import main

sys.exit(main())
