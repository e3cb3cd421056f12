"""A snapshot freezes random number generators; every run gets fresh ones."""

import random
import sys
from os import urandom


def reseed():
    """Seed `random`, and `numpy.random` if it is loaded, from the system's randomness."""
    random.seed()
    if "numpy.random" in sys.modules:
        _reseed_numpy(sys.modules["numpy"])


def _reseed_numpy(numpy):
    # An array of words takes the legacy generator's quick road: no SeedSequence is built.
    numpy.random.seed(numpy.frombuffer(urandom(64), dtype=numpy.uint32))
