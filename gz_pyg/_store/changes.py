"""A clock that every change to the attributes of loaded graphs moves on.

Whoever made something of a graph looks at it first and makes it then: while the clock stands, nothing was
replaced, deleted, added, or given out as a tensor to which somebody could write. A change moves the clock
after it has happened, so a look that falls in between is out of date, never wrong.
"""

from __future__ import annotations

import itertools


class _Clock:
    now = 0


CLOCK = _Clock()
_times = itertools.count(1)  # each once, whichever thread: a time that was seen never comes again


def changed() -> None:
    CLOCK.now = next(_times)
