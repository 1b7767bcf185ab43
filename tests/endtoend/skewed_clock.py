"""A plugin for ``-p``: the run's own clock is off by the seconds of the variable CLOCK_SKEW."""

import os
import time

_true, _skew = time.time, float(os.environ["CLOCK_SKEW"])
time.time = lambda: _true() + _skew
