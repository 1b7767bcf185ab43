"""``python -m gpu_conformance``."""

import sys

from gpu_conformance.command import main

sys.exit(main())
