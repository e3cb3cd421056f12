"""The prelude: what runs in the guest around the user's code.

Nothing here may depend on state that user code can reach and damage. Every module keeps its own
references to what it needs, and in the guest `bootstrap.py` gives them a private copy of builtins.
"""

from _callgate.run import main

__all__ = ["main"]
