"""What every check of writes says of the same table of writes: one reading, many questions.

`write_verdicts.json` holds the answers. A line may only become stricter, and only on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from docgraph.access.enforce import check_copies, merge_into
from docgraph.access.language import RequestView, compile_predicate, holds
from docgraph.access.role_escalation import (
    OwnRoles,
    RolePlace,
    UnknownNames,
    keep_own_roles,
    may_give,
    written_names,
)
from docgraph.auth.authenticators.password_paths import Properties, ends_sessions, find_passwords
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Account, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import DocgraphError
from docgraph.rest.patch import build_update
from docgraph.store.guard.rewrite import check_write
from docgraph.store.guard.stage_checks import Policy
from tests.unit.access.harness import RESOLVERS, make_exchange

pytestmark = pytest.mark.anyio

VERDICTS: Final = Path(__file__).with_name("write_verdicts.json")
ETAG: Final = ObjectId("000000000000000000000001")
ADA: Final = Account("ada", ("user",), {"_id": "ada"})
USER: Final = Resource(ResourceType.DOCUMENT, "docgraph", "users", "eve")
NAMES: Final = Properties("name", "password", "ha1")

DOCUMENTS: Final[dict[str, list[dict[str, Any]]]] = {
    "plain": [{"name": "eve", "roles": ["user"], "profile": {"secret": 1}}],
    "role": [{"roles": ["admin"]}],
    "role below": [{"profile": {"roles": ["admin"]}}],
    "dotted key": [{"roles.0": "admin", "profile.secret": 1}],
    "dotted name": [{"name.first": "eve"}],
    "operator as a name": [{"$set": {"roles": ["admin"]}}],
    "several": [{"_id": 1, "name": "eve"}, {"_id": 2, "roles": ["admin"]}],
    "own": [{"_id": "ada", "roles": ["user"]}, {"_id": "x"}],
    "password": [{"name": "eve", "password": "s3cret"}],
    "derived": [{"name": "eve", "ha1": {"MD5": "x"}}],
    "array of objects": [{"profile": [{"secret": 1}, {"team": 2}]}],
    "nothing": [{}],
}

UPDATES: Final[dict[str, dict[str, Any]]] = {
    "set": {"$set": {"title": "x"}},
    "set roles": {"$set": {"roles": ["user"]}},
    "set the role": {"$set": {"roles": ["admin"]}},
    "set an element": {"$set": {"roles.0": "admin"}},
    "set by $": {"$set": {"roles.$": "admin", "profile.$.secret": 1}},
    "set by $[]": {"$set": {"roles.$[]": "admin", "profile.$[].team": 1}},
    "set by $[id]": {"$set": {"grants.$[one].on": True}},
    "set around": {"$set": {"profile": {"secret": 1, "team": 2}}},
    "set below": {"$set": {"profile.secret.deep": 1}},
    "set dotted inside": {"$set": {"profile": {"secret.deep": 1}}},
    "set an operator": {"$set": {"profile": {"$inc": 1}}},
    "set $ path": {"$set": {"$roles": ["admin"]}},
    "set name": {"$set": {"name": "ada"}},
    "set name below": {"$set": {"name.first": ["ada", {"x": "bob"}]}},
    "set on insert": {"$setOnInsert": {"roles": ["admin"], "name": "ada"}},
    "set on insert around": {"$setOnInsert": {"profile": {"secret": 1, "x": 2}}},
    "rename from": {"$rename": {"roles": "old"}},
    "rename to": {"$rename": {"hobbies": "roles", "nick": "name"}},
    "rename to an element": {"$rename": {"hobbies": "roles.0"}},
    "rename to below": {"$rename": {"hobbies": "profile.secret"}},
    "rename to a role's name": {"$rename": {"roles": "admin"}},
    "rename to no path": {"$rename": {"roles": 5}},
    "rename the name": {"$rename": {"name": "nick"}},
    "rename a secret": {"$rename": {"password": "shown"}},
    "rename to a secret": {"$rename": {"shown": "password"}},
    "unset": {"$unset": {"roles": ""}},
    "unset an element": {"$unset": {"roles.0": ""}},
    "unset below": {"$unset": {"grants.0.on": ""}},
    "unset around": {"$unset": {"profile": ""}},
    "current date": {"$currentDate": {"roles": True, "name": {"$type": "date"}}},
    "push": {"$push": {"roles": "admin"}},
    "push each": {"$push": {"roles": {"$each": ["user", "admin"], "$position": 0}}},
    "push sorted": {"$push": {"profile": {"$each": [], "$sort": {"secret": 1}}}},
    "add to set": {"$addToSet": {"roles": {"$each": ["admin"]}, "name": "ada"}},
    "pull": {"$pull": {"roles": "admin"}},
    "pull all": {"$pullAll": {"roles": ["admin"]}},
    "pull by a part": {"$pull": {"profile": {"secret": 1}}},
    "pop": {"$pop": {"roles": -1}},
    "max": {"$max": {"roles.0": "admin", "name": "zoe"}},
    "min": {"$min": {"profile.secret": 1}},
    "inc": {"$inc": {"profile.secret": 1, "name": 1}},
    "inc roles": {"$inc": {"roles.0": 1}},
    "mul": {"$mul": {"profile.secret": 2}},
    "mul name": {"$mul": {"name": 2}},
    "bit": {"$bit": {"grants.0.on": {"xor": 1}}},
    "unknown operator": {"$frob": {"roles": "x", "title": 1}},
    "unknown operator elsewhere": {"$frob": {"title": 1}},
    "no fields": {"$inc": 5},
    "conflict": {"$set": {"profile": 1}, "$inc": {"profile.secret": 1}},
    "conflict by rename": {"$set": {"roles": []}, "$rename": {"x": "roles.0"}},
    "password": {"$set": {"password": "s3cret"}},
    "password on insert": {"$setOnInsert": {"password": "s3cret"}},
    "password pushed": {"$push": {"password": "s3cret"}},
    "password below": {"$set": {"password.x": "s3cret"}},
    "password away": {"$unset": {"password": ""}},
    "password below away": {"$unset": {"password.x": ""}},
    "derived": {"$set": {"ha1": {"MD5": "x"}}},
}

PIPELINES: Final[dict[str, list[Any]]] = {
    "set": [{"$set": {"title": "x"}}],
    "set the role": [{"$set": {"roles": ["admin"]}}],
    "set roles": [{"$set": {"roles": ["user"]}}],
    "set by a path": [{"$set": {"roles": "$hobbies"}}],
    "set around": [{"$set": {"profile": {"secret": 1, "team": "$x"}}}],
    "set below": [{"$addFields": {"profile.secret": 1}}],
    "set a literal": [{"$set": {"roles": {"$literal": ["admin"]}}}],
    "add fields": [{"$addFields": {"roles": {"$concatArrays": ["$roles", ["x"]]}}}],
    "let and cond": [
        {"$set": {"a": {"$let": {"vars": {"r": "$roles"}, "in": {"$cond": ["$$r", 1, 2]}}}}}
    ],
    "read a hidden one": [{"$set": {"a": {"$cond": [{"$gt": ["$profile.secret", 1]}, 1, 2]}}}],
    "read all": [{"$set": {"a": "$$ROOT"}}],
    "read by name": [{"$set": {"a": {"$getField": "roles"}}}],
    "set $ path": [{"$set": {"$roles": ["admin"]}}],
    "set no fields": [{"$set": 5}],
    "set name": [{"$set": {"name": "ada"}}],
    "replace with": [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": 1}]}}],
    "replace root": [{"$replaceRoot": {"newRoot": "$draft"}}],
    "unset": [{"$unset": "roles"}],
    "unset several": [{"$unset": ["title", "roles.0"]}],
    "unset no path": [{"$unset": {"roles": 1}}],
    "unset name": [{"$unset": "name"}],
    "project with": [{"$project": {"title": 1}}],
    "project roles": [{"$project": {"roles": 1}}],
    "project without": [{"$project": {"roles": 0}}],
    "project computed": [{"$project": {"roles": "$hobbies"}}],
    "project password": [{"$project": {"password": 1, "title": 1}}],
    "project password computed": [{"$project": {"password": "$title"}}],
    "set password": [{"$set": {"password": "s3cret"}}],
    "unset password": [{"$unset": "password"}],
    "two": [{"$unset": "x"}, {"$set": {"roles.0": "admin"}}],
    "then the etag": [{"$set": {"title": 1}}, {"$set": {"_etag": ETAG}}],
}

FILTERS: Final[dict[str, dict[str, Any]]] = {
    "equality": {"roles": ["admin"]},
    "element": {"roles.0": "admin"},
    "eq": {"roles": {"$eq": ["admin"]}},
    "in of one": {"roles": {"$in": ["admin"]}},
    "in of two": {"roles": {"$in": ["admin", "user"]}},
    "all of one": {"roles": {"$all": ["admin"]}},
    "not equal": {"roles": {"$ne": "admin"}},
    "and": {"$and": [{"roles": "admin"}, {"title": "x"}]},
    "or of one": {"$or": [{"roles": "admin"}]},
    "or of two": {"$or": [{"roles": "admin"}, {"title": "x"}]},
    "nor": {"$nor": [{"roles": "admin"}]},
    "no list": {"$and": {"roles": "admin"}},
    "list in a list": {"$and": [[{"roles": "admin"}]]},
    "expr": {"$expr": {"$eq": ["$roles", "admin"]}},
    "elem match": {"roles": {"$elemMatch": {"$eq": "admin"}}},
    "greater": {"profile.secret": {"$gt": 1}},
    "below": {"profile.secret": 1},
    "around": {"profile": {"secret": 1}},
    "name": {"name": "ada"},
    "id": {"_id": "admin"},
    "role's name elsewhere": {"title": "admin"},
}


def build_writes() -> dict[str, Write]:
    """The table, each write under a name that says its kind."""
    writes = {
        f"{kind}: {name}": Write(kind, tuple(documents))
        for kind in (WriteKind.INSERT, WriteKind.REPLACE)
        for name, documents in DOCUMENTS.items()
    }
    update = WriteKind.UPDATE
    writes |= {f"update: {name}": Write(update, update=one) for name, one in UPDATES.items()}
    writes |= {
        f"pipeline: {name}": Write(update, pipeline=tuple(one)) for name, one in PIPELINES.items()
    }
    change = {"$set": {"title": 1}}
    for name, filter in FILTERS.items():
        writes[f"filter: {name}"] = Write(update, update=change, filter=filter)
        writes[f"upsert: {name}"] = Write(update, update=change, filter=filter, upsert=True)
    writes["delete"] = Write(WriteKind.DELETE, filter={"roles": "admin"})
    return writes


# --- the questions --------------------------------------------------------------------------------

PATHS: Final = ("$.roles", "$.profile.roles", "$..roles", "$.roles[0]", "$.grants[?@.on].role")


def place(path: str) -> RolePlace:
    return RolePlace.of(DbRealmAuthenticator(json_path_roles=path))


def keeps(write: Write, path: str) -> bool:
    users = DbRealmAuthenticator(json_path_roles=path, prop_id="name")
    try:
        return keep_own_roles(write, ADA, users, RolePlace.of(users)) is not write
    except OwnRoles:
        return True


def find_names(write: Write) -> list[str] | str:
    try:
        return sorted(written_names(write, "name"))
    except UnknownNames:
        return "untold"


def is_refused(check: Callable[[], Any]) -> bool:
    try:
        check()
    except DocgraphError:
        return True
    return False


def list_passwords(write: Write) -> list[str] | str:
    try:
        found = find_passwords(write, USER, NAMES)
    except DocgraphError:
        return "refused"
    return [f"{one.operator}: {one.text} of {one.user}" for one in found]


def show(write: Write) -> Any:
    return write.documents or write.update or write.pipeline


HIDDEN: Final = {"roles": (("roles",),), "profile.secret": (("profile", "secret"),)}


def answer(write: Write) -> dict[str, Any]:
    """What each check says; empty answers are left out."""
    applied = Write(WriteKind.REPLACE, ({"_id": 1},), applied=write.update)
    answers: dict[str, Any] = {
        "gives": [path for path in PATHS if may_give(write, "admin", place(path))],
        "keeps": [path for path in PATHS if keeps(write, path)],
        "names": find_names(write),
        "copies": [
            f"{key} {flag}"
            for key in ("roles", "profile.secret", "title")
            for flag in (0, 1)
            if is_refused(lambda: check_copies(write, {key: flag}))  # noqa: B023
        ],
        "copies, checked": [
            f"{key} {flag}"
            for key in ("roles", "profile.secret", "title")
            for flag in (0, 1)
            if is_refused(lambda: check_copies(applied, {key: flag}))  # noqa: B023
        ],
        "guarded": [
            name
            for name, paths in HIDDEN.items()
            if is_refused(lambda: check_write(write, db="d", policy=Policy(), hidden=paths))  # noqa: B023
        ],
        "passwords": list_passwords(write),
        "ends": ends_sessions(write, NAMES),
        "conflicts": write.update and is_refused(lambda: build_update(write.update or {}, ETAG)),
        "merged": show(merge_into(write, {"roles": ["user"], "profile.team": 7})),
    }
    return {key: one for key, one in answers.items() if one}


KEYS: Final = ("roles", "profile", "profile.secret", "title", "name")
WORDS: Final = (
    "bson-request-blacklist({key})",
    "bson-request-whitelist({key}, title)",
    "bson-request-contains({key})",
    "bson-request-prop-equals(key={key}, value=1)",
    "bson-request-prop-equals(key={key}, value='\"admin\"')",
    "bson-request-array-is-subset(key={key}, values={{'\"user\"'}})",
    "bson-request-array-contains(key={key}, values={{'\"admin\"'}})",
)


def build_requests() -> dict[str, tuple[str, str, Any]]:
    """Method, path and body of requests to the REST API."""
    requests: dict[str, tuple[str, str, Any]] = {}
    for name, documents in DOCUMENTS.items():
        requests[f"post: {name}"] = ("POST", "/people", documents)
        requests[f"put: {name}"] = ("PUT", "/people/eve", documents[0])
    for name, update in UPDATES.items():
        requests[f"patch: {name}"] = ("PATCH", "/people/eve", update)
        requests[f"patch: {name}, and a key"] = ("PATCH", "/people/eve", {"roles": [], **update})
    for name, pipeline in PIPELINES.items():
        if "etag" not in name:
            requests[f"patch by stages: {name}"] = ("PATCH", "/people/eve", pipeline)
    for name, filter in FILTERS.items():
        path = f"/people/eve?wm=upsert&filter={json.dumps(filter)}"
        requests[f"patch by filter: {name}"] = ("PATCH", path, {"$set": {"title": 1}})
    return requests


@cache
def compile_word(text: str) -> Any:
    return compile_predicate(text, RESOLVERS.variables)


async def judge_request(method: str, path: str, body: Any) -> str:
    """For each key and word: holds, fails, or neither (`+`, `-`, `?`)."""
    signs = []
    view = RequestView(make_exchange(method, path, body=body), RESOLVERS)  # of all rules
    for key in KEYS:
        for word in WORDS:
            text = word.format(key=key)
            if await holds(compile_word(text), view):
                signs.append("+")
            else:
                fails = await holds(compile_word(f"not {text}"), view)
                signs.append("-" if fails else "?")
        signs.append(" ")
    return "".join(signs).strip()


async def judge_all() -> dict[str, Any]:
    writes = {name: answer(write) for name, write in build_writes().items()}
    requests = {name: await judge_request(*one) for name, one in build_requests().items()}
    return {"writes": json.loads(json.dumps(writes, default=str)), "requests": requests}


async def test_all_checks_agree_with_the_table() -> None:
    expected, found = json.loads(VERDICTS.read_text()), await judge_all()

    differing = {
        f"{part}/{name}": (expected[part].get(name), one)
        for part in ("writes", "requests")
        for name, one in found[part].items()
        if expected[part].get(name) != one
    }

    assert differing == {}
    assert found.keys() == expected.keys()
    assert all(found[part].keys() == expected[part].keys() for part in found)
