"""The record of a run: taken by time in the background, whole lines whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
import waits

from gz._base.background import Ticker
from gz._watch.recorder import Recorder, read_record


def test_what_is_recorded_is_read_again(tmp_path):
    counted = iter(range(10**6))
    with Recorder(tmp_path / "r", lambda: {"batches": next(counted)}, {"name": "a"}, every=0.01) as run:
        run.log(loss=0.5, bad=float("nan"))
        waits.until(lambda: (tmp_path / "r").read_text().count('"sample"') >= 4, "samples by time")
    record = read_record(tmp_path / "r")
    assert record.about["name"] == "a"
    assert record.ended
    assert [s["batches"] for s in record.samples] == list(range(len(record.samples)))
    assert [s["t"] for s in record.samples] == sorted(s["t"] for s in record.samples)
    assert record.logs[0] | {"t": 0} == {"t": 0, "loss": 0.5, "bad": None}
    run.log(loss=1)  # after the end: nothing, and no error
    run.close()
    assert len(read_record(tmp_path / "r").logs) == 1


def test_a_record_that_is_dropped_ends_its_thread(tmp_path):
    run = Recorder(tmp_path / "r", dict, {}, every=0.01)
    (thread,) = waits.background()
    del run
    waits.ended([thread])
    assert not read_record(tmp_path / "r").ended


def test_a_record_that_is_cut_short_is_read_up_to_there(tmp_path):
    Recorder(tmp_path / "r", lambda: {"batches": 1}, {}, every=100).close()
    whole = (tmp_path / "r").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:cut])
        if whole[:cut].count(b"\n") == 0:
            with pytest.raises(ValueError, match="holds no line"):
                read_record(tmp_path / "cut")
        else:
            assert len(read_record(tmp_path / "cut").samples) == max(0, min(2, whole[:cut].count(b"\n") - 1))


@pytest.mark.parametrize(
    "text", ["[1]\n", "x\n", '{"kind":"sample","t":1}\n', '{"kind":"run","version":9}\n', "{}\n"]
)
def test_what_is_no_record_is_refused_with_its_line(tmp_path, text):
    (tmp_path / "r").write_text(text)
    with pytest.raises(ValueError, match="line 1"):
        read_record(tmp_path / "r")


def test_a_full_disk_ends_the_record_and_not_the_run():
    run = Recorder("/dev/full", dict, {}, every=100)
    run.log(loss=1)
    with pytest.warns(RuntimeWarning, match="ends early"):
        run.close()
    run.close()


def test_a_forked_child_writes_nothing_and_ends(tmp_path):
    with Recorder(tmp_path / "r", lambda: {"batches": 0}, {}, every=100) as run:

        def child():
            run.log(from_child=1)
            run.close()

        assert waits.in_child(child)
    record = read_record(tmp_path / "r")
    assert record.logs == []
    assert record.ended


def test_a_script_that_forgets_it_ends(tmp_path):
    code = (
        "import sys; from gz._watch.recorder import Recorder\n"
        "run = Recorder(sys.argv[1], lambda: {'batches': 3}, {}, every=0.01)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r")],
        capture_output=True,
        text=True,
        timeout=waits.PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert read_record(tmp_path / "r").samples[0]["batches"] == 3


def test_a_ticker_ends_when_told_and_when_its_function_says_so():
    calls = []
    ticker = Ticker(lambda: calls.append(threading.current_thread()), 0.001)
    waits.until(lambda: len(calls) > 2, "calls")
    ticker.close()
    count = len(calls)
    assert not calls[0].is_alive()
    assert len(calls) == count
    once = []
    other = Ticker(lambda: bool(once.append(1)), 0.001)
    waits.ended([other._worker])
    assert once == [1]


def test_each_line_is_json(tmp_path):
    Recorder(tmp_path / "r", lambda: {"inf": float("inf")}, {"path": tmp_path}, every=1).close()
    for line in (tmp_path / "r").read_text().splitlines():
        json.loads(line, parse_constant=lambda c: pytest.fail(c))
