"""An account as bytes that workers share, and back.

Nothing of it is lost but what nobody could have stored with docgraph: a UUID of three bytes, an
object that looks like extended JSON and is none. It is then unbound, and harms nothing beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account
from docgraph.exchange.errors import BodyError

__all__ = ["decode_account", "encode_account", "read_properties"]


def encode_account(account: Account) -> bytes:
    """Equal accounts have equal bytes, in whichever process."""
    return encode(
        [account.name, list(account.roles), account.kind, dict(account.properties)],
        JsonMode.EXTENDED,
    )


def decode_account(data: bytes) -> Account:
    """The account that was encoded."""
    try:
        name, roles, kind, properties = decode(data)
    except BodyError:
        name, roles, kind, written = orjson.loads(data)
        properties = read_properties(written)
    return Account(name, tuple(roles), properties, kind)


def read_properties(written: Mapping[str, Any]) -> dict[str, Any]:
    """Properties from their extended JSON, without those that cannot be read back."""
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
