"""Whose path it is (`/roles/<userid>`, `/tokens/<userid>`)."""

from contextlib import nullcontext

import pytest

from docgraph.auth.tokens.service import check_own_path
from docgraph.exchange import Account, Exchange, Request
from docgraph.exchange.errors import Forbidden, Unauthenticated
from tests.expect import present


def make_exchange(path: str, name: str | None, method: str = "GET") -> Exchange:
    account = None if name is None else Account(name)
    return Exchange(Request(method, path.encode()), "1", account=account)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/roles/ada", "ada"),
        ("/roles/ada/", "ada"),
        ("//roles//ada", "ada"),
        ("/roles/%61da", "ada"),
        ("/roles/zo%C3%AB", "zoë"),
        ("/roles/a%2Fb", "a/b"),
        ("/roles/ada@example.org", "ada@example.org"),
    ],
)
def test_the_own_path_in_any_spelling_is_let_through(path: str, name: str) -> None:
    account = check_own_path(make_exchange(path, name), ("roles",))
    assert account is not None
    assert account.name == name


@pytest.mark.parametrize(
    "path",
    ["/roles", "/roles/", "/roles/bob", "/roles/Ada", "/roles/ada/x", "/roles/ada%2Fx", "/roles/a"],
)
def test_any_other_path_is_forbidden(path: str) -> None:
    with pytest.raises(Forbidden):
        check_own_path(make_exchange(path, "ada"), ("roles",))


@pytest.mark.parametrize(
    ("path", "is_own"), [("/tokens", True), ("/tokens/", True), ("/tokens/bob", False)]
)
def test_the_bare_path_is_the_callers_where_the_service_says_so(path: str, is_own: bool) -> None:
    with nullcontext() if is_own else pytest.raises(Forbidden):
        account = check_own_path(make_exchange(path, "ada"), ("tokens",), bare=True)
        assert present(account).name == "ada"


def test_an_unknown_caller_has_to_log_in() -> None:
    with pytest.raises(Unauthenticated):
        check_own_path(make_exchange("/roles/ada", None), ("roles",))
    with pytest.raises(Unauthenticated):
        check_own_path(make_exchange("/roles", None), ("roles",), bare=True)


def test_options_asks_nothing_of_anybody() -> None:
    assert check_own_path(make_exchange("/roles/ada", None, "OPTIONS"), ("roles",)) is None
