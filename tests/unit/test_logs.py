"""A test that reads the log of a running server."""

from __future__ import annotations

from pathlib import Path

from tests.logs import read_events


def test_half_a_line_is_no_event_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'docgraph ready\n{"event":"a"}\n{"event":"\xc3')
    assert read_events(log) == [{"event": "a"}]
    log.write_bytes(b'{"event":"\xc3')
    assert read_events(log) == []
