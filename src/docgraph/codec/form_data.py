"""Form bodies as documents: each field is a property, its value JSON where it can be.

    name=Ada&tags=["x"]&born={"$date":0}     {"name": "Ada", "tags": ["x"], "born": <date>}

A browser sends forms without asking first (they are "simple" requests), also for a page of another
origin and with what the victim is known by; `refuse_forgery` is against that.
"""

from __future__ import annotations

from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

from docgraph.codec.decode import decode
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyError, UnsupportedMediaType
from docgraph.exchange.pages import Page
from docgraph.exchange.request import Request

__all__ = ["FORMS", "parse_form", "refuse_forgery"]

URL_ENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
FORMS = frozenset({URL_ENCODED, MULTIPART})

_MAX_FIELDS = 1000


def parse_form(body: bytes, content_type: str) -> Document:
    """The document of a form; of a repeated field the first value counts."""
    fields = _parse_multipart(body, content_type) if _is_multipart(content_type) else _parse(body)
    document: Document = {}
    for name, value in fields:
        if name not in document:
            document[name] = _read_value(name, value)
    return document


def refuse_forgery(request: Request) -> None:
    """Refuse a body that a foreign page sent, or could have sent, without asking first."""
    page, headers = request.page, request.headers
    # A cookie may be what the caller is known by, also to plugins and to rules; a header wins.
    by_cookie = "cookie" in headers and "authorization" not in headers
    if page is Page.FOREIGN or (page is Page.UNKNOWN and by_cookie):
        raise UnsupportedMediaType(
            "a browser has to say that the body is JSON",
            hint="send it with Content-Type: application/json",
        )


def _is_multipart(content_type: str) -> bool:
    return content_type.split(";", 1)[0].strip().lower() == MULTIPART


def _parse(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise BodyError("the form is not valid UTF-8") from None
    except ValueError:
        raise BodyError(f"the form has more than {_MAX_FIELDS} fields") from None


def _parse_multipart(body: bytes, content_type: str) -> list[tuple[str, str]]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    message = message_from_bytes(head + body, policy=HTTP)
    if not message.is_multipart():
        raise BodyError("the multipart body has no parts", hint="is its boundary right?")
    return [_read_part(part) for part in message.iter_parts()]


def _read_part(part: Any) -> tuple[str, str]:
    name = part.get_param("name", header="content-disposition")
    if not isinstance(name, str) or part.get_filename() is not None:
        raise BodyError("each part of a form needs a name, and files are not taken here")
    content = part.get_payload(decode=True) or b""
    try:
        return name, content.decode()
    except UnicodeDecodeError:
        raise BodyError(f"the field '{name}' is not valid UTF-8") from None


def _read_value(name: str, text: str) -> Any:
    if not text.strip():
        return text
    try:
        return decode(text)
    except BodyError as error:
        if text.lstrip()[0] in "{[":
            raise BodyError(f"Invalid JSON in the field '{name}'. {error.message}") from None
        return text
