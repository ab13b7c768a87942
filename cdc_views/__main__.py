"""`python -m cdc_views`: the command line."""

import sys

from cdc_views.cli import main

sys.exit(main())
