"""What would make training from a store faster here, or safe: sentences that follow from the prediction."""

from __future__ import annotations

from typing import Any

from gz._base.sizes import amount, rounded
from gz._measure.about import size_of
from gz._measure.predict import Prediction, Room, Speeds, Stream, divide_room, predict
from gz._measure.workload import Workload

_ROTATING = 2_000  # reads/s that no such disk reaches
_SLOW_DISK = 20_000  # reads/s: an NVMe disk gives ten times as many
_WORTH = 1.2  # times as fast


def advise(
    work: Workload, stream: Stream, speeds: Speeds, room: Room, found: Prediction, facts: dict[str, Any]
) -> list[str]:
    """`facts`: ``machine`` and ``storage`` as described, ``limit`` of memory."""
    advice = [*_of_the_place(facts, speeds)]
    if found.verdict == "fits":
        advice.append(
            "Everything lies in memory after the first batches: more RAM or a faster disk changes nothing."
        )
        return advice
    advice += _more_memory(work, stream, speeds, room, found, facts["limit"])
    wide = [f for f, c in work.columns.items() if c.stored in ("float32", "float64") and f not in room.held]
    if wide:
        names = ", ".join(wide)
        advice.append(
            f"float16 halves {names} on disk and in the cache, int8 leaves a quarter, and the script reads "
            "float32 as before: `gz add STORE --features x=FILE --dtype float16 --overwrite`. Rows below "
            "4096 bytes still cost a read of a block each: it helps as far as more rows fit into memory."
        )
    useful = found.misses * _mean_row(work) / found.bytes_read if found.bytes_read else 1.0
    if useful < 0.3 and found.verdict == "disk-bound":
        advice.append(
            f"Of the bytes read {100 * useful:.0f} % are rows that were asked for: what is used together "
            "lies apart. `gz reorder STORE` puts the rows that training reads most side by side."
        )
    if found.verdict == "disk-bound":
        if speeds.reads < _SLOW_DISK:
            advice.append(
                f"This disk gives {speeds.reads:,.0f} random reads/s; a local NVMe disk gives 200,000."
            )
        need = found.reads / max(found.seconds["sample"], found.seconds["copy"])
        advice.append(f"To keep up with this CPU the disk would have to give {need:,.0f} reads/s.")
        advice.append("Smaller fanouts in the last hop save most: that hop has most of the rows.")
    return advice


def _mean_row(work: Workload) -> float:
    sizes = [c._file.row_bytes for c in work.columns.values() if c._file.row_bytes >= 128]
    return sum(sizes) / len(sizes) if sizes else 8.0


def _of_the_place(facts: dict[str, Any], speeds: Speeds) -> list[str]:
    machine, storage = facts["machine"], facts["storage"]
    found = []
    if storage.get("network"):
        found.append(
            f"The store lies on {storage['filesystem']}, a network filesystem: copy it to a local disk."
        )
    if storage.get("in_memory"):
        found.append(
            f"The store lies on {storage['filesystem']}, which is memory: it takes what training needs."
        )
    if storage.get("rotates") and speeds.reads < _ROTATING:  # virtual disks say so too, and are fast
        found.append("The disk rotates: random reads are some hundred a second. Use an SSD.")
    if machine["reads"] != "ring":
        found.append(
            f"Reads are made by {machine['reads']} ({machine['reads_why']}): allow io_uring in the seccomp "
            "profile of the container, or in /proc/sys/kernel/io_uring_disabled, for deeper queues."
        )
    if storage.get("direct") is False:
        found.append(
            "The filesystem takes no O_DIRECT: rows pass through the page cache, and push out what is there."
        )
    if machine["load"] > 1.5 * machine["cores"]:
        found.append(
            f"The machine is busy (load {machine['load']:.1f} on {machine['cores']} cores): it can do more "
            "than is measured now."
        )
    return found


def _more_memory(
    work: Workload, stream: Stream, speeds: Speeds, room: Room, found: Prediction, limit: int
) -> list[str]:
    advice = []
    fitting = int(sum(size_of(work.store, f) for f in stream.parts) / 0.65 * 1.05)
    advice.append(
        f"With {amount(fitting)} of free memory all of it would fit ({amount(room.free)} are there)."
    )
    twice = divide_room(work, stream, None, 2 * room.free, 2 * limit)
    then = predict(work, stream, speeds, twice)
    gain = then.batches_per_second / found.batches_per_second
    if gain >= _WORTH:
        advice.append(
            f"Twice the memory would give {rounded(then.batches_per_second, 2)} batches/s, {gain:.1f} times "
            f"as many ({then.verdict})."
        )
    if found.cache == 0:
        advice.append(
            "There is no room for a row cache: a smaller batch, or prefetch=0, leaves some. Batches take "
            f"{amount(room.batches)} of memory."
        )
    return advice
