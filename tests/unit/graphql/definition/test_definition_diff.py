"""A definition before and after: the lines that differ, at their numbers, in bounded time."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from docgraph.exchange import Document
from docgraph.graphql.definition.definition_diff import ChangeKind, compare_definitions, find_change


def build(lines: list[str]) -> Document:
    return {"_id": "a", "schema": "\n".join(lines), "mappings": {}}


def diff(old: list[str], new: list[str]) -> list[str]:
    return list(find_change(build(old), build(new), "graphql").diff())


def apply(lines: list[str], old: list[str]) -> list[str]:
    """The text that the lines of a comparison lead to."""
    result: list[str] = []
    at = 0
    for line in lines[2:]:
        if found := re.match(r"@@ -(\d+)(,0)?", line):
            start = int(found[1]) - (0 if found[2] else 1)
            result += old[at:start]
            at = start
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [line[1:]] if line[0] == " " else []
            at += 1
    return result + old[at:]


@pytest.mark.parametrize("seed", range(200))
def test_the_lines_that_differ_lead_from_the_old_text_to_the_new_one(seed: int) -> None:
    chance = random.Random(seed)
    old = [f"# {chance.choice('abcdef')}" for _ in range(chance.randint(1, 30))]
    new = list(old)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(new))
        match chance.randrange(3):
            case 0 if len(new) > 1:
                del new[place]
            case 1:
                new.insert(place, "# new")
            case _:
                new[place] = "# other"
    assert apply(diff(old, new), old) == new


def test_one_line_of_very_many_is_found_at_its_number() -> None:
    old = [f"# {number % 70}" for number in range(50_000)]
    new = [*old[:40_000], "# other", *old[40_001:]]

    lines = diff(old, new)

    assert lines[2] == "@@ -39999,5 +39999,5 @@"
    assert [line for line in lines[3:] if line[0] != " "] == [f"-{old[40_000]}", "+# other"]


def test_very_many_differences_are_not_told_one_by_one() -> None:
    old = [f"# {number}" for number in range(50_000)]
    change = find_change(build(old), build(old[::-1]), "graphql")

    assert change.kind is ChangeKind.CHANGED
    assert list(change.diff())[-1] == "@@ too many lines differ @@"


SCHEMA = "type Query { a(x: Int): A } type A { b: String c: String n: Int } enum E { ONE }"

OPERATIONS = {"operations": [{"name": "all", "query": "{ a { b } }"}]}


def definition(schema: str = SCHEMA, **descriptor: Any) -> dict[str, Any]:
    return {"_id": "app", "descriptor": descriptor, "schema": schema, "mappings": {}}


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    effects = compare_definitions(before, after, "standard")
    return [f"{effect.severity}: {effect.what}" for effect in effects]


def change(old: str, new: str) -> list[str]:
    return compare(definition(), definition(SCHEMA.replace(old, new)))


def test_nothing_has_no_effect() -> None:
    assert compare(definition(), definition(**{"json-mode": "standard"})) == []


@pytest.mark.parametrize(
    ("old", "new", "severity", "word"),
    [
        (" c: String", "", "breaking", "A.c"),
        ("b: String", "b: Int", "breaking", "A.b"),
        ("(x: Int)", "(x: Int, y: Int!)", "breaking", "y"),
        ("(x: Int)", "", "breaking", "x"),
        ("ONE", "ONE TWO", "dangerous", "TWO"),
        ("x: Int", "x: Int = 5", "safe", "x"),
        ("b: String", "b: String!", "safe", "A.b"),
        ("c: String", "c: String d: String", "safe", "A.d"),
    ],
)
def test_changes_of_the_schema_are_judged(old: str, new: str, severity: str, word: str) -> None:
    (effect,) = change(old, new)

    assert effect.startswith(f"{severity}: ")
    assert word in effect


def test_the_worst_comes_first() -> None:
    effects = change("c: String n: Int } enum E { ONE }", "d: String n: Int } enum E { ONE TWO }")

    assert [effect.split(":")[0] for effect in effects] == ["breaking", "dangerous", "safe"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"enabled": False}, "breaking: The app is disabled."),
        ({"enabled": False}, {}, "safe: The app is enabled."),
        ({}, {"uri": "/v2"}, "breaking: The address changed from /app to /v2."),
        (OPERATIONS, {}, "breaking: The prepared query all was removed."),
        ({}, OPERATIONS, "safe: The prepared query all was added."),
        ({"csv": True}, {}, "breaking: The app no longer answers with CSV."),
        ({}, {"csv": True}, "safe: The app answers with CSV where callers accept it."),
        ({}, {"json-mode": "plain"}, "breaking: The JSON mode changed from standard to plain."),
    ],
)
def test_the_descriptor_can_break_clients(before: Any, after: Any, expected: str) -> None:
    assert compare(definition(**before), definition(**after)) == [expected]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", '@visible(roles: ["a"])', "breaking: Field A.c is hidden from callers who have"),
        ('@visible(roles: ["a"])', '@visible(roles: ["b"])', "breaking: Field A.c is hidden"),
        ('@visible(roles: ["a"])', '@visible(roles: ["a", "b"])', "safe: Field A.c is visible"),
        ('@visible(roles: ["a"])', "", "safe: Field A.c is visible to more callers."),
    ],
)
def test_fields_that_others_see_are_told(before: str, after: str, expected: str) -> None:
    """Decision 20: a hidden field does not exist."""
    schemas = [SCHEMA.replace("c: String", f"c: String {one}") for one in (before, after)]

    (effect,) = compare(*map(definition, schemas))

    assert effect.startswith(expected)


def test_arguments_that_others_see_are_reported() -> None:
    """Decision 59: a hidden argument does not exist."""
    hidden = SCHEMA.replace("x: Int", 'x: Int @visible(roles: ["a"])', 1)
    assert hidden != SCHEMA

    assert compare(definition(SCHEMA), definition(hidden)) == [
        "breaking: Argument Query.a(x:) is hidden from callers who have seen it."
    ]


def test_a_schema_that_cannot_work_is_not_compared() -> None:
    expected = ["dangerous: A schema that cannot work cannot be compared."]

    assert compare(definition("type"), definition()) == expected


OLD = "query ($x: Int) { a(x: $x) { b ...Rest } } fragment Rest on A { c n }"


def prepared(query: str) -> dict[str, Any]:
    return definition(operations=[{"name": "all", "query": query}])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (" c n", " n", "its field a.c was removed"),
        ("{ b ...Rest }", "{ b }", "its field a.c was removed"),
        ("a(", "z: a(", "its field a was removed"),
        ("b ", "renamed: b ", "its field a.b was removed"),
        ("$x: Int)", "$y: Int)", "its variable $x was removed"),
        ("$x: Int)", "$x: Int!)", "its variable $x has another type"),
        ("$x: Int)", "$x: [Int])", "its variable $x has another type"),
        ("$x: Int)", "$x: Int, $y: Int!)", "its variable $y is required"),
    ],
)
def test_a_prepared_query_that_loses_variables_or_fields_breaks_clients(
    old: str, new: str, what: str
) -> None:
    effects = compare(prepared(OLD), prepared(OLD.replace(old, new)))

    assert f"breaking: The prepared query all changed: {what}." in effects
    assert effects[-1].startswith("dangerous: ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" c n", " c n again: n"),
        ("$x: Int)", "$x: Int, $y: Int)"),
        ("$x: Int)", "$x: Int, $y: Int! = 3)"),
        ("$x: Int)", "$x: Int! = 3)"),
        ("{ b ...Rest }", "{ ... on A { b c n } }"),
        ("a(x: $x)", "a(x: 5)"),
        ("query (", "query ((("),
    ],
)
def test_another_text_of_a_prepared_query_endangers_clients_that_send_its_hash(
    old: str, new: str
) -> None:
    (effect,) = compare(prepared(OLD), prepared(OLD.replace(old, new)))

    assert effect.startswith("dangerous: The prepared query all changed: ")
    assert "SHA-256" in effect


def test_a_line_break_at_the_end_of_a_prepared_query_has_no_effect() -> None:
    assert compare(prepared(OLD), prepared(f"{OLD}\n")) == []


def test_a_prepared_query_of_many_fragments_is_compared_within_bounds() -> None:
    """Each fragment doubles the fields of the one before it."""
    parts = [
        f"fragment F{n} on A {{ x: a {{ ...F{n + 1} }} y: a {{ ...F{n + 1} }} }}" for n in range(40)
    ]
    bomb = f"{{ ...F0 }} {' '.join(parts)} fragment F40 on A {{ ...F0 ...F40 b }}"

    assert compare(prepared(OLD), prepared(bomb))


def test_generated_types_are_compared() -> None:
    def build(operators: list[str], fields: list[str]) -> dict[str, Any]:
        query = {"db": "d", "collection": "c", "filter": {"fields": {"b": operators}}}
        mappings = {"Query": {"a": {**query, "orderBy": {"fields": fields}}}}
        return definition(SCHEMA.replace("): A", "): [A]")) | {"mappings": mappings}

    full = build(["eq", "in"], ["b", "n"])
    assert compare(full, full) == []
    assert compare(full, build(["eq"], ["b", "n"])) == ["breaking: Field AWhereB.in was removed."]
    assert compare(full, build(["eq", "in"], ["b"])) == ["breaking: Field AOrder.n was removed."]
    (added,) = compare(full, build(["eq", "in", "ne"], ["b", "n"]))
    assert "AWhereB.ne" in added
    assert not added.startswith("breaking")


def test_a_connection_in_place_of_a_list_breaks_clients_and_one_next_to_it_does_not() -> None:
    """Generated types are compared, too (decision 56)."""
    schema = "type Query { posts: [Post!]! } type Post { a: Int }"
    mapping = {"db": "d", "collection": "posts"}
    before = {**definition(schema), "mappings": {"Query": {"posts": mapping}}}

    def change_to(connection: dict[str, Any]) -> list[str]:
        changed = {**mapping, "connection": connection}
        return compare(before, {**before, "mappings": {"Query": {"posts": changed}}})

    replaced = [one for one in change_to({}) if one.startswith("breaking")]
    assert len(replaced) == 1
    assert "Query.posts changed type from [Post!]! to PostConnection!" in replaced[0]
    added = change_to({"field": "pages"})
    assert added
    assert not any(one.startswith("breaking") for one in added)
