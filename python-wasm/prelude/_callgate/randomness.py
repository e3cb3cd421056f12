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
    # A number of 32 bits takes the legacy generator's quick road. An array of more costs as much
    # again as all the rest of a short run: it is checked with array operations.
    numpy.random.seed(int.from_bytes(urandom(4)))
