"""What worker processes share: generations, secrets, metrics, and one stderr."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docgraph.runtime import Instance, create_instance
from docgraph.runtime.shared_memory import find_write_slot
from tests.process.commands import run
from tests.process.spawned import BUMPS, hold, work


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


# --- generations and secrets ----------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def tracker() -> None:
    """The process of `multiprocessing` that lives as long as this one is no leak of a test."""
    resource_tracker.ensure_running()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with create_instance(tmp_path) as created:
        yield created


def test_spawned_workers_share_counters_and_secrets(instance: Instance) -> None:
    """Decisions 33 and 44."""
    context = multiprocessing.get_context("spawn")
    pipes, workers = [], []
    for number in (1, 2):
        mine, yours = context.Pipe()
        worker = context.Process(target=work, args=(instance.for_worker(number), yours))
        worker.start()
        pipes.append(mine)
        workers.append(worker)

    answers = [pipe.recv() for pipe in pipes]
    generations = instance.open_generations()
    generations.bump("users")
    for pipe in pipes:
        pipe.send("look")
    seen = [pipe.recv() for pipe in pipes]
    for worker in workers:
        worker.join(60)

    assert sorted(number for number, _, _ in answers) == [1, 2]
    assert {secret for _, secret, _ in answers} == {instance.secret("tokens")}
    assert generations.read("apps") == 2 * BUMPS
    assert seen == [1, 1]
    generations.close()
    counters = instance.open_counters(seconds=1e9)
    assert counters.read("login 127.0.0.1") == 2 * BUMPS  # decision 37: over all workers
    counters.close()


def test_a_worker_that_ends_takes_nothing_with_it(instance: Instance) -> None:
    context = multiprocessing.get_context("spawn")
    mine, yours = context.Pipe()
    worker = context.Process(target=work, args=(instance, yours))
    worker.start()
    mine.recv()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(60)

    generations = instance.open_generations()

    assert generations.read("apps") == BUMPS
    assert generations.bump("apps") == BUMPS + 1
    generations.close()


def test_a_worker_that_is_killed_while_it_counts_locks_out_nobody(instance: Instance) -> None:
    """A write that the others wait to announce is announced as soon as it is dead."""
    context = multiprocessing.get_context("spawn")
    mine, yours = context.Pipe()
    worker = context.Process(target=hold, args=(instance, yours))
    worker.start()
    assert mine.recv() == "locked"
    generations = instance.open_generations()
    with pytest.raises(BlockingIOError):
        fcntl.flock(generations._file._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    worker.kill()
    generations.record_writes(["shop.orders"])

    worker.join(60)
    slot = find_write_slot("shop.orders")
    assert generations.copy_writes()[slot] == generations.read("writes") == 1
    assert generations.bump("apps") == 2
    generations.close()


def test_a_killed_instance_leaves_nothing_after_the_next_start(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        from docgraph.runtime import create_instance
        with create_instance(Path(sys.argv[1])) as instance:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = run(str(tmp_path), code=textwrap.dedent(script))
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()

    with create_instance(tmp_path) as instance:
        assert not left.exists()
        assert list(tmp_path.iterdir()) == [instance.directory]

    assert list(tmp_path.iterdir()) == []


# --- metrics --------------------------------------------------------------------------------------

COUNT = """
    import os, sys
    from pathlib import Path
    from docgraph.observe import emit, prometheus
    from docgraph.observe.events import *
    from docgraph.observe.engine_events import WorkerLost

    def count(requests, up):
        prometheus.open_metrics("1")
        emit(DatabaseFound() if up else DatabaseLost("gone"))
        emit(AppsRefreshed(requests, 0, 0))
        for number in range(requests):
            emit(RequestStarted("r"))
            emit(RequestFinished("r", "GET", "/ping", 200, 0.002, 5, service="ping"))
        emit(RequestStarted("still running"))
"""
PARENT = (
    COUNT
    + """
    import subprocess
    prometheus.prepare_multiprocess(Path(sys.argv[1]))
    prometheus.open_metrics("1")
    worker = [sys.executable, "-c", sys.argv[2]]
    first = subprocess.Popen([*worker, "3", "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first.stdout.readline()
    second = subprocess.Popen([*worker, "4", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    second.stdout.readline()
    alive = prometheus.render()
    first.kill()
    first.wait()
    emit(WorkerLost(1, first.pid, signal="SIGKILL"))
    prometheus.forget_process(first.pid)
    after = prometheus.render()
    second.communicate(b"bye")
    sys.stdout.write(alive.decode() + "=====" + chr(10) + after.decode())
"""
)
WORKER = (
    COUNT
    + """
    count(int(sys.argv[1]), bool(sys.argv[2]))
    print("counted", flush=True)
    sys.stdin.read()
"""
)


def _parse(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{'/'.join(['', *sample.labels.values()])}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_two_workers_are_one_truth_also_after_one_is_killed(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").write_bytes(b"of an earlier run")

    outcome = _run(PARENT, str(tmp_path / "metrics"), textwrap.dedent(WORKER))

    alive, after = map(_parse, outcome.stdout.split("=====\n"))
    requests = "docgraph_http_requests_total/GET/ping/200"
    assert alive[requests] == after[requests] == 7
    assert after["docgraph_http_request_duration_seconds_count/GET/ping"] == 7
    assert alive["docgraph_http_requests_in_flight"] == 2
    assert after["docgraph_http_requests_in_flight"] == 1
    assert alive["docgraph_processes"] == 3
    assert after["docgraph_processes"] == 2
    assert after["docgraph_workers_lost_total"] == 1
    assert after["docgraph_apps/served"] == 4  # each worker knows all of them: not added up
    assert after["docgraph_database_up"] == 0  # what was noticed last


# --- the log --------------------------------------------------------------------------------------

SPEAK = """
    import sys
    from docgraph.observe import emit
    from docgraph.observe.events import *
    from docgraph.observe.log import open_log
    from docgraph.observe.sections import Logging

    open_log(Logging(format="json", max_field_size=1 << 20))
    count, size = int(sys.argv[2]), int(sys.argv[3])
    emit(RequestFinished("ready", "GET", "/", 200, 0.001))
    sys.stdin.read()  # all begin together
    for number in range(count):
        emit(RequestFinished(f"{sys.argv[1]}-{number}", "GET", "/" + "x" * size, 200, 0.001))
"""


# The longest do not fit into a pipe: their writers wait in the middle of a line.
@pytest.mark.parametrize(("count", "size"), [(2000, 300), (40, 200_000)])
def test_lines_of_two_workers_do_not_mix_none_is_lost_at_the_end_and_none_is_on_stdout(
    count: int, size: int
) -> None:
    reader, writer = os.pipe()
    waiting, begin = os.pipe()
    script = textwrap.dedent(SPEAK)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, name, str(count), str(size)],
            stdin=waiting,
            stdout=subprocess.PIPE,
            stderr=writer,
        )
        for name in ("a", "b")
    ]
    os.close(waiting)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        for _ in workers:
            assert b"ready" in stream.readline()
        os.close(begin)
        lines = stream.read().splitlines()
    printed = [worker.communicate(timeout=60)[0] for worker in workers]

    assert printed == [b"", b""]
    assert [worker.returncode for worker in workers] == [0, 0]
    ids = [json.loads(line)["request_id"] for line in lines]
    for name in ("a", "b"):
        assert [i for i in ids if i.startswith(name)] == [f"{name}-{n}" for n in range(count)]


def test_emitting_costs_neither_structlog_nor_prometheus() -> None:
    """Commands such as `docgraph version` must not pay for what only the server needs."""
    outcome = _run(
        """
        import sys
        from docgraph.observe import emit, prometheus
        from docgraph.observe.events import LoopLagged
        emit(LoopLagged(1.0))
        print(sorted({"structlog", "prometheus_client"} & set(sys.modules)))
        """
    )

    assert outcome.stdout.strip() == "[]"


def test_a_thread_that_hangs_does_not_keep_the_process_alive() -> None:
    script = """
        import asyncio, time
        from docgraph.runtime import Blocking, run_blocking

        async def main():
            blocking = Blocking()
            lane = blocking.lane("plugins")
            hanging = asyncio.create_task(run_blocking(lane, time.sleep, 600))
            await asyncio.sleep(0.05)
            hanging.cancel()
            await blocking.close(grace=0.1)

        asyncio.run(main())
        print("over")
    """

    assert _run(script).stdout == "over\n"
