"""Tokens, the logins that they belong to, and accounts as bytes that workers share.

A token belongs to a login: to an account of one realm. Two realms may both have an `alice`, and the
token of one must never be given to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

import orjson

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account
from docgraph.exchange.errors import BodyError
from docgraph.runtime import LruDict

V = TypeVar("V")

# Kinds whose accounts are identical if name and kind are; with any other kind (the claims of a
# foreign JWT) two accounts of one name may have different permissions.
_BY_NAME: Final = frozenset({"database", "file", "identity"})


class AuthToken(NamedTuple):
    """A token and its expiration time, in seconds since the epoch."""

    text: str
    expires_at: float

    @classmethod
    def of(cls, issued: tuple[str, float]) -> AuthToken:
        """Convert the result of a manager, which may be a plugin's."""
        return issued if isinstance(issued, AuthToken) else cls(*issued)


class LastToken(AuthToken):
    """The token that the caller sent: the session is too old for another."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TokenAccount(Account):
    """An account authenticated by a token; otherwise it equals the account of the login.

    Times are times of day, except `token_made_at`, which is compared with revocation marks.
    `session_since` is when the password was checked. The text is available for signed tokens only.
    """

    token_id: str = ""
    token_issued_at: float = 0.0
    token_expires_at: float = 0.0
    token_made_at: float = 0.0
    session_since: float = 0.0
    token_text: str = field(default="", repr=False)


class AccountMemo(Generic[V]):
    """Caches a value derived from an account object, while the same object is used again.

    Accounts cannot be hashed; the pair keeps the object alive, so that its identity stays unique.
    """

    def __init__(self, build: Callable[[Account], V], size: int = 4096) -> None:
        self._build = build
        self._pairs: LruDict[int, tuple[Account, V]] = LruDict(size)

    def get(self, account: Account) -> V:
        """Return the value for this very object."""
        pair = self._pairs.get(id(account))
        if pair is not None:
            return pair[1]
        value = self._build(account)
        self._pairs.put(id(account), (account, value))
        return value


class LoginNames:
    """Names the login that a token of an account belongs to."""

    def __init__(self) -> None:
        self._by_content = AccountMemo(_name_by_content)

    def get(self, account: Account) -> str:
        """Return the same name for accounts that may share a token, and for no others."""
        if account.kind in _BY_NAME:
            return f"{account.kind}:{account.name}"
        return self._by_content.get(account)


def _name_by_content(account: Account) -> str:
    return f"{account.kind}:{account.name}:{sha256(encode_account(account)).hexdigest()}"


# Encode an account as bytes that workers share, and decode it.
#
# Only values that docgraph could not have stored are lost: a UUID of three bytes, an invalid
# object that looks like extended JSON. Such a property is then unbound, without an effect on the
# others.


def encode_account(account: Account) -> bytes:
    """Encode an account; equal accounts have equal bytes, in every process."""
    return encode(
        [account.name, list(account.roles), account.kind, dict(account.properties)],
        JsonMode.EXTENDED,
    )


def decode_account(data: bytes) -> Account:
    """Decode the account."""
    try:
        name, roles, kind, properties = decode(data)
    except BodyError:
        name, roles, kind, written = orjson.loads(data)
        properties = read_properties(written)
    return Account(name, tuple(roles), properties, kind)


def read_properties(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties from extended JSON, without those that cannot be decoded."""
    try:
        found: dict[str, Any] = decode(orjson.dumps(written))
    except BodyError:
        found = {}
        for name, value in written.items():
            try:
                found[name] = decode(orjson.dumps(value))
            except BodyError:
                continue
    return found
