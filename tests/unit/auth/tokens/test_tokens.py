"""Accounts in tokens, the table of the workers, and which logins share a token."""

from datetime import datetime

import pytest

from docgraph.auth.tokens.claims import build_claims, is_own, restore_account
from docgraph.auth.tokens.headers import render_instant
from docgraph.auth.tokens.snapshot import decode_account, encode_account
from docgraph.auth.tokens.table import Row, TokenTable
from docgraph.auth.tokens.token import AccountMemo, LoginNames
from docgraph.codec.types import Decimal128, Int64, ObjectId
from docgraph.exchange import Account

RICH = {
    "_id": "ada",
    "roles": ["user"],
    "team": ObjectId("64b7f0a1c2d3e4f5a6b7c8d9"),
    "since": datetime(2024, 5, 1, 12, 0, 0, 123000),
    "limit": Decimal128("10.50"),
    "count": Int64(5_000_000_000),
    "nested": {"list": [1, 2.5, None, True]},
}


@pytest.mark.parametrize(
    "account",
    [
        Account("ada", ("user",), RICH, "database"),
        Account("zoë", (), {"userid": "zoë", "roles": [], "team": "blue"}, "file"),
        Account("ada", ("admin",), {"userid": "ada", "roles": ["admin"]}, "identity"),
        Account("ada", ("a",), {"_id": "ada", "roles": {"main": ["a"]}}, "database"),
        Account("ada", (), {"sub": "1", "iss": "them", "exp": 5, "email": "a@b"}, "jwt"),
        Account("ada", (), {}, "identity"),
    ],
    ids=["database", "file", "identity", "roles elsewhere", "foreign token", "bare"],
)
def test_an_account_keeps_its_properties_in_claims_and_in_snapshots(account):
    """Decision 19: token accounts keep the properties of the login that made them."""
    claims = {**build_claims(account), "iss": "docgraph", "exp": 1, "iat": 0.5, "jti": "x"}
    seen = Account(account.name, account.roles, claims, "jwt")
    assert is_own(seen)
    assert restore_account(seen) == account
    assert decode_account(encode_account(account)) == account


def test_claims_name_user_and_roles_and_show_properties_to_other_programs():
    claims = build_claims(Account("ada", ("user",), RICH, "database"))
    assert (claims["sub"], claims["roles"], claims["_id"]) == ("ada", ["user"], "ada")
    assert claims["team"] == {"$oid": "64b7f0a1c2d3e4f5a6b7c8d9"}


def test_properties_that_would_not_fit_into_a_cookie_are_left_out_the_largest_first():
    properties = {"_id": "ada", "note": "x" * 5000, "email": "ada@example.org"}
    restored = restore_account(
        Account("ada", (), build_claims(Account("ada", (), properties, "database")), "jwt")
    )
    assert restored.properties == {"_id": "ada", "email": "ada@example.org"}


def test_a_foreign_token_is_not_taken_for_ours():
    assert not is_own(Account("ada", (), {"sub": "ada"}, "jwt"))
    assert not is_own(Account("ada", (), {"docgraph": {"kind": "database"}}, "database"))


def test_two_realms_do_not_share_a_token():
    names = LoginNames()
    kinds = ("database", "file", "identity")
    assert len({names.get(Account("ada", (), {}, kind)) for kind in kinds}) == 3


def test_an_account_of_a_realm_keeps_its_login_whatever_its_properties():
    names = LoginNames()
    old, new = Account("ada", ("a",), {"_id": "ada"}, "database"), Account("ada", kind="database")
    assert names.get(old) == names.get(new)


def test_foreign_tokens_of_one_name_and_different_claims_do_not_share_a_token():
    names = LoginNames()
    assert names.get(Account("ada", ("admin",), {"n": 1}, "jwt")) != names.get(
        Account("ada", (), {"n": 1}, "jwt")
    )


def test_what_is_derived_from_an_account_is_derived_once_and_bounded():
    calls = []
    memo = AccountMemo(lambda account: calls.append(account.name), size=2)
    first = Account("ada")
    for account in (first, first, Account("bob"), Account("cleo")):
        memo.get(account)
    assert calls == ["ada", "bob", "cleo"]
    assert len(memo._pairs) <= 2


def test_an_instant_ends_in_z():
    assert render_instant(1_767_225_600) == "2026-01-01T00:00:00Z"


@pytest.fixture
def table(tmp_path):
    opened = TokenTable(tmp_path / "tokens", most_rows=100)
    yield opened
    opened.close()


def make_row(id, login="ada", at=100.0, account=b"[]"):
    return Row(id, login, account, at, at + 60)


def test_whoever_issues_second_gets_the_token_of_the_first(table, tmp_path):
    other = TokenTable(tmp_path / "tokens")
    assert table.put(make_row(b"1"), usable_until=106).id == b"1"
    assert other.put(make_row(b"2", at=101.0), usable_until=107).id == b"1"
    other.close()


def test_a_token_that_is_nearly_over_is_followed_by_another_and_stays(table):
    table.put(make_row(b"1"), usable_until=106)
    assert table.put(make_row(b"2", at=155.0), usable_until=161).id == b"2"
    assert table.find_latest("ada").id == b"2"
    assert table.find(b"1") is not None


def test_the_account_behind_a_live_token_can_change(table):
    table.put(make_row(b"1", account=b"old"), usable_until=106)
    put = table.put(make_row(b"2", account=b"new"), usable_until=106)
    assert (put.id, put.account, table.find(b"1").account) == (b"1", b"new", b"new")


def test_a_replaced_and_an_ended_token_are_gone(table):
    table.put(make_row(b"1"), usable_until=106)
    table.put(make_row(b"b", login="bob"), usable_until=106)
    table.replace(make_row(b"2"))
    assert table.find(b"1") is None
    assert table.end("ada") == [b"2"]
    assert table.find_latest("ada") is None
    assert table.find(b"b") is not None


def test_the_table_stays_bounded(table):
    for number in range(640):
        id, at = number.to_bytes(2, "big"), 100.0 + number / 1000
        table.put(make_row(id, login=str(number), at=at), usable_until=0)
    count = table._connection.execute("SELECT count(*) FROM issued").fetchone()[0]
    assert count <= 100 + 64
    assert table.find_latest("639") is not None


def test_tokens_that_are_over_are_swept_away(table):
    for number in range(64):
        table.put(make_row(bytes([number]), login=str(number), at=0.0), usable_until=0)
    for number in range(64, 128):
        table.put(make_row(bytes([number]), login=str(number), at=1000.0), usable_until=0)
    assert table.find_latest("0") is None
