"""Convert an account to the claims of a JWT, and back (decision 19).

A token contains the user id, the roles and the properties that `account-properties-claims` lists,
under their own names, so that other programs can read them; values without a JSON type are extended
JSON. It contains `_id` and `userid` if the account of the login has them. Properties that would
collide with a claim of the token itself are in the claim `docgraph`, with the kind. A property that
would make the token too large for a cookie is omitted, the largest first: it is then unbound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from docgraph.auth.tokens.token import TokenAccount, read_properties
from docgraph.auth.tokens.verified_claims import Verified
from docgraph.codec import JsonMode, encode
from docgraph.exchange import Account

OWN_CLAIM: Final = "docgraph"
ALWAYS_CARRIED: Final = frozenset({"sub", "_id", "userid", "roles"})
# The property that is the user id in accounts of a realm: `sub` contains it already.
_ID_OF_KIND: Final = {"database": "_id", "file": "userid", "identity": "userid"}
_LOGIN_END: Final = "until"  # in our own claim: when a foreign login ends; null: never
_SESSION: Final = "auth_time"  # the name in OpenID Connect
_RESERVED: Final = frozenset(
    {"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "roles", _SESSION, OWN_CLAIM}
)
_MAX_BYTES: Final = 1600  # of properties; twice base64, with name and roles, still fits a cookie


class PropertyNames:
    """`account-properties-claims`: names of properties, or paths; `/a/b` and `a.b` are equal."""

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self._paths = [
            tuple(path[1:].split("/") if path.startswith("/") else path.split("."))
            for path in listed
        ]

    def select(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        selected: dict[str, Any] = {}
        for path in self._paths:
            _copy(properties, selected, path)
        return selected

    def carry(self, path: tuple[str, ...]) -> bool:
        """Return whether tokens contain the value at that path, or something below it."""
        if path[0] in ALWAYS_CARRIED:
            return True
        return any(carried[: len(path)] == path[: len(carried)] for carried in self._paths)


def build_claims(
    account: TokenAccount, names: PropertyNames, *, with_session: bool = False
) -> dict[str, Any]:
    """Build `sub`, `roles`, the listed properties, and what is needed to read them back."""
    properties = _fit(names.select(account.properties)) | dict(_find_ids(account))
    plain: dict[str, Any] = orjson.loads(encode(properties, JsonMode.RELAXED))
    roles = list(account.roles)
    # In a fixed order: workers that sign the same claims must produce the same token.
    hidden = {name: plain.pop(name) for name in sorted(_RESERVED & plain.keys())}
    claims: dict[str, Any] = {"kind": account.kind, "at": account.token_made_at}
    if hidden:
        claims["properties"] = hidden
    if account.kind == "jwt" or account.login_ends_at is not None:
        claims[_LOGIN_END] = account.login_ends_at
    if with_session:
        plain[_SESSION] = account.session_since
    return {**plain, "sub": account.name, "roles": roles, OWN_CLAIM: claims}


def _find_ids(account: Account) -> Iterator[tuple[str, Any]]:
    """Yield the properties that identify the user, except the one that `sub` contains.

    A `userid` that is not the user id is an ordinary property, included if it is listed.
    """
    properties, implied = account.properties, _ID_OF_KIND.get(account.kind)
    id = properties.get("_id")
    if id is not None and (id != account.name or implied != "_id"):
        yield "_id", id
    if properties.get("userid") == account.name and implied != "userid":
        yield "userid", account.name


def is_own(account: Account) -> bool:
    """Return whether the account comes from the claims of a token that docgraph issued."""
    return account.kind == "jwt" and isinstance(account.properties.get(OWN_CLAIM), Mapping)


def restore(verified: Verified, text: str) -> Verified:
    """Restore the account of the login from its token's claims; other accounts stay unchanged.

    Only for tokens that were signed with our own key: others can claim anything.
    """
    account = verified.account
    if not is_own(account):
        return verified
    carried: Mapping[str, Any] = account.properties[OWN_CLAIM]
    made_at = _read_number(carried.get("at"), verified.issued)
    restored = _restore(account, carried, text, made_at)
    return replace(verified, account=restored, issued=made_at)


def _restore(
    account: Account, carried: Mapping[str, Any], text: str, made_at: float | None
) -> TokenAccount:
    claims, kind = account.properties, carried.get("kind")
    plain = {name: value for name, value in claims.items() if name not in _RESERVED}
    plain |= {"sub": account.name, "roles": list(account.roles)}
    if kind in _ID_OF_KIND:
        plain.setdefault(_ID_OF_KIND[kind], account.name)
    hidden = carried.get("properties")
    if isinstance(hidden, Mapping):
        plain.update(hidden)
    issued_at = float(claims.get("iat", 0))
    # A token of a foreign login without an end is not renewed.
    otherwise = claims.get("exp", 0) if carried.get("kind") == "jwt" else None
    return TokenAccount(
        account.name,
        account.roles,
        read_properties(plain),
        kind if isinstance(kind, str) else account.kind,
        account.expires_at,
        _read_number(carried.get(_LOGIN_END, otherwise), None),
        token_id=str(claims.get("jti", "")),
        token_issued_at=issued_at,
        token_expires_at=float(claims.get("exp", 0)),
        token_made_at=made_at or 0.0,
        session_since=_read_number(claims.get(_SESSION), issued_at) or 0.0,
        token_text=text,
    )


def _read_number(value: Any, otherwise: float | None) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else otherwise


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    first, *rest = path
    if first not in source:
        return
    value = source[first]
    if not rest:
        target[first] = value
    elif isinstance(value, Mapping):
        below = target.get(first)
        if below is value:
            return  # the whole is copied already
        below = dict(below) if isinstance(below, Mapping) else {}
        _copy(value, below, tuple(rest))
        if below:
            target[first] = below


def _fit(properties: dict[str, Any]) -> dict[str, Any]:
    sizes = {
        name: len(encode({name: value}, JsonMode.RELAXED)) for name, value in properties.items()
    }
    total = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if total <= _MAX_BYTES:
            break
        total -= sizes[name]
        del properties[name]
    return properties
