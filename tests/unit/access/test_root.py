"""The root role is given by no shape of a write."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.access.role_escalation import (
    MAX_USERS,
    OwnRoles,
    RolePlace,
    keep_own_roles,
    may_give,
    spare_holders,
)
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import Account, Write, WriteKind
from docgraph.exchange.errors import RequestError

pytestmark = pytest.mark.anyio


def place(json_path: str) -> RolePlace:
    return RolePlace.of(DbRealmAuthenticator(json_path_roles=json_path))


def keep(write: Write, users: DbRealmAuthenticator | None = None) -> Write:
    users = users or DbRealmAuthenticator()
    return keep_own_roles(write, ADA, users, RolePlace.of(users))


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
    assert may_give(write, "admin", place("$.roles"))


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
    assert not may_give(write, "admin", place("$.roles"))


@pytest.mark.parametrize(
    ("path", "property"),
    [
        ("$.roles", "roles"),
        ("$.auth.roles", "auth"),
        ("$.teams[*].role", "teams"),
        ("$..roles", None),
        ("$.*", None),
        ("$['roles']", "roles"),
        ("$['a.b']", None),
        ("$['roles', 'more']", None),
        ("$.grants[?@.on == $.active].role", None),
        ("$.grants[?@.on].role", "grants"),
        ("$", None),
    ],
)
def test_the_property_that_roles_lie_below(path: str, property: str | None) -> None:
    assert RolesPath(path).property == property


def test_where_it_could_be_any_property_all_are_looked_at() -> None:
    assert may_give(insert({"anything": {"deep": ["admin"]}}), "admin", place("$..roles"))
    assert not may_give(insert({"password": "admin"}), "admin", place("$..roles"))


@pytest.mark.parametrize(
    ("json_path", "write"),
    [
        ("$.roles[0]", update({"$pop": {"roles": -1}})),
        ("$.roles[0]", update({"$pull": {"roles": "user"}})),
        ("$.roles[1]", update({"$push": {"roles": {"$each": ["user"], "$position": 0}}})),
        ("$.roles[1:]", pipeline({"$unset": "roles.0"})),
        ("$.grants[?@.on == true].role", update({"$set": {"grants.0.on": True}})),
        ("$.grants[?@.on == true].role", update({"$bit": {"grants.0.on": {"xor": 1}}})),
        ("$.grants[?!@.off].role", update({"$unset": {"grants.0.off": ""}})),
        ("$.grants[?!@.off].role", pipeline({"$unset": ["name", "grants.off"]})),
        ("$.grants[?$.active].role", update({"$set": {"active": True}})),
        ("$.grants[?!$.locked].role", update({"$unset": {"locked": ""}})),
        ("$.grants[?!$.locked].role", pipeline({"$unset": "locked"})),
    ],
)
def test_what_changes_around_a_stored_role_could_give_it(json_path: str, write: Write) -> None:
    """Such a path takes some of what is stored, and which of it depends on the rest."""
    assert may_give(write, "admin", place(json_path))


@pytest.mark.parametrize(
    "write",
    [
        update({"$set": {"grants": [{"role": "user", "on": True}]}}),
        update({"$unset": {"grants": ""}}),
        update({"$set": {"name": "Ada", "password": "x"}}),
        pipeline({"$unset": ["grants", "name"]}),
        Write(WriteKind.REPLACE, ({"_id": "x", "grants": [{"role": "user"}]},)),
    ],
)
def test_what_is_written_whole_is_certain(write: Write) -> None:
    assert not may_give(write, "admin", place("$.grants[?@.on == true].role"))


async def find_none(filter: Any, limit: int) -> list[Any]:
    raise AssertionError("nobody has to be read")


async def test_a_condition_of_the_database_spares_those_with_the_role_at_a_plain_path() -> None:
    write = Write(WriteKind.DELETE, filter={"_id": "x"})

    for json_path, name in (("$.roles", "roles"), ("$.auth.roles", "auth.roles")):
        spared = await spare_holders(write, "admin", place(json_path), find_none)
        assert spared.filter == {"$and": [{"_id": "x"}, {name: {"$ne": "admin"}}]}


async def test_at_other_paths_those_who_are_read_without_it_are_left() -> None:
    async def find(filter: Any, limit: int) -> list[Any]:
        assert (filter, limit) == ({"team": "x"}, MAX_USERS + 1)
        return [
            {"_id": 1, "grants": [{"role": "user"}, {"role": "admin"}]},
            {"_id": 2, "grants": [{"role": "user"}]},
            {"_id": 3},
        ]

    write = update({"$set": {"x": 1}}, filter={"team": "x"}, many=True)

    spared = await spare_holders(write, "admin", place("$.grants[*].role"), find)

    assert spared.filter == {
        "$and": [
            {"team": "x"},
            {
                "$or": [
                    {"grants": {"$eq": [{"role": "user"}]}, "_id": {"$eq": 2}},
                    {"grants": {"$exists": False}, "_id": {"$eq": 3}},
                ]
            },
        ]
    }


async def test_roles_anywhere_are_compared_by_properties_that_a_condition_can_address() -> None:
    """`a.b` as a name would be a path; the password is no place of roles, and changes."""
    user = {"_id": 1, "a": 5, "a.b": 6, "$c": 7, "": 8, "password": "x"}

    async def find(filter: Any, limit: int) -> list[Any]:
        return [user]

    write = Write(WriteKind.DELETE, filter={"_id": 1})
    spared = await spare_holders(write, "admin", place("$..role"), find)

    assert spared.filter == {"$and": [{"_id": 1}, {"$or": [{"a": {"$eq": 5}, "_id": {"$eq": 1}}]}]}


async def test_as_many_users_as_can_be_judged_are_judged() -> None:
    async def find(filter: Any, limit: int) -> list[Any]:
        return [{"_id": number} for number in range(limit - 1)]

    write = Write(WriteKind.DELETE, filter={"a": 1}, many=True)
    spared = await spare_holders(write, "admin", place("$..role"), find)
    assert len(spared.filter["$and"][1]["$or"]) == MAX_USERS


async def test_more_users_than_can_be_judged_are_refused() -> None:
    async def find(filter: Any, limit: int) -> list[Any]:
        return [{"_id": number} for number in range(limit)]

    write = Write(WriteKind.DELETE, filter={"a": 1}, many=True)
    with pytest.raises(RequestError, match="more than 1000 users"):
        await spare_holders(write, "admin", place("$..role"), find)


@pytest.mark.parametrize(
    ("json_path", "user", "held"),
    [
        ("$.grants[*].role", {"grants": [{"role": "admin"}]}, True),
        ("$.grants[*].role", {"grants": [{"role": ["user", "admin"]}]}, True),
        ("$.grants[*].role", {"grants": [{"rôle": "admin"}]}, False),
        ("$.roles[*]", {"roles": {"first": "admin"}}, True),
        ("$.roles[*]", {"roles": [["admin"]]}, True),
        ("$..role", {"a": [{"b": {"role": "admin"}}]}, True),
        ("$..role", {"password": {"role": "admin"}}, False),
        ("$['roles']", {"roles": "admin"}, True),
        ("$['roles']", {"roles": "user"}, False),
        ("$.roles[0]", {"roles": ["user", "admin"]}, True),
        ("$.roles[0:1]", {"roles": ["user", "admin"]}, False),
        ("$.grants[?@.on == true].role", {"grants": [{"role": "admin", "on": False}]}, False),
        (
            "$.grants[?search(@.name, '^a')].role",
            {"grants": [{"role": "admin", "name": "ab"}]},
            True,
        ),
    ],
)
def test_who_has_the_role_is_read_as_a_login_reads_it(
    json_path: str, user: Any, held: bool
) -> None:
    """What no login could read, and holds the text, counts as having it."""
    assert place(json_path).is_held({"_id": "x", **user}, "admin") is held


def test_a_user_nested_too_deep_to_be_read_has_the_role_that_stands_in_it() -> None:
    user: Any = {"_id": "x", "role": "admin"}
    inner = user
    for _ in range(150):
        inner["a"] = inner = {}
    assert place("$..role").is_held(user, "admin")


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
    assert keep(write).filter == OTHERS


def test_a_replacement_finds_the_caller_with_the_same_roles_only() -> None:
    written = keep(replace({"_id": "ada", "roles": ["x"]}))
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
            keep(replace({"_id": "bob", "roles": []}, own), users)


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
    assert keep(write) is write


def test_replacements_without_an_id_are_of_other_users() -> None:
    write = Write(WriteKind.REPLACE, ({"roles": ["x"]}, {"_id": "eve", "roles": ["x"]}))

    assert keep(write) == write
    with pytest.raises(OwnRoles):
        keep(Write(WriteKind.REPLACE, ({"roles": ["x"]}, {"_id": "ada", "roles": ["x"]})))
