"""Messages of the protocol `graphql-transport-ws`, and the close codes that it defines."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from docgraph.exchange import Request
from docgraph.exchange.close_reason import CloseReason

PROTOCOL: Final = "graphql-transport-ws"
MAX_ID: Final = 200  # characters

INVALID = CloseReason(4400, "Invalid message", "messages")
NOT_INITIALIZED = CloseReason(4401, "Unauthorized", "credentials")
REJECTED = CloseReason(4403, "Forbidden", "rights")
INIT_TIMEOUT = CloseReason(4408, "Connection initialisation timeout", "messages")
INIT_TWICE = CloseReason(4429, "Too many initialisation requests", "messages")

ACK: Final = '{"type":"connection_ack"}'
PONG: Final = '{"type":"pong"}'


class ClientMessage(msgspec.Struct):
    """A message of the client; the payload stays text, so that its numbers keep their precision."""

    type: str
    id: str | None = None
    payload: msgspec.Raw = msgspec.Raw()  # empty: there is none


_decoder = msgspec.json.Decoder(ClientMessage)


def decode_message(text: str | bytes) -> ClientMessage | None:
    """Return the message; None if it is none of the protocol."""
    try:
        message = _decoder.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if message is None or not (message.id is None or 0 < len(message.id) <= MAX_ID):
        return None
    needs_id = message.type in {"subscribe", "complete"}
    return None if needs_id and message.id is None else message


def decode_payload(payload: msgspec.Raw) -> dict[str, Any]:
    """Return the payload of `connection_init`; empty if it is no object."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def find_authorization(payload: dict[str, Any]) -> bytes | None:
    """Return the credentials in `connection_init`: what a header `Authorization` would have."""
    found = [value for name, value in payload.items() if name.lower() == "authorization"]
    if len(found) != 1 or not isinstance(found[0], str) or not found[0].isascii():
        return None
    text = found[0].strip()
    return text.encode() if text and text.isprintable() else None


def render_content(kind: str, id: str, content: bytes = b"") -> str:
    """Return a message of the server about one operation."""
    head = f'{{"id":{msgspec.json.encode(id).decode()},"type":"{kind}"'
    return f'{head},"payload":{content.decode()}}}' if content else f"{head}}}"


def exists_already(id: str) -> CloseReason:
    """Return the close reason for an id that is in use."""
    return CloseReason(4409, f"Subscriber for {id[:40]} already exists", "messages")


def is_live_handshake(request: Request) -> bool:
    """Return whether a request opens a WebSocket with this protocol."""
    if request.method != "GET" or not request.connection.is_websocket:
        return False
    offered = ",".join(request.headers.get_list("sec-websocket-protocol"))
    return PROTOCOL in [one.strip() for one in offered.split(",")]
