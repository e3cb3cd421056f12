"""Frames to the host and back. docs/host-calls.md is the contract.

The JSON encoder and scanner are C objects taken once: `json.dumps = None` in user code, or worse,
does not reach them.
"""

import json

import _host
from _json import encode_basestring, make_encoder

from _callgate.blocks import usable
from _callgate.errors import ToolCallError
from _callgate.texts import clean

send = _host.call
_scan = json.JSONDecoder().scan_once


def _refuse(value):
    raise TypeError("not a plain JSON value")


def plain_json(value):
    """JSON text of a value made of plain types; raises for anything else.

    The encoder is made anew each time, because one that failed remembers the objects it was in.
    """
    encoder = make_encoder({}, _refuse, encode_basestring, None, ":", ",", False, False, False)
    return "".join(encoder(value, 0))


def decode(answer):
    """The JSON value in an answer from the host."""
    return _scan(answer.decode(), 0)[0]


def ask(frame):
    """Send one request, given as a plain dict, and return the decoded answer."""
    return decode(_exchange(plain_json(frame).encode()))


def _exchange(frame):
    """Send a frame and return the answer; raises MemoryError where the guest has no room for it."""
    try:
        return send(frame)
    except OSError:
        raise MemoryError("there is no memory left for the host's answer (--max-memory)") from None


def start():
    """The run's source, tools, variables and limits."""
    return ask({"op": "start"})


def precheck(calls):
    """What is wrong with each of these calls; nothing, if the host cannot tell."""
    answer = ask({"op": "precheck", "calls": calls})
    return answer["problems"] if answer.get("ok") else [()] * len(calls)


def _call_frame(op, tool, server, arguments):
    """A call's frame around arguments that are JSON bytes already."""
    head = plain_json({"op": op, "tool": clean(tool), "server": server and clean(server)})
    return head[:-1].encode() + b',"arguments":' + arguments + b"}"


def call(tool, server, arguments):
    """Call a tool and wait for its value."""
    return value_of(tool, _answer(tool, _call_frame("call", tool, server, arguments)))


def submit(tool, server, arguments):
    """Start a tool call; returns the number under which `wait` will report it."""
    answer = _answer(tool, _call_frame("submit", tool, server, arguments))
    if not answer.get("ok"):
        raise failure(tool, answer)
    return answer["call"]


def wait(timeout_ms, patient=False):
    """The calls that have ended, waiting for one at most `timeout_ms` (None: for ever).

    `patient`: all that happens when the time is over is that the program gives up waiting.
    """
    answer = ask({"op": "wait", "timeout_ms": timeout_ms, "patient": patient})
    if not answer.get("ok"):
        raise RuntimeError(answer.get("message") or "the host did not wait")
    return answer.get("done") or ()


def servers(server):
    """What one of the operator's servers has, or all have (None)."""
    return ask({"op": "servers", "server": server and clean(server)}).get("servers") or ()


def cancel(call):
    """Say that nobody waits for a submitted call any more."""
    ask({"op": "cancel", "call": call})


def value_of(tool, answer):
    """The value in an answer, or the failure it tells of."""
    if answer.get("ok"):
        return usable(answer.get("value"))
    raise failure(tool, answer)


def failure(tool, answer):
    """The exception for an answer that is not ok."""
    return ToolCallError(tool, answer.get("message") or "no reason given", answer.get("request_id"))


def _answer(tool, frame):
    answer = _exchange(frame)
    try:
        return decode(answer)
    except (ValueError, RecursionError) as error:  # such as an integer of 5,000 digits
        raise ToolCallError(tool, f"its answer cannot be read: {error}") from None
