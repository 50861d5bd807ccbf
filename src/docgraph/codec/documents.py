"""The documents in the body of a request to the REST API: JSON or a form.

The service stores what this gives, and permission rules judge what this gives: one reading for
both, since two that differ would be a hole.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from docgraph.codec.form_data import FORMS, parse_form, refuse_forgery
from docgraph.codec.types import Decimal128, Int64, ObjectId
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyError, RequestError, UnsupportedMediaType
from docgraph.exchange.request import Request
from docgraph.runtime import Lane, run_blocking

__all__ = ["parse_large", "read_documents"]

_LARGE = 256 * 1024
_JSON = ("application/json", "application/hal+json")
_TYPES: dict[type, str] = {
    str: "STRING",
    bool: "BOOLEAN",
    int: "INT32",
    Int64: "INT64",
    float: "DOUBLE",
    Decimal128: "DECIMAL128",
    ObjectId: "OBJECT_ID",
    datetime: "DATE_TIME",
    type(None): "NULL",
}


async def read_documents(request: Request) -> Document | list[Document]:
    """The document, or the documents, that the body holds; no body is an empty document."""
    body = await request.read_body()
    if not body.strip():
        return {}
    content_type = request.content_type
    if not content_type or content_type in FORMS:
        refuse_forgery(request)
    if content_type in FORMS:
        return parse_form(body, request.headers.get("content-type") or "")
    if content_type and not content_type.startswith(_JSON):
        raise UnsupportedMediaType(
            "Content-Type must be either: application/json or application/hal+json"
        )
    try:
        content = await request.get_content()
    except BodyError as error:
        raise BodyError(f"Invalid JSON. {error.message}", hint=error.hint) from None
    return _check(content)


async def parse_large(request: Request, lane: Lane) -> bool:
    """Parse a large body in a thread, so that others are served meanwhile; leave a small one."""
    body = await request.read_body()
    if len(body) <= _LARGE:
        return False
    if request.is_parsed:
        return True
    try:
        content = await run_blocking(lane, request.parser, body, request.content_type)
    except BodyError as error:
        request.parser = partial(_refuse, error)
    else:
        request.parser = lambda _, __: content
    return True


def _refuse(error: BodyError, _: bytes, __: str) -> NoReturn:
    raise error


def _check(content: Any) -> Document | list[Document]:
    if isinstance(content, list):
        if not all(type(element) is dict for element in content):
            raise RequestError("request data must be either an json object or an array of objects")
        return content
    if type(content) is not dict:
        kind = _TYPES.get(type(content), type(content).__name__.upper())
        raise RequestError(f"request data must be either a json object or an array, got {kind}")
    return content
