"""Reads the next chunk on a thread of its own while the engine works on the last one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items in the same order. At most two exist that the caller has not asked for: one that waits
    and one being made. What `items` raises is raised here, in its place."""
    waiting: queue.Queue[Any] = queue.Queue(1)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.2)
                return True
            except queue.Full:
                pass
        return False

    def fill() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as e:  # handed over, not handled: the caller's thread raises it
            put((_END, e))

    thread = threading.Thread(target=fill, name="gz-ingest-read", daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
            del item  # or it would live until the next one has arrived
    finally:
        stopped.set()
        thread.join()
