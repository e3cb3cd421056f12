"""The exception that a failed tool call raises."""


class ToolCallError(Exception):
    """A tool call failed: refused, timed out, or answered with an error."""

    def __init__(self, tool_name, message, request_id=None):
        # All three in `args`, so that pickle and copy rebuild the exception.
        super().__init__(tool_name, message, request_id)
        self.tool_name = tool_name
        self.message = message
        self.request_id = request_id

    def __str__(self):
        return f"Tool call {self.tool_name!r} failed: {self.message}"


# User code sees it as its own: tracebacks print the bare name, and pickle finds it in `__main__`.
ToolCallError.__module__ = "__main__"
