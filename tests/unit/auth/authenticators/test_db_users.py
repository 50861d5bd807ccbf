"""How the database realm reads a user document, and what it refuses to be configured with."""

from typing import Any

import pytest

from docgraph.auth.authenticators.db_users import User, UserReader, find_value, put_value
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import ConfigError
from tests.expect import present


def read(document: dict[str, Any], name: str = "ada", **options: Any) -> User:
    return present(UserReader(DbRealmAuthenticator(**options)).read(name, document))


def test_the_account_is_the_document_without_the_password() -> None:
    """Decision 19: `@user` is the user document."""
    document = {"_id": "ada", "password": "hunter2", "roles": ["a"], "team": {"name": "x"}}
    user = read(document)
    assert user.account.name == "ada"
    assert user.account.roles == ("a",)
    assert user.account.kind == "database"
    assert user.account.properties == {"_id": "ada", "roles": ["a"], "team": {"name": "x"}}
    assert user.password == "hunter2"
    assert "hunter2" not in repr(user)


@pytest.mark.parametrize(
    ("path", "document", "roles"),
    [
        ("$.roles", {"roles": ["a", "b"]}, ("a", "b")),
        ("$.roles", {"roles": ["a", 1, None, "a", ["b"]]}, ("a",)),
        ("$.roles", {"roles": []}, ()),
        ("$.roles", {}, ()),
        ("$.roles", {"roles": "a"}, None),
        ("$.roles", {"roles": None}, None),
        ("$.roles[*]", {"roles": ["a", "b", 3]}, ("a", "b")),
        ("$.roles[*]", {}, ()),
        ("$.profile.roles", {"profile": {"roles": ["a"]}}, ("a",)),
        ("$.grants[*].role", {"grants": [{"role": "a"}, {"role": "b"}]}, ("a", "b")),
        ('$.grants[?@.on == true]["role"]', {"grants": [{"role": "a", "on": True}, {}]}, ("a",)),
        ("$..role", {"role": "a", "x": {"role": ["b"]}}, ("a", "b")),
        ('$["roles"]', {"roles": ["a"]}, ("a",)),
    ],
)
def test_roles_come_from_the_json_path(
    path: str, document: dict[str, Any], roles: tuple[str, ...] | None
) -> None:
    """RFC 9535; a list where there is one place, any texts where there are many."""
    assert RolesPath(path).read(document) == roles


@pytest.mark.parametrize("path", ["roles", "$.", "$.roles[", "$.roles | $.x", "$.roles.~", ""])
def test_what_is_no_json_path_stops_the_start(path: str) -> None:
    with pytest.raises(ConfigError) as stopped:
        RolesPath(path)
    (problem,) = stopped.value.problems
    assert problem.path == "/dbRealmAuthenticator/json-path-roles"
    assert "RFC 9535" in problem.message


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("$.roles", "roles"),
        ("$.roles[*]", "roles"),
        ("$.a.b_c", "a.b_c"),
        ("$..roles", None),
        ("$.a[0]", None),
        ("$", None),
    ],
)
def test_a_plain_path_says_where_roles_are_written(path: str, place: str | None) -> None:
    assert RolesPath(path).place == place


def test_a_document_that_nests_without_end_has_no_roles() -> None:
    document: dict[str, Any] = {}
    inner = document
    for _ in range(500):
        inner["x"] = inner = {}
    assert RolesPath("$..roles").read(document) in [(), None]


@pytest.mark.parametrize(
    ("document", "options"),
    [
        ({"_id": ["ada", "bob"], "roles": []}, {}),
        ({"_id": "ADA", "roles": []}, {}),
        ({"_id": "ada", "roles": "admin"}, {}),
        ({"_id": "x", "profile": {"mail": ["ada"]}}, {"prop_id": "profile.mail"}),
        ({"_id": "x", "profile": "ada"}, {"prop_id": "profile.mail"}),
    ],
)
def test_a_document_without_the_shape_of_the_user_is_nobody(
    document: dict[str, Any], options: dict[str, Any]
) -> None:
    assert UserReader(DbRealmAuthenticator(**options)).read("ada", document) is None


@pytest.mark.parametrize("password", [None, 1, ["x"], {"a": 1}, b"x"])
def test_what_is_no_text_is_no_password(password: Any) -> None:
    assert read({"_id": "ada", "password": password}).password is None
    assert read({"_id": "ada"}).password is None


def test_the_id_may_be_a_nested_property() -> None:
    user = read({"_id": 1, "profile": {"mail": "a@b"}}, name="a@b", prop_id="profile.mail")
    assert user.account.name == "a@b"


MD5, SHA = "0" * 32, "A" * 64


@pytest.mark.parametrize(
    ("stored", "algorithm", "ha1"),
    [
        (MD5, "MD5", MD5),
        (MD5, "SHA-256", None),
        (SHA, "SHA-256", SHA.lower()),
        ({"MD5": MD5, "SHA-256": SHA}, "MD5", MD5),
        ({"MD5": MD5}, "SHA-256", None),
        ({"MD5": 7}, "MD5", None),
        (None, "MD5", None),
        (7, "MD5", None),
    ],
)
def test_ha1_is_one_text_or_one_per_algorithm(
    stored: dict[str, Any] | int | str | None, algorithm: str, ha1: str | None
) -> None:
    user = read({"_id": "ada", "password": "x", "ha1": stored}, prop_ha1="ha1")
    assert user.find_ha1(algorithm) == ha1
    assert "ha1" not in user.account.properties


@pytest.mark.parametrize("name", ["sub", "userid"])
@pytest.mark.parametrize("claimed", ["root", "Ada", 7, None, ["ada"], {"ada": "ada"}])
def test_another_name_of_the_user_id_holds_no_other_id(name: str, claimed: Any) -> None:
    document = {"_id": "ada", "password": "x", "team": "blue", name: claimed}
    assert read(document).account.properties == {"_id": "ada", "team": "blue"}
    own = {"_id": 7, "password": "x", name: "ada"}
    assert read(own, prop_id=name).account.properties == {"_id": 7, name: "ada"}
    assert document[name] == claimed


def test_roles_may_lie_below_such_a_name() -> None:
    user = read({"_id": "ada", "sub": {"roles": ["user"]}}, json_path_roles="$.sub.roles")
    assert user.account.roles == ("user",)
    assert user.account.properties == {"_id": "ada"}


def test_values_are_found_and_put_by_dot_notation() -> None:
    document = {"a": {"b": 1}}
    put_value(document, "a.c.d", 2)
    put_value(document, "e", 3)
    assert document == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert find_value(document, "a.c.d") == 2
    assert find_value(document, "a.b.c") is None
    assert find_value(document, "x.y") is None
