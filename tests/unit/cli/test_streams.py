"""What `docgraph streams tail` asks for, reads and prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from docgraph.cli.streams import _build_path, _read_events, _render, streams


def render(event: Any, *, as_json: bool = False) -> str:
    return _render(json.dumps(event, ensure_ascii=False), as_json=as_json)


@pytest.mark.parametrize(
    ("stream", "parameters", "path"),
    [
        ("messages/new", (), "/messages/_streams/new?event-ids=true"),
        ("/db/a b/c d/", (), "/db/a%20b/_streams/c%20d?event-ids=true"),
        (
            "messages/new",
            ('avars={"a": "b=c"}', "r="),
            "/messages/_streams/new?event-ids=true&avars=%7B%22a%22%3A+%22b%3Dc%22%7D&r=",
        ),
    ],
)
def test_a_stream_is_named_by_its_collection_and_its_uri(
    stream: str, parameters: tuple[str, ...], path: str
) -> None:
    assert _build_path(stream, parameters) == path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("things",), "name the collection and the stream"),
        (("a/b", "--query=x"), "'x' is not NAME=VALUE"),
        (("a/b", "--url=ftp://127.0.0.1"), "give http://… or https://…"),
        (("a/b", "--url=http://127.0.0.1:x"), "give http://… or https://…"),
        (("a/b", "--url=http://["), "give http://… or https://…"),
        (("a/b", "--resume-after=a\nb"), "characters that it cannot have"),
        (("a/b", "--password-file=x"), "--user says whose password it is"),
        (("a/b", "--user=ada", "--token-file=x"), "--user or --token-file, not both"),
    ],
)
def test_what_cannot_be_meant_is_told(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(streams, ["tail", *arguments])

    assert (done.exit_code, message in done.output) == (2, True)


def test_events_are_read_without_comments() -> None:
    lines = b":\n\nid:1\n:\nevent:change\ndata:{}\n\n:\n\n:x\nid: 2\ndata: a:b\r\n\n\ndata:cut"

    events = list(_read_events(lines.splitlines(keepends=True)))

    assert events == [
        {"id": "1", "event": "change", "data": "{}"},
        {"id": "2", "data": "a:b"},
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            {"operationType": "insert", "documentKey": {"_id": "a"}, "fullDocument": {"x": "ü"}},
            '--:--:--  insert  "a"  {"x":"ü"}',
        ),
        (
            {
                "operationType": "update",
                "documentKey": {"_id": 0},
                "fullDocument": {"x": 1},
                "updateDescription": {"updatedFields": {"x": 1}, "removedFields": []},
            },
            '--:--:--  update  0  {"updatedFields":{"x":1},"removedFields":[]}',
        ),
        ({"operationType": "delete", "documentKey": {"_id": None}}, "--:--:--  delete"),
        ({"operationType": "drop"}, "--:--:--  drop"),
    ],
)
def test_an_event_is_one_line(event: Any, line: str) -> None:
    assert render(event) == line


def test_the_time_is_that_of_the_database() -> None:
    event = {"operationType": "drop", "clusterTime": {"$timestamp": {"t": 1794794947, "i": 1}}}

    assert render(event)[2::3][:2] == "::"


@pytest.mark.parametrize("as_json", [True, False])
def test_what_people_stored_does_not_steer_the_terminal(as_json: bool) -> None:
    text = "\x1b[2J\x9b\u202e\U000e0001ü"
    event = {"operationType": "insert", "fullDocument": {"x": text}}

    line = render(event, as_json=as_json)

    assert line.isprintable()
    assert json.loads(line[line.index("{") :]) == (event if as_json else {"x": text})


def test_what_is_no_json_is_shown_as_it_came() -> None:
    assert _render('{"_id": ObjectId("a")}', as_json=False) == '{"_id": ObjectId("a")}'
