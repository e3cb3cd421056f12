"""A model behind an API like OpenAI's: it says what its script says, in chunks."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]


class ScriptedModel:
    """Runs programs, one after the other, and repeats at the end what it was told last."""

    def __init__(self, *programs: str) -> None:
        self.programs = list(programs)
        self.requests: list[Message] = []
        self.url = ""

    @property
    def tool(self) -> Message:
        """What the model was told of `run_python_code`."""
        tools = [tool["function"] for tool in self.requests[0]["tools"]]
        return next(tool for tool in tools if tool["name"] == "run_python_code")

    def chunks(self, request: Message) -> Iterator[Message]:
        """The next message, in pieces."""
        self.requests.append(request)
        if not self.programs:
            yield {"role": "assistant", "content": request["messages"][-1]["content"]}
            return
        arguments = json.dumps({"python_code": self.programs.pop(0)})
        half = len(arguments) // 2
        call = {"index": 0, "id": f"call-{len(self.requests)}", "type": "function"}
        first = {"name": "run_python_code", "arguments": arguments[:half]}
        rest = {"name": None, "arguments": arguments[half:]}
        yield {"role": "assistant", "content": None, "tool_calls": [{**call, "function": first}]}
        yield {"role": "assistant", "content": None, "tool_calls": [{**call, "function": rest}]}


@contextmanager
def scripted_model(*programs: str) -> Iterator[ScriptedModel]:
    """Serves a model until the block ends."""
    model = ScriptedModel(*programs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for delta in model.chunks(json.loads(body)):
                choice = {"index": 0, "delta": delta, "finish_reason": None}
                chunk = {
                    "id": "x",
                    "created": 0,
                    "model": "scripted",
                    "system_fingerprint": "",
                    "choices": [choice],
                }
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield model
        finally:
            server.shutdown()
