"""Where callgate is."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Server: TypeAlias = str | Sequence[str]
"""The URL of a server (`http://127.0.0.1:8420/mcp`), or the command that starts one (`["callgate"]`)."""


@dataclass(frozen=True)
class Command:
    """A server that the client starts."""

    program: str
    arguments: list[str]
    # Libraries pass on only a few variables by themselves, and callgate takes its settings from others.
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @classmethod
    def of(cls, server: Sequence[str]) -> "Command":
        """Take a command apart."""
        program, *arguments = server
        return cls(program, arguments)
