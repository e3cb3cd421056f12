"""Stands in for the guest's `_host` module: answers are scripted, requests are kept."""

import contextlib
import io
import json
import sys

requests = []
_script = {}


def call(frame):
    """What the guest calls: bytes to bytes."""
    request = json.loads(frame)
    requests.append(request)
    answer = _script.get(request["op"], {"ok": True})
    return json.dumps(answer(request) if callable(answer) else answer).encode()


def script(**answers):
    """Start over with these answers: a value, or a function of the request, for each `op`."""
    requests.clear()
    _script.clear()
    _script.update(answers)


def sent(op):
    """The requests of one kind, in order."""
    return [request for request in requests if request["op"] == op]


class Parallel:
    """Answers submitted calls by their tool's name, in the order that `wait` is asked for them."""

    def __init__(self, answers, order=None):
        self.answers = answers
        self.order = order
        self.pending = []
        self.waits = []

    def submit(self, request):
        self.pending.append(request)
        return {"ok": True, "call": len(sent("submit"))}

    def wait(self, request):
        self.waits.append(request["timeout_ms"])
        if not self.pending or request["timeout_ms"] == 0:
            return {"ok": True, "done": []}
        request = self.pending.pop(0 if self.order != "last first" else -1)
        number = sent("submit").index(request) + 1
        answer = self.answers[request["tool"]]
        if not (isinstance(answer, dict) and "ok" in answer):
            answer = {"ok": True, "value": answer}
        return {"ok": True, "done": [{"call": number, **answer}]}

    def script(self):
        return {"submit": self.submit, "wait": self.wait}


class Result:
    """What a run left behind: its finish frame and what it printed."""

    def __init__(self, frame, output, errors):
        self.frame = frame
        self.status = frame["status"]
        self.value = frame["return_value"]
        self.error = frame["error"]
        self.exit_code = frame["exit_code"]
        self.output = output
        self.errors = errors


def run(source, tools=(), variables=None, limits=None, operator_servers=(), **answers):
    """Run a source the way the host does, and return what came of it."""
    import _callgate

    limits = {"result_bytes": 1 << 20, "arguments_bytes": 1 << 20, **(limits or {})}
    start = {
        "source": source,
        "tools": [tool if isinstance(tool, dict) else {"name": tool} for tool in tools],
        "global_variables": variables or {},
        "servers": list(operator_servers),
        "limits": limits,
        "precheck": "precheck" in answers,
    }
    script(start=start, **answers)
    output, errors = io.StringIO(), io.StringIO()
    with _interpreter_state():
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            _callgate.main()
    return Result(sent("finish")[-1], output.getvalue(), errors.getvalue())


@contextlib.contextmanager
def _interpreter_state():
    """A run leaves its marks on the interpreter, which in the guest is then thrown away."""
    main, argv, path = sys.modules["__main__"], sys.argv, list(sys.path)
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
