"""Rights at the database: which we have, which are missing, and the command that grants them."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.store.driver.rights import (
    Missing,
    Privileges,
    Right,
    merge_rights,
    parse_denial,
    render_grant,
    render_missing,
)

USERS = Right("docgraph", "users", ("find", "insert"), "who may log in", required=True)
WHOLE = Right("docgraph", "", ("listCollections",), "what there is")


def privilege(actions: list[str], **resource: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": actions}


@pytest.mark.parametrize(
    ("resource", "lacking"),
    [
        ({"db": "docgraph", "collection": "users"}, ()),
        ({"db": "docgraph", "collection": ""}, ()),
        ({"db": "", "collection": ""}, ()),
        ({"db": "", "collection": "users"}, ()),
        ({"anyResource": True}, ()),
        ({"db": "docgraph", "collection": "acl"}, ("find", "insert")),
        ({"db": "shop", "collection": ""}, ("find", "insert")),
        ({"cluster": True}, ("find", "insert")),
    ],
)
def test_a_right_holds_for_the_resource_that_it_was_granted_on(
    resource: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    held = Privileges([privilege(["find", "insert", "update"], **resource)])

    assert [one.actions for one in held.find_missing([USERS])] == ([lacking] if lacking else [])


def test_actions_may_come_of_several_privileges() -> None:
    held = Privileges(
        [
            privilege(["find"], db="docgraph", collection=""),
            privilege(["insert"], db="docgraph", collection="users"),
        ]
    )

    assert held.find_missing([USERS, WHOLE]) == (Missing(WHOLE, ("listCollections",)),)


def test_all_collections_are_neither_one_of_them_nor_those_of_the_system() -> None:
    some = Privileges([privilege(["find"], db="docgraph", collection="users")])
    ordinary = Privileges([privilege(["find"], db="docgraph", collection="")])
    system = Right("docgraph", "system.views", ("find",), "")

    assert some.find_missing([Right("docgraph", "", ("find",), "")])
    assert ordinary.find_missing([system])


@pytest.mark.parametrize(
    ("text", "place", "action"),
    [
        ('{ find: "items", filter: {} }', "shop.items", "find"),
        ('{ explain: { find: "items" } }', "shop.items", "find"),
        ('{ aggregate: "items", pipeline: [] }', "shop.items", "find"),
        (
            '{ aggregate: "items", pipeline: [ { $changeStream: {} } ] }',
            "shop.items",
            "changeStream",
        ),
        ("{ aggregate: 1, pipeline: [ { $changeStream: {} } ] }", "shop.*", "changeStream"),
        ("{ listCollections: 1, cursor: {} }", "shop.*", "listCollections"),
        ('{ delete: "items" }', "shop.items", "remove"),
        ('{ createIndexes: "items" }', "shop.items", "createIndex"),
    ],
)
def test_what_a_command_lacked_is_read_from_the_words_of_the_database(
    text: str, place: str, action: str
) -> None:
    right = parse_denial(f"not authorized on shop to execute command {text}")

    assert right is not None
    assert (right.place, right.actions, right.required) == (place, (action,), False)


@pytest.mark.parametrize(
    "text",
    [
        "command find requires authentication",
        'not authorized on admin to execute command { replSetGetStatus: "x" }',
        "",
    ],
)
def test_other_words_of_the_database_say_nothing_of_a_right(text: str) -> None:
    assert parse_denial(text) is None


@pytest.mark.parametrize(
    ("actions", "roles"),
    [
        (("find", "changeStream"), "{role: 'read', db: 'docgraph'}"),
        (("find", "insert"), "{role: 'readWrite', db: 'docgraph'}"),
        (("collMod",), "{role: 'dbAdmin', db: 'docgraph'}"),
        (
            ("find", "collMod"),
            "{role: 'read', db: 'docgraph'}, {role: 'dbAdmin', db: 'docgraph'}",
        ),
    ],
)
def test_the_grant_names_the_smallest_roles_that_help(actions: tuple[str, ...], roles: str) -> None:
    grant = render_grant("o'h\"ara", "admin", [Missing(USERS, actions)])

    user = "'o\\'h\"ara'"
    assert grant == f"db.getSiblingDB('admin').grantRolesToUser({user}, [{roles}])"


def test_what_is_missing_is_listed_by_place() -> None:
    other = Right("docgraph", "users", ("changeStream",), "news")
    missing = [
        Missing(USERS, ("insert",)),
        Missing(WHOLE, WHOLE.actions),
        Missing(other, ("find",)),
    ]

    assert list(render_missing(missing)) == [
        "docgraph.users: insert, find (who may log in; news)",
        "docgraph.*: listCollections (what there is)",
    ]


def test_a_right_that_is_known_is_not_asked_for_twice() -> None:
    asked = Right("docgraph", "users", ("find",), "asked for by a request")
    new = Right("shop", "items", ("find",), "asked for by a request")

    assert merge_rights([USERS], [asked, new]) == (USERS, new)
