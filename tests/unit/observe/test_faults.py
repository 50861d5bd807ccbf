"""Exceptions as text."""

from __future__ import annotations

from pymongo.errors import AutoReconnect, OperationFailure

from docgraph.exchange.errors import NotFound
from docgraph.observe.text import MAX_FRAMES, render_cause, render_error, render_traceback


def _fail(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    _fail(depth - 1)


def _catch(depth: int) -> Exception:
    try:
        _fail(depth)
    except ValueError as error:
        return error
    raise AssertionError


def test_an_error_is_named_with_its_text() -> None:
    assert render_error(ValueError("bad\nnews")) == "ValueError: bad\\nnews"
    assert render_error(KeyError()) == "KeyError"
    assert render_error(NotFound("no")) == "docgraph.exchange.errors.NotFound: no"


def test_what_the_database_says_is_said_once() -> None:
    reply = {"ok": 0.0, "errmsg": "not authorized on shop", "code": 13, "codeName": "Unauthorized"}

    assert render_cause(OperationFailure("not authorized on shop", 13, reply)) == (
        "not authorized on shop (Unauthorized)"
    )
    assert render_cause(AutoReconnect("db:1: connection closed")) == "db:1: connection closed"


def test_the_innermost_frame_is_last() -> None:
    lines = render_traceback(_catch(2))

    assert lines[-1].endswith("in _fail")
    assert "test_faults.py" in lines[-1]


def test_a_deep_traceback_keeps_its_innermost_frames() -> None:
    lines = render_traceback(_catch(100))

    assert len(lines) == MAX_FRAMES + 1
    assert "outer frames left out" in lines[0]


def test_causes_follow() -> None:
    try:
        try:
            _fail(0)
        except ValueError as cause:
            raise RuntimeError("outer") from cause
    except RuntimeError as error:
        lines = render_traceback(error)

    assert "caused by ValueError: at the bottom" in lines


def test_an_expected_error_has_no_traceback() -> None:
    assert render_traceback(NotFound("no")) == []
