"""Where a write puts a password: every shape of decision 34, found or refused."""

from typing import Any

import pytest

from docgraph.auth.authenticators.password_paths import (
    NewPassword,
    Properties,
    affected_users,
    ends_sessions,
    find_passwords,
    put_passwords,
)
from docgraph.auth.passwords import Hashed
from docgraph.exchange import Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import RequestError

NAMES = Properties("_id", "password")
DIGEST = Properties("_id", "password", "ha1")
USERS = Resource(ResourceType.COLLECTION, "docgraph", "users")
ADA = Resource(ResourceType.DOCUMENT, "docgraph", "users", "ada")


def insert(*documents: dict[str, Any]) -> Write:
    return Write(WriteKind.INSERT, documents)


def update(**operators: dict[str, Any]) -> Write:
    return Write(
        WriteKind.UPDATE,
        update={f"${name}": fields for name, fields in operators.items()},
        filter={"_id": "ada"},
    )


def pipeline(*stages: dict[str, Any]) -> Write:
    return Write(WriteKind.UPDATE, pipeline=stages, filter={"_id": "ada"})


def hash_all(write: Write, names: Properties = NAMES, resource: Resource = USERS) -> Write:
    """The write with each password in angle brackets, as a stand-in for hashing."""
    found = find_passwords(write, resource, names)
    stored = [{"password": f"<{one.text}>"} for one in found]
    return put_passwords(write, found, stored, names)


def test_each_document_of_an_insert_gets_its_own_hash() -> None:
    """Weakness W15 of the reference: positions must not shift where one has no password."""
    write = insert({"_id": "a", "password": "1"}, {"_id": "b"}, {"_id": "c", "password": "3"})
    assert hash_all(write).documents == (
        {"_id": "a", "password": "<1>"},
        {"_id": "b"},
        {"_id": "c", "password": "<3>"},
    )


def test_the_callers_own_documents_are_not_changed() -> None:
    document = {"_id": "a", "password": "1"}
    operators = {"$set": {"password": "1"}}
    hash_all(insert(document))
    hash_all(Write(WriteKind.UPDATE, update=operators))
    assert document["password"] == operators["$set"]["password"] == "1"


@pytest.mark.parametrize(
    ("write", "documents"),
    [
        (Write(WriteKind.REPLACE, ({"_id": "a", "password": "1"},)), [{"password": "<1>"}]),
        (
            Write(WriteKind.REPLACE, ({"_id": "a", "password": "1"}, {"_id": "b", "x": 1})),
            [{"password": "<1>"}, {"x": 1}],
        ),
    ],
)
def test_replacements_are_hashed(write: Write, documents: list[dict[str, str]]) -> None:
    assert [
        {key: value for key, value in one.items() if key != "_id"}
        for one in hash_all(write).documents
    ] == documents


@pytest.mark.parametrize(
    ("write", "operators"),
    [
        (update(set={"password": "1"}), {"$set": {"password": "<1>"}}),
        (update(setOnInsert={"password": "1"}), {"$setOnInsert": {"password": "<1>"}}),
        (
            update(set={"password": "1", "roles.0": "x"}, push={"roles": "y"}),
            {"$set": {"password": "<1>", "roles.0": "x"}, "$push": {"roles": "y"}},
        ),
        (update(unset={"password": ""}), {"$unset": {"password": ""}}),
        (update(set={"passwords": "1"}), {"$set": {"passwords": "1"}}),
        (update(set={"profile.password": "1"}), {"$set": {"profile.password": "1"}}),
    ],
)
def test_operators_are_hashed_where_they_set_the_password_and_left_alone_elsewhere(
    write: Write, operators: dict[str, dict[str, str]]
) -> None:
    assert hash_all(write).update == operators


@pytest.mark.parametrize(
    "write",
    [
        update(set={"password.x": "1"}),
        update(set={"password.0": "1"}),
        update(set={"password.$[]": "1"}),
        update(unset={"password.x": ""}),
        update(rename={"password": "shown"}),
        update(rename={"plain": "password"}),
        update(rename={"plain": "password.x"}),
        update(min={"password": "1"}),
        update(max={"password": "1"}),
        update(inc={"password": 1}),
        update(mul={"password": 1}),
        update(bit={"password": {"and": 1}}),
        update(currentDate={"password": True}),
        update(push={"password": "1"}),
        update(addToSet={"password": "1"}),
        update(pull={"password": "1"}),
        update(pop={"password": 1}),
        pipeline({"$set": {"password": "1"}}),
        pipeline({"$addFields": {"password": "$name"}}),
        pipeline({"$set": {"password.x": "1"}}),
        pipeline({"$project": {"password": "$name"}}),
        pipeline({"$replaceWith": {"_id": "ada", "password": "1"}}),
        pipeline({"$replaceRoot": {"newRoot": "$profile"}}),
    ],
)
def test_every_other_way_of_writing_the_password_is_refused(write: Write) -> None:
    with pytest.raises(RequestError, match="cannot write the password in this way") as refused:
        find_passwords(write, USERS, NAMES)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "write",
    [
        pipeline({"$set": {"roles": ["x"]}}),
        pipeline({"$unset": ["password"]}),
        pipeline({"$project": {"password": 0}}),
        pipeline({"$project": {"password": 1, "roles": 1}}),
        Write(WriteKind.DELETE, filter={"_id": "ada"}),
    ],
)
def test_what_does_not_set_the_password_passes_as_it_is(write: Write) -> None:
    assert hash_all(write) == write


@pytest.mark.parametrize("value", [1, True, ["x"], {"$ne": 1}, b"x", 1.5])
def test_a_password_is_text_or_null(value: Any) -> None:
    for write in (insert({"_id": "a", "password": value}), update(set={"password": value})):
        with pytest.raises(RequestError, match="must be text"):
            find_passwords(write, USERS, NAMES)
    write = insert({"_id": "a", "password": None})
    assert [one.text for one in find_passwords(write, USERS, NAMES)] == [None]


def test_a_password_that_looks_hashed_is_hashed_like_any_other() -> None:
    """Decision 34."""
    looks = "$2a$12$" + "a" * 53
    assert hash_all(insert({"password": looks})).documents == ({"password": f"<{looks}>"},)
    known = insert({"password": Hashed(looks)})
    assert hash_all(known) == known


def test_no_password_is_shown() -> None:
    assert "hunter2" not in repr(NewPassword("hunter2", "ada"))


# --- whose password -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "resource", "names", "user"),
    [
        (insert({"_id": "ada", "password": "1"}), USERS, NAMES, "ada"),
        (
            insert({"profile": {"mail": "a@b"}, "password": "1"}),
            USERS,
            Properties("profile.mail", "password"),
            "a@b",
        ),
        (insert({"_id": 7, "password": "1"}), USERS, NAMES, None),
        (update(set={"password": "1"}), USERS, NAMES, "ada"),
        (Write(WriteKind.UPDATE, update={"$set": {"password": "1"}}), ADA, NAMES, "ada"),
        (
            Write(WriteKind.UPDATE, update={"$set": {"password": "1"}}, filter={"x": 1}, many=True),
            USERS,
            NAMES,
            None,
        ),
        (
            Write(WriteKind.REPLACE, ({"password": "1"},), filter={"_id": "ada"}),
            USERS,
            NAMES,
            "ada",
        ),
    ],
)
def test_the_user_is_known_where_the_write_tells_it(
    write: Write, resource: Resource, names: Properties, user: str | None
) -> None:
    assert [one.user for one in find_passwords(write, resource, names)] == [user]


# --- digest ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        insert({"_id": "a", "ha1": "x"}),
        insert({"_id": "a", "password": "1", "ha1": "x"}),
        update(set={"ha1": "x"}),
        update(set={"ha1.MD5": "x"}),
        update(unset={"ha1": ""}),
        update(rename={"ha1": "shown"}),
        pipeline({"$set": {"ha1": "x"}}),
    ],
)
def test_ha1_is_never_written_by_a_caller(write: Write) -> None:
    with pytest.raises(RequestError):
        find_passwords(write, USERS, DIGEST)


def test_ha1_goes_with_the_password() -> None:
    write = put_passwords(update(unset={"password": ""}), [], [], DIGEST)
    assert write.update == {"$unset": {"password": "", "ha1": ""}}


# --- who is concerned -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "ends"),
    [
        (insert({"_id": "a", "password": "1"}), False),
        (Write(WriteKind.DELETE, filter={"_id": "a"}), True),
        (Write(WriteKind.REPLACE, ({"_id": "a"},)), True),
        (update(set={"password": "1"}), True),
        (update(unset={"password": ""}), True),
        (update(set={"roles": []}), False),
        (update(set={"_id": "b"}), True),
        (update(set={"_idea": "b"}), False),
        (pipeline({"$unset": ["password"]}), True),
        (Write(WriteKind.CREATE), False),
        (Write(WriteKind.DROP), False),  # ends those of everybody, without a look at each
    ],
)
def test_deleting_a_user_and_changing_a_password_end_the_tokens(write: Write, ends: bool) -> None:
    """Decision 32."""
    assert ends_sessions(write, NAMES) is ends


def test_a_nested_name_changes_with_what_is_around_it() -> None:
    names = Properties("profile.mail", "password")
    assert ends_sessions(update(set={"profile": {}}), names)
    assert ends_sessions(update(set={"profile.mail": "x"}), names)
    assert not ends_sessions(update(set={"profile.age": 1}), names)


def test_the_users_of_a_write_are_found_by_its_filter_or_by_its_documents() -> None:
    assert affected_users(update(set={"password": "1"})) == {"_id": "ada"}
    replacing = Write(WriteKind.REPLACE, ({"_id": "a"}, {"_id": "b"}))
    assert affected_users(replacing) == {"_id": {"$in": ["a", "b"]}}
