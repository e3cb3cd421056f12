"""What a model is told of `run_python_code` once its `available_tools` are filled in for it."""

from typing import Any

CODE_ONLY: dict[str, Any] = {
    "type": "object",
    "properties": {"python_code": {"type": "string", "description": "The Python source to run."}},
    "required": ["python_code"],
    "additionalProperties": False,
}
"""The tool's parameters, without those that the model need not fill in."""


def describe(description: str, offered: str) -> str:
    """Add to the server's description what is offered."""
    return f"{description}\n\n`available_tools` is filled in for you. It has:\n\n{offered}"
