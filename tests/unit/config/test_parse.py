"""YAML text → nodes with line and column; bounds; mistakes that say what to do."""

from __future__ import annotations

import math

import pytest

from docgraph.config.config_node import ConfigNode, Origin, to_plain
from docgraph.config.parse import (
    MAX_DEPTH,
    MAX_TEXT,
    ParsedText,
    parse_size,
    parse_yaml,
    resolve_scalar,
)


def parse(text: str) -> ParsedText:
    return parse_yaml(text, lambda line, column: Origin("file.yml", line + 1, column + 1))


def parse_right(text: str) -> ConfigNode:
    parsed = parse(text)
    assert parsed.problems == ()
    assert parsed.node is not None
    return parsed.node


def test_every_value_knows_where_its_key_and_itself_stand() -> None:
    node = parse_right("a: 1\nb:\n  c: [x, y]\n")

    assert isinstance(node.value, dict)
    c = node.value["b"].value["c"]
    assert str(c.key) == "file.yml:3:3"
    assert str(c.origin) == "file.yml:3:6"
    assert [str(item.origin) for item in c.value] == ["file.yml:3:7", "file.yml:3:10"]


def test_values_are_those_of_yaml_1_2() -> None:
    node = parse_right("a: no\nb: 12:30\nc: 010\nd: 'true'\ne: !!str 5\nf:\n1: x\n")

    assert to_plain(node) == {
        "a": "no",
        "b": "12:30",
        "c": 10,
        "d": "true",
        "e": "5",
        "f": None,
        "1": "x",
    }


def test_json_is_understood() -> None:
    node = parse_right('{\n\t"a": [1, "x\\/y", null],\n\t"b": {"c": true}}')

    assert to_plain(node) == {"a": [1, "x/y", None], "b": {"c": True}}


def test_an_empty_text_is_null() -> None:
    assert parse_right("# nothing\n").value is None


def test_anchors_are_followed() -> None:
    assert to_plain(parse_right("a: &x {b: 1}\nc: *x\n")) == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_key_that_stands_twice_is_a_problem_at_its_second_place() -> None:
    [problem] = parse("a:\n  b: 1\n  c: 2\n  b: 3\n").problems

    assert problem.origin == "file.yml:4:3"
    assert problem.path == "/a/b"
    assert problem.hint == "it is already set at file.yml:2:3; keep one of them"


@pytest.mark.parametrize(
    ("text", "origin", "message"),
    [
        ("a:\n\tb: 1\n", "file.yml:2:1", "a tab where YAML wants spaces"),
        ("a: @x\n", "file.yml:1:4", "a value cannot begin with '@'"),
        ("a: b: c\n", "file.yml:1:5", "a second ':' in one line"),
        ("a: [1, 2\n", "file.yml:2:1", "is not closed"),
        ("a: [\n", "file.yml:2:1", "is not closed"),
        ('a: "x\n', "file.yml:2:1", "a quoted text is not closed"),
        ("- x\ny: 1\n", "file.yml:2:1", "does not fit the list above"),
        ("a: 1\n b: 2\n", "file.yml:2:3", "a second ':' in one line"),
        ("a: *nowhere\n", "file.yml:1:4", "nothing is marked with '&nowhere'"),
        ("a: 1\n---\nb: 2\n", "file.yml:2:1", "a second document begins here"),
        ("? [a]\n: 1\n", "file.yml:1:3", "a key must be text"),
        ("a: \x07\n", "file.yml:1:4", "a character that YAML does not allow"),
        ("a: \ud800\n", "file.yml:1:4", "a character that YAML does not allow"),
        ("a: &x [*x]\n", "file.yml:1:8", "nothing is marked with '&x'"),
    ],
)
def test_syntax_errors_have_a_place_and_say_what_to_do(
    text: str, origin: str, message: str
) -> None:
    parsed = parse(text)

    assert parsed.node is None
    assert parsed.problems[-1].origin == origin
    assert message in parsed.problems[-1].message


def test_a_foreign_tag_is_a_problem_and_runs_nothing() -> None:
    problems = parse("a: !!python/object/apply:os.getcwd []\nb: !secret x\nc: !!int x\n").problems

    assert [problem.origin for problem in problems] == [
        "file.yml:1:4",
        "file.yml:2:4",
        "file.yml:3:4",
    ]
    assert all("tag" in problem.message for problem in problems)


def test_aliases_that_multiply_are_cut_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    parsed = parse("\n".join(lines))

    assert parsed.node is None
    assert "aliases included" in parsed.problems[0].message


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000])
def test_nesting_is_bounded(text: str) -> None:
    parsed = parse(text)

    assert parsed.node is None
    assert str(MAX_DEPTH) in parsed.problems[0].message


def test_length_is_bounded() -> None:
    assert parse("#" * (MAX_TEXT + 1)).node is None


@pytest.mark.parametrize("text", ["no", "No", "off", "yes", "on", "y", "12:30", "1:2:3", "1_000"])
def test_surprises_of_yaml_1_1_are_texts(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+7", 7),
        ("1" * 200, int("1" * 200)),
        ("-0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    resolved = resolve_scalar(text)

    assert resolved == value
    assert type(resolved) is type(value)


def test_not_a_number_is_a_float() -> None:
    value = resolve_scalar(".nan")

    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("text", ["2026-01-01", "0b11", "1.2.3.4", "0o9", "0xZ", "TrUe"])
def test_everything_else_is_text(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("64 KiB", 65536),
        ("1MiB", 1 << 20),
        ("1 mib", 1 << 20),
        ("2 GiB", 2 << 30),
        ("10 MB", 10_000_000),
        ("3 kB", 3000),
        ("5 B", 5),
        ("8k", 8192),
    ],
)
def test_sizes_know_binary_and_decimal_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5 MiB", "-1", "1 XiB", "1 MiB x", "٣ MiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    assert parse_size(text) is None
