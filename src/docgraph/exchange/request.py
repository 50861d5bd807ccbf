"""A request as services and plugins see it; it knows nothing of the server that received it.

Nothing of the body is read until somebody asks, it is read once, and parsed once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from inspect import isawaitable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from docgraph.exchange.account import Account
from docgraph.exchange.coding import inflate, is_coded, is_compressed
from docgraph.exchange.errors import BodyTooLarge, RequestError
from docgraph.exchange.headers import Headers
from docgraph.exchange.pages import Page, Pages
from docgraph.exchange.path import parse_path, render_path

__all__ = [
    "LARGE_BODY",
    "BodyReader",
    "Connection",
    "Offload",
    "Parser",
    "QueryParameters",
    "Request",
]

T = TypeVar("T")

# What it gives may have to be awaited.
Parser = Callable[[bytes, str], Any]
# Reads a body to its end, or until there is more of it than the limit that it is called with.
BodyReader = Callable[[int], Awaitable[bytes]]
# Runs a function with its arguments in a thread, where it keeps no other request waiting.
Offload = Callable[..., Awaitable[Any]]
LARGE_BODY: Final = 32 * 1024  # bytes; what is not larger is parsed on the event loop
_UNPARSED = object()


async def _run_here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class QueryParameters:
    """The query string, decoded: repeated names keep all their values."""

    __slots__ = ("_items",)

    def __init__(self, query_string: bytes, limit: int) -> None:
        try:
            self._items = parse_qsl(
                query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=limit,
            )
        except UnicodeDecodeError:
            raise RequestError("the query string is not valid UTF-8") from None
        except ValueError:
            raise RequestError(f"more than {limit} query parameters") from None

    def get(self, name: str) -> str | None:
        """The first value of that name."""
        return next((value for key, value in self._items if key == name), None)

    def get_list(self, name: str) -> list[str]:
        """Every value of that name, in order."""
        return [value for key, value in self._items if key == name]

    def names(self) -> set[str]:
        """The different names."""
        return {key for key, _ in self._items}

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._items)


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection a request came by; `client` is the caller's address behind trusted proxies.

    `host` is the one that a trusted proxy was asked for; None: the request says it itself.
    """

    client: tuple[str, int] | None = None
    server: tuple[str, int] | None = None
    scheme: str = "http"
    http_version: str = "1.1"
    host: str | None = None


class Request:
    """One request: method, path as segments, parameters, headers, and a body on demand."""

    account: Account | None = None  # who is calling, once that is known
    max_parameters = 200
    pages = Pages()  # set by the pipeline from the configuration: whose pages are ours
    body_limit = 0  # set by the pipeline from the service; 0: no body is read
    offload: Offload = staticmethod(_run_here)  # set by the pipeline
    form: dict[str, Any] | None = None  # the fields of a form, once somebody has parsed it
    is_given = False  # its content is a value that never was text of its own
    _body: bytes | None = None
    _flaw: RequestError | None = None  # why the body could not be read
    _content: Any = _UNPARSED
    _refusal: RequestError | None = None  # why the body could not be parsed
    _parameters: QueryParameters | None = None

    def __init__(
        self,
        method: str,
        raw_path: bytes,
        *,
        query_string: bytes = b"",
        headers: Headers | None = None,
        body: BodyReader | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.segments = parse_path(raw_path)
        self.query_string = query_string
        self.headers = Headers() if headers is None else headers
        self.connection = connection or Connection()
        self.parser: Parser = _raw_bytes
        self._reader = body

    @property
    def path(self) -> str:
        """The decoded path, `/` for the root."""
        return render_path(self.segments)

    @property
    def page(self) -> Page:
        """Whose page made a browser send this, as far as that is known."""
        return self.pages.judge(self.headers, self.connection.scheme, self.connection.host)

    @property
    def query(self) -> QueryParameters:
        """The query parameters, decoded at first use."""
        if self._parameters is None:
            self._parameters = QueryParameters(self.query_string, self.max_parameters)
        return self._parameters

    @property
    def content_type(self) -> str:
        """The media type in lower case without its parameters; empty when there is none."""
        return _media_type(self.headers.get("content-type") or "")

    @property
    def is_coded(self) -> bool:
        """Whether the body has a content coding: its length is not the `Content-Length` then."""
        return is_coded(self.headers)

    async def read_body(self) -> bytes:
        """The bytes of the body without their content coding, read at the first call and kept."""
        if self._flaw is not None:
            raise copy(self._flaw)  # what is left of it is not the body
        if self._body is None:
            try:
                compressed = is_compressed(self.headers)
                body = await self._read()
                self._body = await self._inflate(body) if compressed else body
            except RequestError as error:
                # A copy: the traceback of the error that is raised holds the body, and us.
                self._flaw = copy(error)
                raise
        return self._body

    async def parse_content(self) -> Any:
        """The body parsed as the service reads it (`parser`), anew at each call."""
        return await self.run(self.parser)

    async def run(self, parser: Parser) -> Any:
        """What the parser makes of the body; of a large one in a thread."""
        content = await self.work(parser, await self.read_body(), self.content_type)
        return await content if isawaitable(content) else content

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of work on the body that was read; of a large one in a thread."""
        if self.is_large:
            result: T = await self.offload(function, *arguments)
            return result
        return function(*arguments)

    def give(self, content: Any) -> None:
        """Set the content of a request that is a part of another one, which was parsed."""
        self._content, self.is_given = content, True

    @property
    def is_large(self) -> bool:
        """Whether work on the content is for a thread; known when the body has been read."""
        return self.is_given or len(self._body or b"") > LARGE_BODY

    async def get_content(self) -> Any:
        """The parsed body: read and parsed at the first call, kept for the next ones."""
        if self._refusal is not None:
            raise copy(self._refusal)
        if self._content is _UNPARSED:
            try:
                self._content = await self.parse_content()
            except RequestError as error:
                self._refusal = copy(error)
                raise
        return self._content

    @property
    def is_parsed(self) -> bool:
        """Whether the body was parsed, and the result kept."""
        return self._content is not _UNPARSED

    getContent = get_content  # the specification's names
    parseContent = parse_content

    async def _read(self) -> bytes:
        if self._reader is None:
            return b""
        self._refuse_announced_excess()
        body = await self._reader(self.body_limit)
        if len(body) > self.body_limit:
            raise self._too_large()
        return body

    async def _inflate(self, body: bytes) -> bytes:
        """Piece by piece: what is too large is never inflated first."""
        pieces: list[bytes] = []
        size = 0
        async for piece in inflate(body):
            size += len(piece)
            if size > self.body_limit:
                raise self._too_large()
            pieces.append(piece)
        return b"".join(pieces)

    def _refuse_announced_excess(self) -> None:
        length = self.headers.get("content-length")
        if length is not None and length.isdigit() and int(length) > self.body_limit:
            raise self._too_large()

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body is larger than {self.body_limit} bytes",
            headers=[("Connection", "close")],
        )


@lru_cache(maxsize=256)
def _media_type(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()


def _raw_bytes(body: bytes, content_type: str) -> bytes:
    return body
