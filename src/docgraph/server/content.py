"""How the body of a request is read where a service does not say otherwise."""

from __future__ import annotations

from typing import Any

from docgraph.codec import decode
from docgraph.exchange.errors import BodyError

__all__ = ["parse_content"]


def parse_content(body: bytes, content_type: str) -> Any:
    """JSON becomes values, text becomes `str`, the rest stays bytes; no body is None."""
    if not body:
        return None
    if content_type in ("", "application/json") or content_type.endswith("+json"):
        return decode(body)
    if content_type.startswith("text/"):
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            raise BodyError("the body is not valid UTF-8") from None
    return body
