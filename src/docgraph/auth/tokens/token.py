"""What a token is to the rest of the program, and whose it is.

A token belongs to a login: to an account as one realm knows it. Two realms may both know an
`alice`, and the token of one must never be given to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeVar

from docgraph.auth.tokens.snapshot import encode_account
from docgraph.exchange import Account

__all__ = ["AccountMemo", "LastToken", "LoginNames", "Token", "TokenAccount"]

V = TypeVar("V")

# Kinds whose accounts are one and the same as long as name and kind are; of any other kind (the
# claims of somebody's JWT) two accounts of one name may hold different rights.
_BY_NAME: Final = frozenset({"database", "file", "identity"})


class Token(NamedTuple):
    """A token and the time, in seconds since the epoch, at which it ends."""

    text: str
    expires_at: float

    @classmethod
    def of(cls, issued: tuple[str, float]) -> Token:
        """What a manager has issued, which may be anybody's plugin."""
        return issued if isinstance(issued, Token) else cls(*issued)


class LastToken(Token):
    """The one that the caller came with: the session is too old for another."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TokenAccount(Account):
    """An account that came by a token; apart from that it is the account of the login.

    Times are those of the day, but for `token_made_at`, which is what stamps are compared with.
    `session_since` is when the password was shown. The text is known of signed tokens only.
    """

    token_id: str = ""
    token_issued_at: float = 0.0
    token_expires_at: float = 0.0
    token_made_at: float = 0.0
    session_since: float = 0.0
    token_text: str = field(default="", repr=False)


class AccountMemo(Generic[V]):
    """Remembers what was derived from an account object, for as long as the same one comes again.

    Accounts cannot be hashed; the pair keeps the object alive, so that its identity stays its own.
    """

    def __init__(self, build: Callable[[Account], V], size: int = 4096) -> None:
        self._build = build
        self._size = size
        self._pairs: dict[int, tuple[Account, V]] = {}

    def get(self, account: Account) -> V:
        """The value for this very object."""
        pair = self._pairs.get(id(account))
        if pair is not None:
            return pair[1]
        value = self._build(account)
        if len(self._pairs) >= self._size:
            self._pairs.clear()
        self._pairs[id(account)] = (account, value)
        return value


class LoginNames:
    """Names the login that a token of an account belongs to."""

    def __init__(self) -> None:
        self._by_content = AccountMemo(_name_by_content)

    def get(self, account: Account) -> str:
        """The same for accounts that may share a token, and for no others."""
        if account.kind in _BY_NAME:
            return f"{account.kind}:{account.name}"
        return self._by_content.get(account)


def _name_by_content(account: Account) -> str:
    return f"{account.kind}:{account.name}:{sha256(encode_account(account)).hexdigest()}"
