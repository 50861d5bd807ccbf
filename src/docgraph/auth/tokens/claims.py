"""An account as the claims of a JWT, and back (decision 19).

The properties of the account stand among the claims under their own names, so that other programs
can read them; values that JSON does not know are extended JSON. What would collide with a claim of
the token itself, and the kind of the account, stands in the claim `docgraph`. A property that would
make the token too large for a cookie is left out, the largest first: it is then unbound, never
wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account

__all__ = ["OWN_CLAIM", "build_claims", "is_own", "restore_account"]

OWN_CLAIM: Final = "docgraph"
_RESERVED: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "roles", OWN_CLAIM})
_MOST_BYTES: Final = 1600  # of properties; twice base64, with name and roles, still fits a cookie


def build_claims(account: Account) -> dict[str, Any]:
    """`sub`, `roles`, the properties, and what is needed to read them back."""
    properties = _fit(dict(account.properties))
    plain: dict[str, Any] = orjson.loads(encode(properties, JsonMode.RELAXED))
    roles = list(account.roles)
    # In one order everywhere: workers that sign the same claims must make the same token.
    hidden = {name: plain.pop(name) for name in sorted(_RESERVED & plain.keys())}
    own: dict[str, Any] = {"kind": account.kind}
    if hidden.get("roles") == roles:
        del hidden["roles"]
        own["roles"] = True
    if hidden:
        own["properties"] = hidden
    return {**plain, "sub": account.name, "roles": roles, OWN_CLAIM: own}


def is_own(account: Account) -> bool:
    """Whether the account is made of the claims of a token that docgraph made."""
    return account.kind == "jwt" and isinstance(account.properties.get(OWN_CLAIM), Mapping)


def restore_account(account: Account) -> Account:
    """The account of the login, from one that is made of the claims of its token."""
    claims = account.properties
    own: Mapping[str, Any] = claims[OWN_CLAIM]
    plain = {name: value for name, value in claims.items() if name not in _RESERVED}
    if own.get("roles") is True:
        plain["roles"] = list(account.roles)
    hidden = own.get("properties")
    if isinstance(hidden, Mapping):
        plain.update(hidden)
    kind = own.get("kind")
    return Account(
        account.name,
        account.roles,
        decode(orjson.dumps(plain)),
        kind if isinstance(kind, str) else account.kind,
    )


def _fit(properties: dict[str, Any]) -> dict[str, Any]:
    sizes = {
        name: len(encode({name: value}, JsonMode.RELAXED)) for name, value in properties.items()
    }
    total = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if total <= _MOST_BYTES:
            break
        total -= sizes[name]
        del properties[name]
    return properties
