"""Put back what user code may have broken, so that the standard library can help finish the run."""

import builtins
import sys

_live_builtins = vars(builtins)
_live_sys = vars(sys)
_live_modules = sys.modules
_setrecursionlimit = sys.setrecursionlimit
_settrace = sys.settrace
_setprofile = sys.setprofile
_saved = {}


def remember():
    """Take the state to go back to; before user code has run."""
    _saved["builtins"] = dict(_live_builtins)
    _saved["sys"] = dict(_live_sys)
    _saved["modules"] = dict(_live_modules)
    _saved["recursionlimit"] = sys.getrecursionlimit()


def restore():
    """Cheap repairs, made at the end of every run."""
    for unset in (_settrace, _setprofile):
        try:
            unset(None)
        except BaseException:  # an audit hook may refuse, and cannot be taken away
            continue
    _live_builtins.update(_saved["builtins"])
    try:
        _setrecursionlimit(_saved["recursionlimit"])
    except BaseException:
        pass  # a limit below where we stand is refused, but ours is above; or it is such a hook


def restore_library():
    """Dearer repairs, made when a traceback must be formatted."""
    _live_sys.update(_saved["sys"])
    for name, module in _saved["modules"].items():
        _live_modules.setdefault(name, module)


remember()
