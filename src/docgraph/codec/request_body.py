"""Request bodies of the REST API as documents: JSON or a form.

The service stores this result, and permission rules check it. Both use one parser, because two
that differ would be a security hole.

    name=Ada&tags=["x"]&born={"$date":0}     {"name": "Ada", "tags": ["x"], "born": <date>}

Each field of a form is a property; its value is JSON if it parses as JSON. A browser sends forms
without a preflight ("simple" requests), also for a page of another origin and with the victim's
credentials; `reject_forgery` prevents that (CSRF protection).
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.codec.decode import decode
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyError, BodyTooLarge, RequestError, UnsupportedMediaType
from docgraph.exchange.origin import RequestOrigin
from docgraph.exchange.request import Request

URL_ENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
FORMS = frozenset({URL_ENCODED, MULTIPART})

MAX_FORM = 2 * 1024 * 1024  # bytes; larger documents are sent as JSON
_MAX_FIELDS = 1000
_MAX_NAME = 1024  # bytes
_MAX_PART_HEADERS = 8
_MAX_PART_HEADER = 4096  # bytes of one line
_WINDOW = 64 * 1024
_PLAIN_ENCODINGS = frozenset((b"7bit", b"8bit", b"binary"))

# The library would log bytes of callers.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


def parse_form(body: bytes, content_type: str) -> Document:
    """Parse a form to a document; the first value of a repeated field counts."""
    if len(body) > MAX_FORM:
        raise BodyTooLarge(
            f"a form is larger than {MAX_FORM} bytes", hint="send the document as JSON"
        )
    is_multipart = content_type.split(";", 1)[0].strip().lower() == MULTIPART
    fields = _parse_multipart(body, content_type) if is_multipart else _parse(body)
    document: Document = {}
    for name, value in fields:
        if name not in document:
            document[name] = _read_value(name, value)
    return document


def reject_forgery(request: Request) -> None:
    """Reject a body that a foreign page sent, or could have sent, without a preflight."""
    page, headers = request.page, request.headers
    # A cookie may authenticate the caller, also for plugins and rules; a header takes precedence.
    by_cookie = "cookie" in headers and "authorization" not in headers
    if page is RequestOrigin.FOREIGN or (page is RequestOrigin.UNKNOWN and by_cookie):
        raise UnsupportedMediaType(
            "a browser has to say that the body is JSON",
            hint="send it with Content-Type: application/json",
        )


def _parse(body: bytes) -> list[tuple[str, str]]:
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise BodyError("the form is not valid UTF-8") from None
    except ValueError:
        raise _too_many_fields() from None
    for name, _ in fields:
        _check_name(name.encode())
    return fields


def _parse_multipart(body: bytes, content_type: str) -> list[tuple[str, str]]:
    form = _Multipart()
    _, options = parse_options_header(content_type)
    try:
        parser = MultipartParser(
            options.get(b"boundary", b""),
            form.callbacks,
            max_header_count=_MAX_PART_HEADERS,
            max_header_size=_MAX_PART_HEADER,
        )
        for start in range(0, len(body), _WINDOW):
            parser.write(body[start : start + _WINDOW])
        parser.finalize()
    except FormParserError:
        form.is_complete = False
    if not form.is_complete or not form.fields:
        raise BodyError("the multipart body is malformed", hint="is its boundary right?")
    return form.fields


class _Multipart:
    """Collects the fields of a multipart body as its parser finds them."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.is_complete = False
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._pieces: list[bytes] = []
        self.callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": self._add_name,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._pieces.append(data[start:end]),
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        if len(self.fields) == _MAX_FIELDS:
            raise _too_many_fields()
        self._headers = {}
        self._pieces = []

    def _add_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _end_part(self) -> None:
        self.fields.append(_read_part(self._headers, b"".join(self._pieces)))

    def _end(self) -> None:
        self.is_complete = True


def _read_part(headers: dict[bytes, bytes], content: bytes) -> tuple[str, str]:
    kind, options = parse_options_header(headers.get(b"content-disposition"))
    name = options.get(b"name")
    if kind != b"form-data" or name is None or b"filename" in options:
        raise BodyError("each part of a form needs a name, and files are not taken here")
    _check_name(name)
    if headers.get(b"content-transfer-encoding", b"8bit").lower() not in _PLAIN_ENCODINGS:
        raise BodyError("Content-Transfer-Encoding of a part is not supported", hint="leave it out")
    try:
        return name.decode(), content.decode()
    except UnicodeDecodeError:
        shown = name.decode(errors="replace")
        raise BodyError(f"the field '{shown}' is not valid UTF-8") from None


def _check_name(name: bytes) -> None:
    if len(name) > _MAX_NAME:
        raise BodyError(f"a name in the form is longer than {_MAX_NAME} bytes")


def _too_many_fields() -> BodyError:
    return BodyError(f"the form has more than {_MAX_FIELDS} fields")


def _read_value(name: str, text: str) -> Any:
    if not text.strip():
        return text
    try:
        return decode(text)
    except BodyError as error:
        if text.lstrip()[0] in "{[":
            raise BodyError(f"Invalid JSON in the field '{name}'. {error.message}") from None
        return text


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
        if request.form is None:  # it is parsed once for rules and for the service
            header = request.headers.get("content-type") or ""
            request.form = await request.run(lambda body, _: parse_form(body, header))
        return request.form
    if content_type and not content_type.startswith(_JSON):
        raise UnsupportedMediaType(
            "Content-Type must be either: application/json or application/hal+json"
        )
    try:
        content = await request.get_content()
    except BodyError as error:
        raise BodyError(f"Invalid JSON. {error.message}", hint=error.hint) from None
    return _check(content)


def _check(content: Any) -> Document | list[Document]:
    if isinstance(content, list):
        if not all(type(element) is dict for element in content):
            raise RequestError("request data must be either an json object or an array of objects")
        return content
    if type(content) is not dict:
        kind = _TYPES.get(type(content), type(content).__name__.upper())
        raise RequestError(f"request data must be either a json object or an array, got {kind}")
    return content
