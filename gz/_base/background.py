"""Work done ahead in background threads that end when they should.

A Pipeline is a chain of stages, each with threads of its own; what is submitted goes through them in order.
The threads end when the pipeline is closed or dropped, and before the interpreter does (at exit it waits for
them: a thread killed inside the engine would take the process down). They never live across a fork: they
stand still while the process forks, so that nothing they use is caught half-way, and the child, which has
none of them, starts its own and does itself what it inherited unfinished.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Stage = Callable[[Any], Any]
T = TypeVar("T")

# A stage that waits for the forking thread itself must not hang it; every other one is done long before.
_FORK_PATIENCE = 10.0
# How long a waiter sleeps before it looks by itself; another one may have been interrupted with the lock.
_PATIENCE = 1.0


class _Process:
    pid = os.getpid()  # asked for with every batch; a system call costs more than this


_process = _Process()


class Task:
    """One value on its way through the stages of a pipeline.

    Attributes:
        finished: whether the result is there.
        value: then, what result() will return; None if it will raise.
    """

    __slots__ = ("_done", "_error", "_input", "_pid", "_stages", "finished", "value")

    def __init__(self, stages: tuple[Stage, ...], value: Any):
        self._stages, self._input, self.value = stages, value, value
        self._pid: int | None = None  # the process whose threads have it; None: nobody's
        # Held until the result is there; made by the first who waits. An Event would do but for Ctrl-C:
        # Condition.wait, in Python, has a place where an interrupt leaves its lock released, to be released
        # once more.
        self._done: Any = None
        self.finished = False
        self._error: BaseException | None = None

    @classmethod
    def failed(cls, error: BaseException) -> Task:
        """A task whose result() raises `error`."""
        task = cls((), None)
        task._error = error
        task._finish()
        return task

    def wait(self) -> None:
        """Until the result is there."""
        if self.finished:
            return
        if self._pid == _process.pid:
            done = self._done
            if done is None:
                done = threading.Lock()
                done.acquire()
                self._done = done  # of two who do this at once one looks by itself
            while not self.finished:
                if done.acquire(timeout=_PATIENCE):
                    done.release()
            return
        self.value = self._input  # its threads stayed behind in the parent process
        for stage in self._stages:
            self._advance(stage)
        self._finish()

    def result(self) -> Any:
        """What the last stage returned. Raises what a stage raised, once, with its traceback."""
        if not self.finished:
            self.wait()
        if self._error is not None:
            # Kept, it would form a cycle with its own traceback.
            error, self._error = self._error, RuntimeError("the error of this task was raised before")
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return self.value

    def _advance(self, stage: Stage) -> None:
        if self._error is None:
            try:
                self.value = stage(self.value)
            except BaseException as error:
                self._error, self.value = error, None

    def _finish(self) -> None:
        self.finished = True
        self._input = None  # only now: a fork may come between any two lines
        if self._done is not None:
            self._done.release()


class _Shared:
    """What the threads of a pipeline hold. Not the pipeline, for dropping that is what ends them, and not its
    stages, which may lead to whoever holds it: a loader that keeps its iterator, a file that reads itself."""

    def __init__(self, stages: int):
        self.inboxes: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(stages)]
        self.pid = _process.pid  # the process whose threads they are
        self.stopped = False


class _Worker(threading.Thread):
    _numbers = itertools.count(1)

    def __init__(self, shared: _Shared, stage: int, name: str):
        super().__init__(name=f"{name}-{next(self._numbers)}", daemon=True)
        self.shared, self.stage = shared, stage
        self.busy = threading.Lock()  # held while it works

    def run(self) -> None:
        try:
            _serve(self.shared, self.stage, self.busy)
        finally:
            _live.discard(self)  # without the lock: its holder may be waiting for this thread


def _serve(shared: _Shared, stage: int, busy: Any) -> None:
    inbox = shared.inboxes[stage]
    last = stage + 1 == len(shared.inboxes)
    while True:
        task = inbox.get()
        if task is None or shared.stopped:
            return
        with busy:
            task._advance(task._stages[stage])
        if last:
            task._finish()
        else:
            shared.inboxes[stage + 1].put(task)
        del task  # a thread that waits for work keeps no batch alive


_live: set[_Worker] = set()
_live_lock = threading.Lock()
_start_lock = threading.Lock()  # two threads may submit to a pipeline at once


class Pipeline:
    """Stages with threads of their own.

    Args:
        stages: functions of one value; the result of one is the value of the next.
        threads: for each stage. With one, results are finished in the order of submission.
        name: of the threads.
    """

    def __init__(self, *stages: Stage, threads: int = 1, name: str = "gz-ahead"):
        self._stages, self._threads, self._name = stages, threads, name
        self._shared: _Shared | None = None
        self._workers: list[_Worker] = []
        self._closed = False

    def submit(self, value: Any) -> Task:
        """Starts work on a value. Without threads (none to be had, or closed), result() does it."""
        task = Task(self._stages, value)
        shared = self._shared
        if shared is None or shared.stopped or shared.pid != _process.pid:
            shared = self._running()
        if shared is not None:
            task._pid = shared.pid
            shared.inboxes[0].put(task)
        return task

    def close(self, wait: bool = True) -> None:
        """Ends the threads; what is not finished stays undone. Waits for work in progress if told to."""
        self._closed = True
        shared, self._shared = self._shared, None
        if shared is None or shared.pid != _process.pid:
            return
        shared.stopped = True
        for inbox in shared.inboxes:
            for _ in range(self._threads):
                inbox.put(None)
        if wait:
            for worker in self._workers:
                if worker is not threading.current_thread():
                    worker.join()

    def __del__(self) -> None:
        # Never waits: this may run inside any allocation, with any lock held.
        self.close(wait=False)

    def _running(self) -> _Shared | None:
        with _start_lock:
            shared = self._shared
            if self._closed or (shared is not None and shared.pid == _process.pid):
                return None if shared is None or shared.stopped else shared
            shared = _Shared(len(self._stages))
            workers = [
                _Worker(shared, stage, self._name)
                for stage in range(len(self._stages))
                for _ in range(self._threads)
            ]
            if not _start(workers):
                shared.stopped = True
                for inbox in shared.inboxes:
                    for _ in workers:
                        inbox.put(None)
                return None
            self._shared, self._workers = shared, workers
            return shared


def _start(workers: list[_Worker]) -> bool:
    """Whether all of them could be started."""
    _register_exit()
    for worker in workers:
        with _live_lock:
            _live.add(worker)  # before it can end
            try:
                worker.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                _live.discard(worker)
                return False
    return True


class Ticker:
    """Calls a function again and again in a thread of its own, until it returns False or this is closed.

    Args:
        function: what it raises ends the calls and is raised by nobody: it must not fail.
        every: seconds between two calls.
        name: of the thread.
    """

    def __init__(self, function: Callable[[], object], every: float, name: str = "gz-ticker"):
        self._worker = _TickingWorker(function, every, name)
        self._pid = _process.pid
        _start([self._worker])

    def close(self) -> None:
        """Waits for a call that is running. A forked child has no such thread, and nothing to wait for."""
        self._worker.shared.inboxes[0].put(None)
        if self._pid == _process.pid and self._worker is not threading.current_thread():
            with suppress(RuntimeError):  # it could not be started
                self._worker.join()

    def __del__(self) -> None:
        self._worker.shared.inboxes[0].put(None)


class _TickingWorker(_Worker):
    def __init__(self, function: Callable[[], object], every: float, name: str):
        super().__init__(_Shared(1), 0, name)
        self._function, self._every = function, every

    def run(self) -> None:
        try:
            while True:
                try:
                    self.shared.inboxes[0].get(timeout=self._every)
                    return
                except Empty:
                    with self.busy:
                        if self._function() is False:
                            return
        finally:
            _live.discard(self)


# ---- the end of the process, and its copies ----

_exit_registered = False


def _register_exit() -> None:
    """As late as possible: handlers run last in, first out, and the threads may use what others tear down."""
    global _exit_registered
    if not _exit_registered:
        _exit_registered = True
        atexit.register(_end_all)


def _end_all() -> None:
    with _live_lock:
        workers = list(_live)
    for worker in workers:
        worker.shared.stopped = True
        for inbox in worker.shared.inboxes:
            inbox.put(None)
    for worker in workers:
        if worker is not threading.current_thread():
            worker.join()


_held: list[Any] = []


def _before_fork() -> None:
    if not _live_lock.acquire(timeout=_FORK_PATIENCE):
        return
    _held.append(_live_lock)
    me = threading.current_thread()
    for worker in list(_live):
        if worker is not me and worker.busy.acquire(timeout=_FORK_PATIENCE):
            _held.append(worker.busy)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    global _live_lock, _start_lock
    _process.pid = os.getpid()
    _held.clear()
    _live.clear()
    _live_lock, _start_lock = threading.Lock(), threading.Lock()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)


# ---- iterators, worked ahead of ----

_END: Any = object()


def ahead(items: Iterable[T], most: int = 2) -> Iterator[T]:
    """The same items in the same order, made on a thread of their own; at most `most` exist that the caller
    has not asked for. What `items` raises is raised here, in its place."""
    source = iter(items)
    made = calls(lambda _: next(source, _END), itertools.repeat(None), most=most)
    try:
        for item in made:
            if item is _END:
                return
            yield item
            del item  # or it would live until the next one has arrived
    finally:
        made.close()  # type: ignore[attr-defined]
        if hasattr(source, "close"):
            source.close()


def calls(
    function: Callable[[Any], T], values: Iterable[Any], threads: int = 1, most: int = 2
) -> Iterator[T]:
    """function(v) for every value, in order, on threads of their own; at most `most` are begun that the
    caller has not asked for."""
    pipeline = Pipeline(function, threads=threads, name="gz-ahead")
    begun = deque()  # type: ignore[var-annotated]
    try:
        for value in values:
            begun.append(pipeline.submit(value))
            if len(begun) > most:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pipeline.close()
