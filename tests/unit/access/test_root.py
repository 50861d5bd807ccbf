"""The root role is given by no shape of a write."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.access.root import OwnRoles, find_property, keep_own_roles, may_give, spare_holders
from docgraph.config.sections import DbRealmAuthenticator
from docgraph.exchange import Account, Write, WriteKind


def insert(*documents: Any) -> Write:
    return Write(WriteKind.INSERT, documents)


def update(change: Any, **more: Any) -> Write:
    return Write(WriteKind.UPDATE, update=change, **more)


def pipeline(*stages: Any) -> Write:
    return Write(WriteKind.UPDATE, pipeline=stages)


@pytest.mark.parametrize(
    "write",
    [
        insert({"roles": ["admin"]}),
        insert({"roles": "admin"}),
        insert({"roles": ["user"]}, {"roles": ["user", "admin"]}),
        insert({"roles.0": "admin"}),
        insert({"roles": [["admin"]]}),
        Write(WriteKind.REPLACE, ({"_id": "x", "roles": ["admin"]},)),
        update({"$set": {"roles": ["admin"]}}),
        update({"$set": {"roles.0": "admin"}}),
        update({"$set": {"roles.$[]": "admin"}}, many=True),
        update({"$setOnInsert": {"roles": ["admin"]}}, upsert=True),
        update({"$push": {"roles": "admin"}}),
        update({"$push": {"roles": {"$each": ["a", "admin"]}}}),
        update({"$addToSet": {"roles": "admin"}}),
        update({"$addToSet": {"roles": {"$each": ["admin"]}}}),
        update({"$max": {"roles.0": "admin"}}),
        update({"$rename": {"hobbies": "roles"}}),
        update({"$rename": {"hobbies": "roles.0"}}),
        update({"$set": {"x": 1}}, filter={"roles": ["admin"]}, upsert=True),
        update({"$set": {"x": 1}}, filter={"$and": [{"roles.0": "admin"}]}, upsert=True),
        pipeline({"$set": {"roles": {"$concatArrays": ["$roles", ["admin"]]}}}),
        pipeline({"$addFields": {"roles": ["$nickname"]}}),
        pipeline({"$project": {"roles": "$hobbies"}}),
        pipeline({"$replaceWith": {"$mergeObjects": ["$$ROOT", {"roles": ["admin"]}]}}),
        pipeline({"$set": {"x": 1}}, {"$replaceRoot": {"newRoot": "$draft"}}),
    ],
)
def test_writes_that_could_give_the_role(write: Write) -> None:
    assert may_give(write, "admin", "roles")


@pytest.mark.parametrize(
    "write",
    [
        insert({"roles": ["user"], "title": "admin"}),
        insert({"_id": "admin", "roles": []}),
        update({"$set": {"title": "admin", "roles": ["user"]}}),
        update({"$pull": {"roles": "admin"}}),
        update({"$pullAll": {"roles": ["admin"]}}),
        update({"$unset": {"roles": "admin"}}),
        update({"$set": {"x": 1}}, filter={"roles": "admin"}),
        pipeline({"$set": {"x": "$roles"}}),
        pipeline({"$unset": "roles"}),
        Write(WriteKind.DELETE, filter={"roles": "admin"}),
    ],
)
def test_writes_that_do_not(write: Write) -> None:
    assert not may_give(write, "admin", "roles")


@pytest.mark.parametrize(
    ("path", "property"),
    [
        ("$.roles", "roles"),
        ("$.auth.roles", "auth"),
        ("$.teams[*].role", "teams"),
        ("$..roles", None),
        ("$.*", None),
        ("$['roles']", None),
    ],
)
def test_the_property_that_roles_lie_below(path: str, property: str | None) -> None:
    assert find_property(path) == property


def test_where_it_could_be_any_property_all_are_looked_at() -> None:
    assert may_give(insert({"anything": {"deep": ["admin"]}}), "admin", None)


@pytest.mark.parametrize(
    ("json_path", "condition"),
    [
        ("$.roles", {"roles": {"$ne": "admin"}}),
        ("$.auth.roles[*]", {"auth.roles": {"$ne": "admin"}}),
        ("$..roles", None),
    ],
)
def test_writes_find_nobody_who_has_the_role(json_path: str, condition: Any) -> None:
    write = Write(WriteKind.DELETE, filter={"_id": "x"})

    spared = spare_holders(write, "admin", json_path)

    assert spared.filter == ({"$and": [{"_id": "x"}, condition]} if condition else {"_id": "x"})


ADA = Account("ada", ("user",), {"_id": "ada"})
OTHERS = {"_id": {"$ne": "ada"}}


def replace(*documents: Any) -> Write:
    return Write(WriteKind.REPLACE, documents)


@pytest.mark.parametrize(
    "write",
    [
        update({"$set": {"roles": ["editor"]}}),
        update({"$set": {"roles.0": "editor"}}, many=True),
        update({"$push": {"roles": "editor"}}),
        update({"$rename": {"wishes": "roles"}}),
        update({"$rename": {"roles": "old"}}),
        pipeline({"$set": {"roles": "$wishes"}}),
        pipeline({"$replaceWith": "$draft"}),
    ],
)
def test_a_write_that_touches_roles_does_not_find_the_caller(write: Write) -> None:
    assert keep_own_roles(write, ADA, DbRealmAuthenticator()).filter == OTHERS


def test_a_replacement_finds_the_caller_with_the_same_roles_only() -> None:
    written = keep_own_roles(replace({"_id": "ada", "roles": ["x"]}), ADA, DbRealmAuthenticator())
    same = {"roles": {"$eq": ["x"]}}
    assert written.filter == {"$and": [{"_id": "ada"}, {"$or": [OTHERS, same]}]}


def test_several_replacements_with_the_caller_among_them_are_refused() -> None:
    named = DbRealmAuthenticator(prop_id="login.name")
    for own, users in (
        ({"_id": "ada", "roles": ["x"]}, DbRealmAuthenticator()),
        ({"_id": "ada", "roles.0": "x"}, DbRealmAuthenticator()),
        ({"_id": 1, "login": {"name": "ada"}, "roles": ["x"]}, named),
    ):
        with pytest.raises(OwnRoles):
            keep_own_roles(replace({"_id": "bob", "roles": []}, own), ADA, users)


@pytest.mark.parametrize(
    "write",
    [
        update({"$set": {"name": "Ada", "password": "x"}}),
        update({"$unset": {"rolesOfOld": ""}}),
        pipeline({"$set": {"name": "$nick"}}),
        replace({"_id": "ada", "name": "Ada"}),
        replace({"_id": "ada", "name": "Ada"}, {"_id": "bob", "roles": ["x"]}),
        insert({"_id": "eve", "roles": ["x"]}),
        Write(WriteKind.DELETE, filter={"_id": "ada"}),
    ],
)
def test_what_leaves_own_roles_alone_is_left_alone(write: Write) -> None:
    assert keep_own_roles(write, ADA, DbRealmAuthenticator()) is write
