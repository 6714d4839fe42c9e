"""gz._base.background: threads that work ahead, and end."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
import weakref

import pytest
from waits import PATIENCE, ended, in_child, until

from gz._base.background import Pipeline, Task


def threads(name):
    return [t for t in threading.enumerate() if t.name.startswith(name)]


def test_values_go_through_the_stages_in_order():
    pipeline = Pipeline(lambda v: [*v, "a"], lambda v: [*v, "b"], name="order")
    tasks = [pipeline.submit([i]) for i in range(100)]
    assert [t.result() for t in tasks] == [[i, "a", "b"] for i in range(100)]
    pipeline.close()
    assert not threads("order")


def test_an_error_skips_the_later_stages_and_is_raised_with_its_traceback():
    def fail(value):
        raise LookupError(value)

    later = []
    pipeline = Pipeline(fail, later.append, name="error")
    task = pipeline.submit(5)
    with pytest.raises(LookupError, match="5") as caught:
        task.result()
    assert caught.traceback[-1].name == "fail"
    assert not later
    pipeline.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_no_kind_of_error_kills_a_thread(error):
    def fail(value):
        raise error

    pipeline = Pipeline(fail)
    for _ in range(3):
        with pytest.raises(error):
            pipeline.submit(0).result()
    pipeline.close()


def test_a_failed_task_raises_what_it_was_given():
    with pytest.raises(LookupError, match="mine"):
        Task.failed(LookupError("mine")).result()


def test_threads_start_with_the_first_task_and_end_when_the_pipeline_is_dropped():
    pipeline = Pipeline(str, len, name="dropped")
    assert not threads("dropped")
    assert pipeline.submit(12).result() == 2
    running = threads("dropped")
    assert len(running) == 2
    del pipeline
    ended(running)


def test_a_pipeline_that_its_stage_leads_to_ends_like_any_other():
    class Owner:
        def __init__(self):
            self.pipeline = Pipeline(self.work, name="owned")

        def work(self, value):
            return value

    def ended_by_collection():
        gc.collect()
        return not threads("owned")

    owner = Owner()
    assert owner.pipeline.submit(12).result() == 12
    assert threads("owned")
    del owner
    until(ended_by_collection, "the thread to let go of its owner")


def test_work_not_yet_begun_is_left_undone_when_closed():
    begun, gate = threading.Event(), threading.Event()
    done = []

    def slow(value):
        begun.set()
        assert gate.wait(PATIENCE)
        done.append(value)

    pipeline = Pipeline(slow)
    for i in range(5):
        pipeline.submit(i)
    assert begun.wait(PATIENCE)
    closing = threading.Thread(target=pipeline.close)
    closing.start()
    until(lambda: pipeline._closed, "the pipeline to be closed")
    gate.set()
    ended([closing])
    assert done == [0]


def test_a_closed_pipeline_does_the_work_itself():
    pipeline = Pipeline(lambda _: threading.current_thread())
    pipeline.close()
    assert pipeline.submit(0).result() is threading.current_thread()


def test_without_threads_to_be_had_the_work_is_done_here(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pipeline = Pipeline(str, lambda s: (s, threading.current_thread()))
    assert pipeline.submit(3).result() == ("3", threading.current_thread())


def test_an_idle_thread_keeps_no_result_alive():
    class Thing:
        pass

    pipeline = Pipeline(lambda _: Thing())
    task = pipeline.submit(0)
    thing = weakref.ref(task.result())
    del task
    gc.collect()
    until(lambda: thing() is None, "the thread to let go of it, just after it is finished")
    pipeline.close()


def test_a_delivered_error_leaves_no_cycle():
    class Mine(Exception):  # unlike the built-in ones, it can be referred to weakly
        pass

    def fail(value):
        raise Mine

    pipeline = Pipeline(fail)
    task = pipeline.submit(0)
    gc.disable()
    try:
        try:
            task.result()
        except Mine as error:
            seen = weakref.ref(error)
        until(lambda: seen() is None, "the error to be freed")
    finally:
        gc.enable()
    pipeline.close()


def test_several_threads_for_a_stage_work_at_once():
    barrier = threading.Barrier(3, timeout=PATIENCE)
    pipeline = Pipeline(lambda _: barrier.wait(), threads=3, name="several")
    assert sorted(t.result() for t in [pipeline.submit(i) for i in range(3)]) == [0, 1, 2]
    pipeline.close()
    assert not threads("several")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_threads_stand_still_while_the_process_forks():
    """In the child, a stage is never half done: its two halves are seen both or not at all."""
    state = [0, 0]

    def halves(value):
        state[0] += 1
        time.sleep(0.0005)
        state[1] += 1

    pipeline = Pipeline(halves)
    tasks = [pipeline.submit(i) for i in range(200)]

    def child():
        assert state[0] == state[1]

    for _ in range(20):
        assert in_child(child)
    for task in tasks:
        task.result()
    pipeline.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_does_itself_what_it_inherited_and_has_threads_of_its_own():
    pipeline = Pipeline(lambda v: time.sleep(0.001), lambda _: (os.getpid(), threading.current_thread()))
    tasks = [pipeline.submit(i) for i in range(20)]

    def child():
        main = threading.current_thread()
        made = [t.result() for t in tasks]
        mine = [t for p, t in made if p == os.getpid()]
        assert mine
        assert set(mine) == {main}
        process, thread = pipeline.submit(0).result()
        assert process == os.getpid()
        assert thread is not main
        pipeline.close()

    assert in_child(child)
    assert {t.result()[0] for t in tasks} == {os.getpid()}
    pipeline.close()


def test_an_interrupt_while_waiting_is_nothing_else():
    """At whatever place of the waiting it comes: a Condition may answer `release unlocked lock`, or hang."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    pipeline = Pipeline(lambda seconds: time.sleep(seconds))
    rng = random.Random(0)
    interrupts = 0
    try:
        for _ in range(2000):
            task = pipeline.submit(3e-4)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 3e-4))
                task.wait()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
            task.result()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        pipeline.close()
    assert interrupts > 100
