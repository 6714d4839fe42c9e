"""`help()` of every public name says what it is: a docstring wherever gz defines something, and in it the
arguments. Those that PyG's or DGL's counterpart has are explained there."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

PACKAGES = {"gz": "numpy", "gz_pyg": "torch_geometric", "gz_dgl": "dgl"}
# What a name says by itself, everywhere the same: of a column or split, of a type, of a file or store.
PLAIN = {"self", "cls", "name", "t", "path"}


def own(thing) -> bool:
    """Whether gz wrote it, and not a framework or Python."""
    return (getattr(thing, "__module__", None) or "").split(".")[0] in PACKAGES


def members(cls):
    """What gz defines of a class, in the class or in one it derives from."""
    for base in cls.__mro__:
        for name, value in vars(base).items() if own(base) else ():
            value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            value = value.fget if isinstance(value, property) else value
            if not name.startswith("_") and inspect.isfunction(value) and own(value):
                yield name, value


def public(package):
    for name in package.__all__:
        thing = getattr(package, name)
        if name.startswith("__") or not callable(thing):
            continue
        yield f"{package.__name__}.{name}", thing
        if inspect.isclass(thing):
            yield from ((f"{package.__name__}.{name}.{n}", m) for n, m in members(thing))


def text_of(thing) -> str:
    """Its docstring; of a class that of __init__ too."""
    found = [thing.__doc__ or ""]
    if inspect.isclass(thing) and own(thing.__init__):
        found.append(thing.__init__.__doc__ or "")
    return "\n".join(found)


def explained_elsewhere(thing) -> set[str]:
    """The arguments of what a framework has under the same name: "as PyG's" says enough of them."""
    if not inspect.isclass(thing):
        return set()
    found: set[str] = set()
    for base in thing.__mro__[1:]:
        if own(base):  # NeighborLoader's are explained in NodeLoader's too
            found |= {n for n in inspect.signature(base).parameters if re.search(rf"\b{n}\b", text_of(base))}
        elif base.__module__.startswith(("torch_geometric.", "dgl.")):
            found |= set(inspect.signature(base.__init__).parameters)
    return found - {"kwargs"}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_explains_itself(name):
    pytest.importorskip(PACKAGES[name])
    package = importlib.import_module(name)
    silent, unnamed = [], []
    for what, thing in public(package):
        text = text_of(thing)
        if not text.strip():
            silent.append(what)
            continue
        if inspect.isclass(thing) and ("Made by ``" in text or issubclass(thing, Exception)):
            continue
        if re.match(r"As (PyG|DGL)'s", text.strip()):
            continue
        try:
            arguments = set(inspect.signature(thing).parameters)
        except ValueError:  # of the engine: nanobind writes the signature into the docstring
            continue
        arguments -= PLAIN | explained_elsewhere(thing)
        missing = {a for a in arguments if not a.startswith("_") and not re.search(rf"\b{a}\b", text)}
        if missing:
            unnamed.append(f"{what}: {', '.join(sorted(missing))}")
    assert not silent, f"without a docstring: {silent}"
    assert not unnamed, "arguments that no docstring names:\n" + "\n".join(unnamed)
