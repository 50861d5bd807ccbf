"""Slots that processes share."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path
from typing import Any

from docgraph.runtime.shared_slots import SharedSlots


def hold(path: Path, count: int, pipe: Any) -> None:
    slots = SharedSlots(path, 3)
    pipe.send([slots.acquire() for _ in range(count)])
    pipe.recv()


def test_processes_share_slots_and_a_killed_one_gives_them_back(tmp_path: Path) -> None:
    """Decision 50: the bound is that of the instance, however its workers share it."""
    path = tmp_path / "slots"
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=hold, args=(path, 2, theirs))
    other.start()
    assert ours.recv() == [0, 1]
    slots = SharedSlots(path, 3)
    assert slots.acquire() == 2
    assert slots.acquire() is None
    slots.release(2)
    assert slots.acquire() == 2
    other.kill()
    other.join()
    assert other.exitcode == -signal.SIGKILL
    assert {slots.acquire(), slots.acquire()} == {0, 1}
    assert slots.acquire() is None
    slots.close()
