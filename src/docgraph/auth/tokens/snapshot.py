"""An account as bytes that workers share, and back; nothing of it is lost."""

from __future__ import annotations

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account

__all__ = ["decode_account", "encode_account"]


def encode_account(account: Account) -> bytes:
    """Equal accounts have equal bytes, in whichever process."""
    return encode(
        [account.name, list(account.roles), account.kind, dict(account.properties)],
        JsonMode.EXTENDED,
    )


def decode_account(data: bytes) -> Account:
    """The account that was encoded."""
    name, roles, kind, properties = decode(data)
    return Account(name, tuple(roles), properties, kind)
