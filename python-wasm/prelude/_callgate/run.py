"""One run: from the start frame to the finish frame."""

import builtins
import sys
from types import ModuleType

from _callgate import (
    catalogue,
    host,
    loop,
    names,
    precheck,
    randomness,
    repair,
    servers,
    source,
    streams,
    tools,
    tracebacks,
    values,
)
from _callgate.convert import TooLarge
from _callgate.texts import cut_end, safe_str, type_name

_MAX_MESSAGE = 16 * 1024
_WORK_FOLDER = "/tmp"
_exit_code = SystemExit.__dict__["code"].__get__

# The run's value or error, kept alive: the instance is thrown away, and to take apart what is
# nested very deeply would exhaust the guest's stack.
_kept = []

# Made beforehand, for when there is no memory left to make it.
_OUT_OF_MEMORY = (
    b'{"op":"finish","status":"run-error","return_value":null,"exit_code":null,"error":'
    b'{"kind":"memory_limit","type":"MemoryError","message":"","traceback":"MemoryError\\n"}}'
)

_UNREPORTABLE = (
    b'{"op":"finish","status":"run-error","return_value":null,"exit_code":null,"error":'
    b'{"kind":"exception","type":null,"traceback":null,"message":"the program ended, but how cannot '
    b'be reported: something that it left behind stops whatever looks at it"}}'
)


def main():
    """Run the source that the host hands out, and report how it went."""
    start = host.start()
    randomness.reseed()
    try:
        frame = execute(start)
    except MemoryError:
        frame = _OUT_OF_MEMORY
    except BaseException:
        # An audit hook, a trace function or an exception that stops whatever looks at it.
        frame = _UNREPORTABLE
    try:
        host.send(frame)
    except BaseException:
        pass  # the host has the frame; what failed is taking its answer, for want of memory


def execute(start):
    """Run what a start frame says; returns the finish frame."""
    tools.set_limits(start["limits"])
    namespace = _make_main(start)
    try:
        frame = _run(start, namespace)
    except BaseException as error:
        _kept.append(error)
        _restore()
        frame = _after_failure(error, namespace)
    streams.flush()
    return frame


def forget():
    """Let go of what a run left; for the time before the snapshot."""
    _kept.clear()


def _restore():
    """Repair what the program broke, also if it still traces us: a tracer that raises is taken off."""
    for _ in range(4):  # there are tracers and profilers, each of which may raise here
        try:
            return repair.restore()
        except BaseException:
            continue


def _make_main(start):
    """A fresh `__main__` with everything the source may use."""
    module = ModuleType("__main__")
    namespace = vars(module)
    own = {**namespace, "__builtins__": builtins, "__file__": source.FILENAME}
    namespace.update(
        (name, value)
        for name, value in start["global_variables"].items()
        if not names.iskeyword(name)
    )
    named = servers.servers_of(start)
    functions = list(map(tools.ToolFunction, start["tools"]))
    bound = names.bind(functions)
    offered = catalogue.Tools(functions, bound, named)
    # There also where nothing was offered: programs may look.
    namespace.setdefault("tools", offered)
    namespace.setdefault("search_tools", catalogue.search_of(offered))
    namespace.setdefault("mcp", servers.Servers(named))
    namespace.update(bound)
    if named:
        namespace["mcp"] = servers.Servers(named)
    namespace.update(tools.OWN_NAMES)
    namespace.update(own)
    sys.modules["__main__"] = module
    sys.argv = [source.FILENAME]
    if _WORK_FOLDER not in sys.path:
        sys.path.insert(0, _WORK_FOLDER)
    return namespace


def _run(start, namespace):
    """The finish frame of a run that had the memory to make one."""
    try:
        program = source.compile_program(start["source"])
        if start.get("precheck") and start["tools"]:
            precheck.check(program, namespace)
    except precheck.Precheck as error:
        return _failed(_refusal(error), None)
    except (SyntaxError, ValueError) as error:
        return _failed(_error("syntax", error), None)
    except MemoryError as error:
        if not _is_too_complex(error):
            raise
        return _failed(_error("syntax", error), None)
    value = _execute(program, namespace)
    _kept.append(value)
    repair.restore()
    return _succeeded(value, start["limits"]["result_bytes"])


def _refusal(error):
    """What is wrong with the source's tool calls, before any of it has run."""
    text = cut_end(str(error), tracebacks.MAX_TEXT)
    return {"kind": "precheck", "type": "PrecheckError", "message": text, "traceback": text}


def _execute(program, namespace):
    """The value of the program; one that waits to be awaited is, for nobody else could do it."""
    if program.is_async:
        return loop.run(_awaited(program.run_async(namespace)))
    value = program.run(namespace)
    return loop.run(value) if loop.is_unawaited(value) else value


async def _awaited(coroutine):
    value = await coroutine
    return await value if loop.is_unawaited(value) else value


def _succeeded(value, limit):
    try:
        encoded = values.encode(value, limit)
    except TooLarge as error:
        return _failed(_too_large(error, limit), None)
    return _finish(b"success", encoded, b"null", None)


def _too_large(error, limit):
    size = error.args[0] if error.args else f"more than {limit}"
    message = (
        f"the value of the last expression is {size} bytes of JSON; the limit is {limit} "
        "(--max-result). Return less, such as a summary or the first rows."
    )
    return {"kind": "output_limit", "type": "ResultTooLarge", "message": message, "traceback": None}


def _after_failure(error, namespace):
    """The finish frame after an exception; at need with the run's memory given up for it."""
    try:
        return _report(error)
    except MemoryError:
        _release(error, namespace)
    except BaseException:
        return _failed(_bare(error), None)
    try:
        return _report(error)
    except BaseException:
        return _OUT_OF_MEMORY


def _bare(error):
    """For when the program keeps us from describing its exception."""
    name = cut_end(type_name(type(error)), 256)
    message = "<no description could be made>"
    return {"kind": "exception", "type": name, "message": message, "traceback": f"{name}: {message}\n"}


def _release(error, namespace):
    """Let go of what the run held: it is over, and the report needs memory."""
    namespace.clear()
    traceback = error.__traceback__
    while traceback is not None:
        try:
            traceback.tb_frame.clear()
        except RuntimeError:
            pass  # a frame that still runs is ours
        traceback = traceback.tb_next


def _report(error):
    # Not isinstance: that asks the object for its class, and the object may answer anything.
    if issubclass(type(error), SystemExit):
        return _exited(error)
    out_of_memory = issubclass(type(error), MemoryError) and not _is_too_complex(error)
    kind = "memory_limit" if out_of_memory else "exception"
    return _failed(_error(kind, error), None)


def _is_too_complex(error):
    """Whether this is what the parser raises for source that is nested too deeply."""
    text = safe_str(error)
    return text is not None and text.startswith("Parser stack overflowed")


def _exited(error):
    """`sys.exit` with nothing or 0 is success; a text goes to standard error."""
    code = _exit_code(error)
    number = int.__pos__(code) if issubclass(type(code), int) else None
    if code is None or number == 0:
        return _finish(b"success", b"null", b"null", 0)
    if number is not None:
        number = number if -(2**31) <= number < 2**31 else -1
        return _failed(_error("exception", error), number)
    text = safe_str(code)
    if text is not None:
        streams.write_error(text + "\n")
    return _failed(_error("exception", error), 1)


def _error(kind, error):
    repair.restore_library()
    text = safe_str(error)
    message = "<exception str() failed>" if text is None else cut_end(text, _MAX_MESSAGE)
    return {
        "kind": kind,
        "type": cut_end(type_name(type(error)), 256),
        "message": message,
        "traceback": tracebacks.describe(error),
    }


def _failed(error, exit_code):
    return _finish(b"run-error", b"null", host.plain_json(error).encode(), exit_code)


def _finish(status, value, error, exit_code):
    code = b"null" if exit_code is None else str(exit_code).encode()
    return (
        b'{"op":"finish","status":"' + status + b'","return_value":' + value
        + b',"error":' + error + b',"exit_code":' + code + b"}"
    )
