"""Encode an account as bytes that workers share, and decode it.

Only values that docgraph could not have stored are lost: a UUID of three bytes, an invalid object
that looks like extended JSON. Such a property is then unbound, without an effect on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account
from docgraph.exchange.errors import BodyError


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
