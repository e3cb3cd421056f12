"""Tests of the prelude under an ordinary CPython, with a fake host."""

import sys

from tests import fake_host

sys.modules["_host"] = fake_host
