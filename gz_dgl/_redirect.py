"""Puts another body into a function of DGL's, in place.

A script may have imported the function before it imported gz_dgl (`from dgl import seed`), and DGL's own
modules, methods and classes hold it under many names. All of them hold the same function object: its code is
what is replaced.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def _body(*args: Any, **kwargs: Any) -> Any:
    return _slot(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821  the one name, replaced


def redirect(function: Any, make: Callable[[Function], Function]) -> None:
    """From now on calls of `function` go to ``make(original)``, where original does what it did so far."""
    if getattr(function, "_gz_original", None) is not None:
        return
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} is made by a decorator: its body cannot be replaced")
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    slot = f"_gz_{function.__qualname__}"
    function.__globals__[slot] = make(original)  # where the new body, like the old, looks for names
    function.__signature__ = inspect.signature(original)
    function.__code__ = _body.__code__.replace(co_name=function.__name__, co_names=(slot,))
    function.__defaults__ = function.__kwdefaults__ = None
    function._gz_original = original
