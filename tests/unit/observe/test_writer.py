"""Lines to a file descriptor, without waiting for its reader."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import LinesDropped, ObserverFailed
from docgraph.observe.writer import LineWriter

LINE = b"x" * 999 + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue


def _read_all(fd: int) -> bytes:
    chunks = []
    while chunk := os.read(fd, 1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def test_lines_arrive_in_order(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    writer = LineWriter(end)
    lines = [f"{number}\n".encode() for number in range(1000)]

    for line in lines:
        writer.put(line)
    writer.close()
    os.close(end)

    assert _read_all(reader) == b"".join(lines)


def test_a_line_may_be_made_when_it_is_written(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    makers: list[threading.Thread] = []
    writer = LineWriter(end)

    def make() -> bytes:
        makers.append(threading.current_thread())
        return b"made\n"

    writer.put(b"first\n")
    writer.put(make)
    writer.close()
    os.close(end)

    assert _read_all(reader) == b"first\nmade\n"
    assert makers != [threading.current_thread()]


def test_a_line_that_cannot_be_made_is_told_and_the_others_are_written(
    pipe: tuple[int, int],
) -> None:
    reader, end = pipe
    told: list[Event] = []
    subscribe(told.append)
    writer = LineWriter(end)

    def fail() -> bytes:
        raise ValueError("broken")

    writer.put(fail)
    writer.put(b"last\n")
    writer.close()
    unsubscribe(told.append)
    os.close(end)

    assert _read_all(reader) == b"last\n"
    assert [type(event) for event in told] == [ObserverFailed]


def test_a_reader_that_does_not_read_holds_up_nobody(pipe: tuple[int, int]) -> None:
    _, end = pipe
    writer = LineWriter(end, queue_lines=100)

    for _ in range(1000):  # far more than pipe and queue hold: one that waited would not return
        writer.put(LINE)
    writer.close(timeout=0.05)


def test_lines_that_found_no_room_are_counted_and_told(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    told: list[Event] = []
    done = threading.Event()

    def listen(event: Event) -> None:
        told.append(event)
        done.set()

    subscribe(listen)
    writer = LineWriter(end, queue_lines=100)
    for _ in range(1000):
        writer.put(LINE)
    received = bytearray()
    drain = threading.Thread(target=lambda: received.extend(_read_all(reader)))
    drain.start()

    assert done.wait(60)
    unsubscribe(listen)
    writer.close()
    os.close(end)
    drain.join(60)
    lost = sum(event.count for event in told if isinstance(event, LinesDropped))
    assert lost > 0
    assert len(received) == (1000 - lost) * len(LINE)


def test_a_signal_handler_may_log_in_the_middle_of_logging(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    writer = LineWriter(end)
    handled = 0

    def handle(number: int, frame: object) -> None:
        nonlocal handled
        handled += 1
        writer.put(b"signal\n")

    previous = signal.signal(signal.SIGVTALRM, handle)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005, 0.0005)
    received = bytearray()
    drain = threading.Thread(target=lambda: received.extend(_read_all(reader)))
    drain.start()
    written = 0
    while handled < 20:
        writer.put(b"line\n")
        written += 1
        if written % 1000 == 0:
            time.sleep(0.001)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, previous)
    writer.close()
    os.close(end)
    drain.join(60)

    assert received.count(b"\n") > 0


def test_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    os.close(reader)
    writer = LineWriter(end)

    writer.put(LINE)
    writer.close()


def test_a_descriptor_that_does_not_block_loses_nothing(pipe: tuple[int, int]) -> None:
    reader, end = pipe
    fcntl.fcntl(end, fcntl.F_SETFL, os.O_NONBLOCK)
    writer = LineWriter(end)
    received = bytearray()
    drain = threading.Thread(target=lambda: received.extend(_read_all(reader)))

    for _ in range(200):
        writer.put(LINE)
    drain.start()
    writer.close(timeout=60)
    os.close(end)
    drain.join(60)

    assert len(received) == 200 * len(LINE)
