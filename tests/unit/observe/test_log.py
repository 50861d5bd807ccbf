"""The log: one parseable line per event, nothing a caller can break out of, no secrets."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.exchange.errors import StoreUnavailable
from docgraph.observe import Event, Level, emit
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import (
    EVENTS,
    AppInvalid,
    BackgroundFailed,
    ConfigWarning,
    DatabaseLost,
    ObserverFailed,
    RequestFailed,
    RequestFinished,
    RequestRefused,
    RequestStarted,
)
from docgraph.observe.log import EventLogger, Exclusion, open_log
from docgraph.observe.sections import Logging
from docgraph.observe.tracing import RequestTrace, TraceContext
from docgraph.server.process.host import _ONCE
from tests.clock import Clock
from tests.programs import open_terminal


class Session:
    """An open log into a file, and what stands in it after closing."""

    def __init__(self, path: Path, options: Logging) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.log: EventLogger | None = open_log(options, fd=self._fd)

    def text(self) -> str:
        self.close()
        return self._path.read_bytes().decode()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().split("\n")[:-1]]

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None
            os.close(self._fd)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def open_session(**options: Any) -> Session:
        session = Session(tmp_path / "log", Logging(**{"format": "json", **options}))
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        session.close()


def _request(**fields: Any) -> RequestFinished:
    return RequestFinished(
        **{
            "request_id": "r1",
            "method": "GET",
            "path": "/ping",
            "status": 200,
            "duration": 0.00125,
            "bytes_out": 12,
            "client": "127.0.0.1",
            "account": "ada",
            "service": "ping",
            **fields,
        }
    )


def test_a_request_is_one_line(start: Callable[..., Session]) -> None:
    session = start()

    emit(RequestStarted("r1"))
    emit(_request())

    (line,) = session.lines()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "request-finished",
        "method": "GET",
        "path": "/ping",
        "status": 200,
        "duration_ms": 1.25,
        "bytes_out": 12,
        "client": "127.0.0.1",
        "request_id": "r1",
        "account": "ada",
        "service": "ping",
    }


PAYLOADS = [
    "a\r\nforged",
    "\n",
    "\x1b[2J\x1b]0;title\x07",
    '","status":200,"x":"',
    "\\u000a",
    "\u2028\u2029\x85",
    "\u202egnp.exe",
    "\x00\x08\x7f",
    "\udcff",
    "x" * 1_000_000,
    "</script>",
    "%0d%0a",
    "{}",
    "'; drop",
    "\t\v\f",
    "é" * 4000,
    "\x9b31m",
    "\ufeff",
    "${jndi:ldap://x}",
    "a=b c=d",
]
FIELDS = ["method", "path", "client", "request_id", "account", "app"]


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_payload_in_any_field_breaks_out_of_its_line(
    start: Callable[..., Session], style: str
) -> None:
    """Drill S01."""
    session = start(format=style)
    refused = ["reason", "client", "request_id", "method", "path"]

    for payload in PAYLOADS:
        for field in FIELDS:
            emit(_request(**{field: payload}))
        for field in refused:
            emit(RequestRefused(**{"status": 400, "reason": "", field: payload}))  # type: ignore[arg-type]

    text = session.text()
    lines = text.split("\n")[:-1]
    assert len(lines) == len(PAYLOADS) * (len(FIELDS) + len(refused))
    assert all(line.isprintable() for line in lines)
    if style == "json":
        for line in lines:
            values = json.loads(line)
            assert all(len(str(value).encode()) <= 1024 for value in values.values())
            assert values["event"] in ("request-finished", "request-refused")


def test_a_blank_or_an_equals_sign_cannot_forge_a_field_for_people(
    start: Callable[..., Session],
) -> None:
    session = start(format="console")

    emit(_request(path="/x status=200"))

    assert 'path="/x status=200"' in session.text()


def test_colours_are_for_terminals_only(start: Callable[..., Session]) -> None:
    session = start(format="console")

    emit(DatabaseLost("gone"))

    assert "\x1b" not in session.text()


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, terminal = open_terminal()
    log = open_log(Logging(), fd=terminal)

    emit(DatabaseLost("gone"))
    log.close()

    assert b"\x1b[" in os.read(screen, 4096)
    os.close(terminal)
    os.close(screen)


def test_a_file_gets_json_by_default(start: Callable[..., Session]) -> None:
    session = start(format="auto")

    emit(DatabaseLost("gone"))

    assert session.lines()[0]["reason"] == "gone"


def test_an_unexpected_error_is_logged_with_its_way(start: Callable[..., Session]) -> None:
    session = start()

    try:
        raise ValueError("odd")
    except ValueError as error:
        emit(RequestFailed("f00", "r1", error))

    (line,) = session.lines()
    assert line["level"] == "error"
    assert line["id"] == "f00"
    assert line["error"] == "ValueError: odd"
    assert "test_log.py" in line["traceback"][-1]


def test_the_way_of_an_error_is_indented_for_people(start: Callable[..., Session]) -> None:
    session = start(format="console")

    try:
        raise ValueError("odd")
    except ValueError as error:
        emit(RequestFailed("f00", "r1", error))

    first, second, *_ = session.text().splitlines()
    assert "request-failed" in first
    assert second.startswith("    ")


def test_an_expected_error_is_logged_without_its_way(start: Callable[..., Session]) -> None:
    session = start()

    emit(BackgroundFailed("first-admin", StoreUnavailable("the database does not answer")))

    (line,) = session.lines()
    assert "traceback" not in line


@pytest.mark.parametrize(
    ("level", "events"),
    [
        (Level.DEBUG, ["command-finished", "request-finished", "database-lost"]),
        (Level.INFO, ["request-finished", "database-lost"]),
        (Level.WARNING, ["database-lost"]),
        (Level.ERROR, []),
    ],
)
def test_the_level_says_what_is_logged(
    start: Callable[..., Session], level: Level, events: list[str]
) -> None:
    session = start(level=level.name.lower())

    emit(CommandFinished("find", "db", "c", 0.1, ok=True))
    emit(_request())
    emit(DatabaseLost("gone"))

    assert [line["event"] for line in session.lines()] == events


def test_request_lines_can_be_switched_off(start: Callable[..., Session]) -> None:
    session = start(requests=False)

    emit(_request())
    emit(RequestRefused(status=431, reason="too many headers"))
    emit(DatabaseLost("gone"))

    assert [line["event"] for line in session.lines()] == ["database-lost"]


def test_excluded_paths_have_one_line_per_interval(start: Callable[..., Session]) -> None:
    session = start(requests_exclude_patterns=("/ping", "/health/*"))

    for path in ("/ping", "/ping", "/health/db", "/health/x", "/pings", "/pings"):
        emit(_request(path=path))

    assert [line["path"] for line in session.lines()] == [
        "/ping",
        "/health/db",
        "/pings",
        "/pings",
    ]


def test_the_bound_of_a_field_can_be_set(start: Callable[..., Session]) -> None:
    session = start(max_field_size=40)

    emit(_request(path="/" + "x" * 100))
    emit(RequestFailed("f00", "r1", ValueError("y" * 100)))

    request, failure = session.lines()
    assert request["path"] == "/" + "x" * 36 + "…"
    assert len(failure["error"].encode()) == 40


def test_empty_fields_are_left_out(start: Callable[..., Session]) -> None:
    session = start()

    emit(RequestRefused(status=400, reason="malformed"))

    assert session.lines()[0].keys() == {"time", "level", "event", "status", "reason"}


def test_a_list_is_bounded(start: Callable[..., Session]) -> None:
    session = start()

    emit(AppInvalid("blog", tuple(f"problem {n}\n" for n in range(30))))

    problems = session.lines()[0]["problems"]
    assert problems[0] == "problem 0\\n"
    assert problems[-1] == "(10 more)"
    assert len(problems) == 21


def test_an_observer_that_failed_is_logged(start: Callable[..., Session]) -> None:
    session = start()

    emit(ObserverFailed("request-finished", ValueError("x")))

    assert session.lines()[0]["about"] == "request-finished"


def test_libraries_are_heard_from_warnings_up_at_every_level(
    start: Callable[..., Session],
) -> None:
    """Drill I09: at DEBUG drivers print documents, and documents hold secrets."""
    session = start(level="debug")
    library = logging.getLogger("pymongo.command")
    library.setLevel(logging.DEBUG)

    library.debug("command {'insert': 'users', 'documents': [{'password': 'marked'}]}")
    library.warning("odd\nthing at mongodb://u:marked@host")

    library.setLevel(logging.NOTSET)
    text = session.text()
    assert "marked" not in text
    (line,) = [json.loads(line) for line in text.splitlines()]
    assert line["event"] == "library"
    assert line["logger"] == "pymongo.command"
    assert line["message"] == "odd\\nthing at mongodb://***@host"


def test_errors_of_libraries_keep_their_way(start: Callable[..., Session]) -> None:
    session = start()

    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("a.library").exception("failed")

    (line,) = session.lines()
    assert (line["level"], line["error"]) == ("error", "ValueError: odd")


def test_warnings_of_python_are_lines_too(start: Callable[..., Session]) -> None:
    session = start()

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old\nways", DeprecationWarning, "x.py", 1)

    (line,) = session.lines()
    assert "old\\nways" in line["message"]


def test_a_closed_log_hears_nothing(start: Callable[..., Session]) -> None:
    session = start()
    session.close()

    emit(DatabaseLost("gone"))
    logging.getLogger("x").warning("gone")

    assert session.lines() == []


def test_closing_twice_is_no_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log = open_log(Logging(format="json"), fd=fd)

    log.close()
    log.close()

    os.close(fd)


def test_every_event_can_be_written(start: Callable[..., Session]) -> None:
    session = start(level="debug", format="console")
    for kind in EVENTS:
        emit(_example(kind))

    text = session.text()
    assert "observer-failed" in text
    assert text.count("observer-failed") == 1
    for kind in EVENTS:
        assert (kind.name in text) is (kind.level is not Level.SILENT)


def _example(kind: type[Event]) -> Event:
    values: dict[str, Any] = {
        "str": "word",
        "int": 1,
        "float": 0.5,
        "bool": True,
        "BaseException": ValueError("x"),
        "tuple[str, ...]": ("a", "b"),
        "int | None": 1,
        "float | None": 0.5,
        "str | None": None,
        "TraceContext | None": TraceContext(1, 2),
        "RequestTrace | None": RequestTrace(TraceContext(1, 2)),
        "RequestTrace": RequestTrace(TraceContext(1, 2)),
    }
    return kind(**{name: values[kind.__annotations__[name]] for name in kind.__struct_fields__})


# --- requests that go without a line --------------------------------------------------------------


def test_the_first_request_of_each_interval_has_a_line() -> None:
    clock = Clock()
    exclusion = Exclusion(["/ping"], 60, clock)

    seen = []
    for _ in range(5):
        seen.append(exclusion.covers("/ping"))
        clock.now += 25

    assert seen == [False, True, True, False, True]


def test_without_an_interval_only_the_first_has_a_line() -> None:
    clock = Clock()
    exclusion = Exclusion(["/ping"], 0, clock)

    first = exclusion.covers("/ping")
    clock.now += 1e9

    assert not first
    assert exclusion.covers("/ping")


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/ping", "/ping", True),
        ("/ping", "/pings", False),
        ("/health/*", "/health/db", True),
        ("/health/*", "/health", False),
        ("*/metrics", "/a/b/metrics", True),
        ("/a.c", "/abc", False),
        ("*", "/with\nbreak", True),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, path: str, covered: bool) -> None:
    exclusion = Exclusion([pattern], 60, Clock())
    exclusion.covers(path)

    assert exclusion.covers(path) is covered


def test_only_the_first_worker_reports_what_all_of_them_find(tmp_path: Path) -> None:
    """Each worker reads the configuration, and uses the same database."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = open_log(Logging(format="json"), fd=fd, besides=_ONCE)

    emit(ConfigWarning("docgraph.yml:1:1", "/x", "a deprecated option"))
    emit(DatabaseLost("gone"))
    log.close()
    os.close(fd)

    assert path.read_text() == ""
