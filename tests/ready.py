"""Scripts in a process of their own that need not import torch: it is forked from one that has.

Importing torch takes two seconds of CPU time, PyG or DGL one or two more, and dozens of tests run a script.
The process that is forked, one for each list of modules, has imported these and done nothing else; gz and
its adapters, and whatever they do when they are imported, are the script's own. It runs as `__main__`, ends
as an interpreter does, and what it starts itself (spawned workers, torchrun) are fresh interpreters.

Not for tests of what is imported, in which order, or with which environment: OMP_NUM_THREADS is read by then.

`CLEAN` is the same for workers and ranks: as `spawn`, they get what they work on as a pickle and import gz to
read it. At least one test of each adapter spawns in earnest.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import CodeType

import waits

TORCH = ("numpy", "torch")
PYG = (*TORCH, "pyarrow", "torch_geometric.data", "torch_geometric.loader", "torch_geometric.nn")
DGL = (*TORCH, "pyarrow", "dgl", "dgl.nn")
CLEAN = "forkserver"  # a start method of multiprocessing

_servers: dict[tuple[str, ...], tuple[subprocess.Popen, socket.socket]] = {}


def run(
    command: Sequence[object],
    modules: tuple[str, ...],
    *,
    cwd: object = None,
    env: Mapping[str, str] | None = None,
    ignore_warnings: bool = False,
) -> subprocess.CompletedProcess[str]:
    """`python COMMAND`: a script, "-c" and code or "-m" and a module, and their arguments; output as text."""
    asked = {
        "command": [os.fspath(c) if isinstance(c, os.PathLike) else str(c) for c in command],
        "cwd": os.fspath(cwd or os.getcwd()),  # type: ignore[call-overload]
        "env": dict(os.environ if env is None else env),
        "ignore_warnings": ignore_warnings,
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        status = _ask(modules, asked, [out.fileno(), err.fileno()])
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


def _ask(modules: tuple[str, ...], asked: dict, files: list[int]) -> int:
    """The exit code of a child; negative, the signal that ended it."""
    text = json.dumps(asked).encode()
    _, server = _servers.get(modules) or _start(modules)
    try:
        socket.send_fds(server, [struct.pack("q", len(text))], files)
        server.sendall(text)
        server.settimeout(5 * waits.patience())
        answer = server.recv(8)
    except BaseException as error:  # pytest's own limit is one: the next to ask would get this one's answer
        _end(modules)
        if isinstance(error, TimeoutError):
            waits.give_up(f"a script hung, and was killed: {asked['command'][:3]}")
        raise
    if len(answer) != 8:
        _end(modules)
        raise AssertionError(f"the process that has {', '.join(modules)} ended")
    return os.waitstatus_to_exitcode(struct.unpack("q", answer)[0])


def _start(modules: tuple[str, ...]) -> tuple[subprocess.Popen, socket.socket]:
    ours, theirs = socket.socketpair()
    # What is left in `__main__` is what an interpreter has there that runs a script.
    code = f"exec(__import__('ready').serve({theirs.fileno()}, {list(modules)!r}))"
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    theirs.close()
    _servers[modules] = process, ours
    return process, ours


def _end(modules: tuple[str, ...]) -> None:
    process, server = _servers.pop(modules)
    server.close()
    os.killpg(process.pid, signal.SIGKILL)  # it is waited for here alone, so its number is its own
    process.wait()


@atexit.register
def _end_all(owner: int = os.getpid()) -> None:
    for modules in list(_servers) if os.getpid() == owner else ():
        _end(modules)


def preload() -> None:
    """Called before the first process is started by CLEAN; later it is in vain."""
    names = ["pytest", *TORCH, "torch_geometric.loader", "dgl"]
    multiprocessing.set_forkserver_preload([n for n in names if find_spec(n.partition(".")[0])])


# ---- the other side ----


def serve(number: int, modules: list[str]) -> CodeType:
    """Imports the modules, then forks for everyone who asks. Returns in the children only: what to run."""
    import importlib

    # The caller's own modules and options are not the script's.
    sys.path.remove(os.path.dirname(__file__))
    for name in modules:
        importlib.import_module(name)
    for name in ("ready", "waits"):
        sys.modules.pop(name, None)
    server = socket.socket(fileno=number)
    while True:
        head, files, _, _ = socket.recv_fds(server, 8, 2)
        if not head:
            os._exit(0)
        left, text = struct.unpack("q", head)[0], b""
        while len(text) < left:
            if not (part := server.recv(left - len(text))):
                os._exit(0)
            text += part
        child = os.fork()
        if child == 0:
            server.close()
            return _begin(json.loads(text), files)
        for file in files:
            os.close(file)
        server.sendall(struct.pack("q", os.waitpid(child, 0)[1]))


def _begin(asked: dict, files: list[int]) -> CodeType:
    """Makes this process what `python COMMAND` would be; the code to run."""
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    if asked["ignore_warnings"]:
        import warnings

        warnings.simplefilter("ignore")
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # what is drawn without a seed is not the same in every child
    script, *arguments = asked["command"]
    if script == "-m":
        name, *arguments = arguments
        script, arguments = (
            "-c",
            [f"__import__('runpy').run_module({name!r}, None, '__main__', True)", *arguments],
        )
    sys.path[1:1] = filter(None, asked["env"].get("PYTHONPATH", "").split(os.pathsep))
    if script == "-c":
        code, *arguments = arguments
        sys.argv = ["-c", *arguments]
        return compile(code, "<string>", "exec")
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    sys.modules["__main__"].__file__ = script
    with open(script) as f:
        return compile(f.read(), script, "exec")
