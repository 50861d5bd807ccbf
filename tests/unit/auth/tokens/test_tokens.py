"""Accounts in tokens, the table of the workers, and which logins share a token."""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from docgraph.auth.tokens.account_claims import PropertyNames, build_claims, is_own, restore
from docgraph.auth.tokens.table import TokenRow, TokenTable
from docgraph.auth.tokens.token import (
    AccountMemo,
    LoginNames,
    TokenAccount,
    decode_account,
    encode_account,
    render_instant,
)
from docgraph.auth.tokens.verified_claims import Claims, Verified
from docgraph.codec.bson_types import Binary, Decimal128, Int64, ObjectId
from docgraph.exchange import Account
from tests.expect import present

RICH = {
    "_id": "ada",
    "roles": ["user"],
    "team": ObjectId("64b7f0a1c2d3e4f5a6b7c8d9"),
    "since": datetime(2024, 5, 1, 12, 0, 0, 123000),
    "limit": Decimal128("10.50"),
    "count": Int64(5_000_000_000),
    "nested": {"list": [1, 2.5, None, True]},
}


ACCOUNTS = {
    "database": Account("ada", ("user",), RICH, "database"),
    "file": Account("zoë", (), {"userid": "zoë", "roles": [], "team": "blue"}, "file"),
    "identity": Account("ada", ("admin",), {"userid": "ada", "roles": ["admin"]}, "identity"),
    "roles elsewhere": Account("ada", ("a",), {"_id": "ada", "roles": {"main": ["a"]}}, "database"),
    "foreign token": Account("ada", (), {"sub": "1", "iss": "them", "email": "a@b"}, "jwt"),
    "bare": Account("ada", (), {}, "identity"),
}


CLAIMS = {"sub", "roles", "docgraph", "iss", "exp", "iat", "jti"}
IDS = {"database": ("_id",), "file": ("userid",), "identity": ("userid",)}  # that a realm gives


def sign(account: Account, listed: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """The claims of a token of the account, as they would be signed."""
    login = TokenAccount(
        account.name, account.roles, account.properties, account.kind, token_made_at=7.5, **more
    )
    own = build_claims(login, PropertyNames(listed), with_session=bool(more))
    return {**own, "iss": "docgraph", "exp": 9, "iat": 0.5, "jti": "x"}


def read(claims: dict[str, Any], text: str = "the text") -> Verified:
    """What a token with these claims is taken for."""
    rules = Claims("sub", "roles", (), None, None, require_exp=True, leeway=0, end_leeway=0)
    return restore(rules.read(orjson.loads(orjson.dumps(claims)), 1.0), text)


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_an_account_keeps_everything_in_snapshots(account: Account) -> None:
    """Decision 19: random tokens have all of the login that made them."""
    assert decode_account(encode_account(account)) == account


@pytest.mark.parametrize(
    "unreadable",
    [Binary(b"\0", 4), {"$oid": 1}, [{"a": {"$numberLong": "x"}}]],
    ids=["uuid", "id", "number"],
)
def test_a_property_that_cannot_be_read_back_harms_nothing_beside_it(
    unreadable: Binary | dict[str, int] | list[dict[str, dict[str, Any]]],
) -> None:
    """Other drivers store what docgraph refuses."""
    account = Account("ada", ("a",), {"_id": "ada", "v": unreadable, "n": Int64(7)}, "database")
    kept = {"_id": "ada", "n": Int64(7)}

    assert decode_account(encode_account(account)) == replace(account, properties=kept)
    restored = read(sign(account, ["v", "n"])).account
    assert "v" not in restored.properties
    assert restored.properties["n"] == 7


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_a_signed_token_carries_id_and_roles_and_nothing_else_unless_listed(
    account: Account,
) -> None:
    """Decision 19."""
    claims = sign(account)
    assert claims.keys() == CLAIMS
    end = {"until": None} if account.kind == "jwt" else {}
    assert claims["docgraph"] == {"kind": account.kind, "at": 7.5, **end}
    restored = read(claims).account
    assert (restored.name, restored.roles, restored.kind) == (
        account.name,
        account.roles,
        account.kind,
    )
    ids = dict.fromkeys(("sub", *IDS.get(account.kind, ())), account.name)
    assert restored.properties == {**ids, "roles": list(account.roles)}


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_listed_properties_come_back_as_they_were(account: Account) -> None:
    restored = read(sign(account, account.properties)).account
    for name, value in account.properties.items():
        assert restored.properties[name] == value
        assert type(restored.properties[name]) is type(value)


@pytest.mark.parametrize(
    ("kind", "own", "end"),
    [
        ("jwt", {"until": 5.5}, 5.5),
        ("jwt", {"until": None}, None),
        ("jwt", {}, 9.0),  # of a version that did not carry the end of the login
        ("plugin", {"until": 5}, 5.0),
        ("database", {}, None),
    ],
)
def test_the_end_of_the_login_is_carried(kind: str, own: dict[str, Any], end: float | None) -> None:
    """Decision 57: None means that the token may be renewed for ever, `exp` (9) that it is not."""
    claims = sign(Account("eve", (), {}, kind))
    claims["docgraph"] = {"kind": kind, "at": 7.5, **own}
    restored = read(claims).account
    assert isinstance(restored, TokenAccount)
    assert restored.login_ends_at == end
    assert build_claims(restored, PropertyNames())["docgraph"].get("until") == end


def test_an_id_that_is_not_the_name_is_always_carried() -> None:
    """`@user._id` means the same by password and by token, however much is listed."""
    id = ObjectId("64b7f0a1c2d3e4f5a6b7c8d9")
    many = {f"p{number}": "x" for number in range(300)}  # each one smaller than the id
    name = "ada@example.org"
    account = Account(name, (), {"_id": id, **many}, "database")
    for listed in ((), many, ("_id", *many)):
        claims = sign(account, listed)
        assert claims["_id"] == {"$oid": str(id)}
        assert read(claims).account.properties["_id"] == id
    assert read(sign(account)).account.properties == {"sub": name, "_id": id, "roles": []}


@pytest.mark.parametrize("kind", ["database", "file", "identity", "jwt", "of a plugin"])
@pytest.mark.parametrize("claimed", ["root", 7, {"a": 1}, ["root"], ""])
def test_another_name_of_the_user_id_is_never_a_property_that_is_not_listed(
    kind: str, claimed: Any
) -> None:
    account = Account("ada", (), {"_id": "ada", "userid": claimed, "sub": claimed}, kind)
    claims = sign(account)
    assert claims.keys() - {"_id"} == CLAIMS
    restored = read(claims).account.properties
    named = {name: restored[name] for name in ("sub", "_id", "userid") if name in restored}
    assert named == dict.fromkeys(("sub", "_id", *IDS.get(kind, ())), "ada")


@pytest.mark.parametrize("kind", ["database", "file", "identity", "jwt", "of a plugin"])
@pytest.mark.parametrize("ids", [(), ("_id",), ("userid",), ("_id", "userid")])
def test_an_own_token_names_the_user_as_the_login_does_and_in_no_other_way(
    kind: str, ids: tuple[str, ...]
) -> None:
    """Decision 19: nothing is invented."""
    account = Account("ada", (), dict.fromkeys(ids, "ada"), kind)
    restored = read(sign(account)).account.properties
    assert restored.keys() == {"sub", "roles", *ids, *IDS.get(kind, ())}


def test_a_part_of_a_property_can_be_listed_by_its_path() -> None:
    properties = {"address": {"city": "Ulm", "zip": {"code": 5, "x": 1}}, "team": {"a": 1}}
    account = Account("ada", (), properties, "database")
    for listed, expected in (
        (["/address/city"], {"address": {"city": "Ulm"}}),
        (["address.city", "/address/zip/code"], {"address": {"city": "Ulm", "zip": {"code": 5}}}),
        (["address", "/address/city", "team"], properties),
        (["/address/city", "address"], {"address": properties["address"]}),
        (["/team/a/b", "/address/none", "none", "/none/at/all"], {}),
    ):
        names = PropertyNames(listed)
        assert names.select(account.properties) == expected, listed


def test_what_tokens_carry_is_known_by_path() -> None:
    names = PropertyNames(["team", "/address/city"])
    carried = ["team", "team.x", "address", "address.city", "address.city.x"]
    carried += ["sub", "_id", "_id.x", "userid", "roles"]
    for path in carried:
        assert names.carry(tuple(path.split("."))), path
    for path in ("teams", "address.zip", "email", "exp"):
        assert not names.carry(tuple(path.split("."))), path


def test_a_restored_account_knows_its_token_and_the_time_that_stamps_are_compared_with() -> None:
    verified = read(sign(ACCOUNTS["database"]))
    account = verified.account
    assert isinstance(account, TokenAccount)
    assert (account.token_id, account.token_text) == ("x", "the text")
    assert (account.token_issued_at, account.token_expires_at) == (0.5, 9.0)
    assert (verified.issued, account.token_made_at) == (7.5, 7.5)
    assert "the text" not in repr(account)


def test_a_session_begins_when_the_password_was_shown() -> None:
    def read_since(**more: Any) -> float | None:
        account = read(sign(ACCOUNTS["database"], **more)).account
        assert isinstance(account, TokenAccount)
        return account.session_since

    assert read_since(session_since=0.25) == 0.25
    assert read_since() == 0.5  # as old as the token


def test_claims_show_listed_properties_to_other_programs() -> None:
    claims = sign(ACCOUNTS["database"], ["team", "since"])
    assert (claims["sub"], claims["roles"]) == ("ada", ["user"])
    assert claims["team"] == {"$oid": "64b7f0a1c2d3e4f5a6b7c8d9"}
    assert "count" not in claims


def test_properties_that_would_not_fit_into_a_cookie_are_left_out_the_largest_first() -> None:
    properties = {"_id": "ada", "note": "x" * 5000, "email": "ada@example.org"}
    restored = read(sign(Account("ada", (), properties, "database"), properties)).account
    assert restored.properties["email"] == "ada@example.org"
    assert "note" not in restored.properties


def test_an_account_of_a_foreign_token_has_the_claims_of_the_token_and_no_others() -> None:
    """Decision 19."""
    rules = Claims("email", "roles", (), None, None, require_exp=False, leeway=0, end_leeway=0)
    for claims in ({}, {"sub": "1", "userid": None}, {"_id": {"$oid": "x"}}):
        account = rules.read({"email": "a@b", **claims}, 1.0).account
        assert account.name == "a@b"
        assert account.properties == {"email": "a@b", **claims}


def test_a_foreign_token_is_not_taken_for_ours() -> None:
    assert not is_own(Account("ada", (), {"sub": "ada"}, "jwt"))
    assert not is_own(Account("ada", (), {"docgraph": {"kind": "database"}}, "database"))


def test_two_realms_do_not_share_a_token() -> None:
    names = LoginNames()
    kinds = ("database", "file", "identity")
    assert len({names.get(Account("ada", (), {}, kind)) for kind in kinds}) == 3


def test_an_account_of_a_realm_keeps_its_login_whatever_its_properties() -> None:
    names = LoginNames()
    old, new = Account("ada", ("a",), {"_id": "ada"}, "database"), Account("ada", kind="database")
    assert names.get(old) == names.get(new)


def test_foreign_tokens_of_one_name_and_different_claims_do_not_share_a_token() -> None:
    names = LoginNames()
    assert names.get(Account("ada", ("admin",), {"n": 1}, "jwt")) != names.get(
        Account("ada", (), {"n": 1}, "jwt")
    )


def test_what_is_derived_from_an_account_is_derived_once_and_bounded() -> None:
    calls = []
    memo = AccountMemo(lambda account: calls.append(account.name), size=2)
    first = Account("ada")
    for account in (first, first, Account("bob"), Account("cleo")):
        memo.get(account)
    assert calls == ["ada", "bob", "cleo"]
    assert len(memo._pairs) <= 2


def test_an_instant_ends_in_z() -> None:
    assert render_instant(1_767_225_600) == "2026-01-01T00:00:00Z"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[TokenTable]:
    opened = TokenTable(tmp_path / "tokens", most_rows=100)
    yield opened
    opened.close()


def make_row(id: bytes, login: str = "ada", at: float = 100.0, account: bytes = b"[]") -> TokenRow:
    return TokenRow(id, login, account, at, at + 60)


def test_whoever_issues_second_gets_the_token_of_the_first(
    table: TokenTable, tmp_path: Path
) -> None:
    other = TokenTable(tmp_path / "tokens")
    assert table.put(make_row(b"1"), usable_until=106).id == b"1"
    assert other.put(make_row(b"2", at=101.0), usable_until=107).id == b"1"
    other.close()


def test_workers_that_open_the_table_at_once_share_a_whole_one(tmp_path: Path) -> None:
    path, together = tmp_path / "tokens", threading.Barrier(8)

    def open_table(number: int) -> TokenTable:
        together.wait()
        opened = TokenTable(path)
        opened.put(make_row(bytes([number])), usable_until=106)
        return opened

    with ThreadPoolExecutor(8) as workers:
        tables = list(workers.map(open_table, range(8)))
    assert len({one.find_latest("ada") for one in tables}) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["tokens", "tokens-shm", "tokens-wal"]
    for one in tables:
        one.close()


def test_no_disk_is_waited_for_while_the_table_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that holds the file for the time of a busy disk keeps the others from starting."""
    seen: list[str] = []
    connect = sqlite3.connect

    def watched(path: Path, **options: Any) -> Any:
        connection = connect(path, **options)
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    TokenTable(tmp_path / "tokens").close()
    first = [one for one in seen if one.startswith("PRAGMA")]
    assert first == ["PRAGMA synchronous = OFF", "PRAGMA journal_mode = WAL", *first[:1]]


def test_a_token_that_is_nearly_over_is_followed_by_another_and_stays(table: TokenTable) -> None:
    table.put(make_row(b"1"), usable_until=106)
    assert table.put(make_row(b"2", at=155.0), usable_until=161).id == b"2"
    assert present(table.find_latest("ada")).id == b"2"
    assert table.find(b"1") is not None


def test_the_account_behind_a_live_token_can_change(table: TokenTable) -> None:
    table.put(make_row(b"1", account=b"old"), usable_until=106)
    put = table.put(make_row(b"2", account=b"new"), usable_until=106)
    assert (put.id, put.account, present(table.find(b"1")).account) == (b"1", b"new", b"new")


def test_a_replaced_and_an_ended_token_are_gone(table: TokenTable) -> None:
    table.put(make_row(b"1"), usable_until=106)
    table.put(make_row(b"b", login="bob"), usable_until=106)
    table.replace(make_row(b"2"))
    assert table.find(b"1") is None
    assert table.end("ada") == [b"2"]
    assert table.find_latest("ada") is None
    assert table.find(b"b") is not None


def test_the_table_stays_bounded(table: TokenTable) -> None:
    for number in range(640):
        id, at = number.to_bytes(2, "big"), 100.0 + number / 1000
        table.put(make_row(id, login=str(number), at=at), usable_until=0)
    count = table._connection.execute("SELECT count(*) FROM issued").fetchone()[0]
    assert count <= 100 + 64
    assert table.find_latest("639") is not None


def test_tokens_that_are_over_are_swept_away(table: TokenTable) -> None:
    for number in range(64):
        table.put(make_row(bytes([number]), login=str(number), at=0.0), usable_until=0)
    for number in range(64, 128):
        table.put(make_row(bytes([number]), login=str(number), at=1000.0), usable_until=0)
    assert table.find_latest("0") is None
