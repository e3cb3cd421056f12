"""Libraries that are there only if the agent uses them."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Around imports: say what to install where they fail."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{error}; install callgate-client[{extra}]") from error
