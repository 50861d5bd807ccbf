"""Request bodies of the REST API as documents: JSON or a form.

The service stores this result, and permission rules check it. Both use one parser, because two that
differ would be a security hole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.codec.form_data import FORMS, parse_form, reject_forgery
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyError, RequestError, UnsupportedMediaType
from docgraph.exchange.request import Request

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
    """Return the document or documents of the body; an empty document without a body."""
    if not request.is_given and not (await request.read_body()).strip():
        return {}
    content_type = request.content_type
    if not content_type or content_type in FORMS:
        reject_forgery(request)
    if content_type in FORMS:
        return await _read_form(request)
    if content_type and not content_type.startswith(_JSON):
        raise UnsupportedMediaType(
            "Content-Type must be either: application/json or application/hal+json"
        )
    try:
        content = await request.get_content()
    except BodyError as error:
        raise BodyError(f"Invalid JSON. {error.message}", hint=error.hint) from None
    return _check(content)


async def _read_form(request: Request) -> Document:
    """Return the fields of a form; it is parsed once for rules and for the service."""
    form = request.form
    if form is None:
        content_type = request.headers.get("content-type") or ""
        form = await request.run(lambda body, _: parse_form(body, content_type))
        request.form = form
    return form


def _check(content: Any) -> Document | list[Document]:
    if isinstance(content, list):
        if not all(type(element) is dict for element in content):
            raise RequestError("request data must be either an json object or an array of objects")
        return content
    if type(content) is not dict:
        kind = _TYPES.get(type(content), type(content).__name__.upper())
        raise RequestError(f"request data must be either a json object or an array, got {kind}")
    return content
