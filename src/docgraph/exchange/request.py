"""Request as services and plugins see it, independent of the HTTP server.

The body is read on demand, once, and parsed once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import isawaitable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from docgraph.exchange.errors import BodyTooLarge, RequestError
from docgraph.exchange.headers import Headers, inflate, is_coded, is_compressed
from docgraph.exchange.origin import OriginPolicy, RequestOrigin

_USUAL_LENGTH = 256  # bytes: longer paths are not cached


def parse_path(raw: bytes) -> tuple[str, ...]:
    """Return the decoded segments of a path, safe against path traversal.

    It is split at `/` before it is decoded: `%2F` is a slash inside a segment, never a separator.
    Empty segments (`//`, a trailing slash) are dropped. `.` and `..`, however they are encoded, are
    resolved as RFC 3986 5.2.4 requires.

    The path as segments, decoded and normalized once for all layers: routing, access rules and
    services use the same segments, so that no spelling of a path can mean one thing to a rule and
    another to the service behind it.
    """
    return _parse_usual(raw) if len(raw) <= _USUAL_LENGTH else _parse(raw)


def _parse(raw: bytes) -> tuple[str, ...]:
    segments: list[str] = []
    for part in raw.split(b"/"):
        segment = _decode(part)
        if segment in ("", "."):
            continue
        if segment == "..":
            if segments:
                segments.pop()
            continue
        segments.append(segment)
    return tuple(segments)


# Most requests are for few paths; the cache is bounded, whatever callers request.
_parse_usual = lru_cache(maxsize=1024)(_parse)


def _decode(part: bytes) -> str:
    try:
        text = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("the path is not valid UTF-8") from None
    if "\x00" in text:
        raise RequestError("the path contains a NUL character")
    return text


def cut_unreadable(raw: bytes) -> bytes:
    """Return the path up to the first segment that cannot be decoded: it finds the service."""
    readable: list[bytes] = []
    for part in raw.split(b"/"):
        try:
            _decode(part)
        except RequestError:
            break
        readable.append(part)
    return b"/".join(readable) or b"/"


def encode_path(segments: tuple[str, ...]) -> str:
    """Encode segments as the path that `parse_path` reads them from; empty for the root."""
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def render_path(segments: tuple[str, ...]) -> str:
    """Render the decoded path for people and predicates; `/` without segments."""
    return "/" + "/".join(segments)


T = TypeVar("T")

# The result may have to be awaited.
Parser = Callable[[bytes, str], Any]
# Reads a body to its end, or until it exceeds the limit that it is called with.
BodyReader = Callable[[int], Awaitable[bytes]]
# Runs a function with its arguments in a thread, so that it does not block other requests.
Offload = Callable[..., Awaitable[Any]]
Segments = tuple[str, ...]  # of the path of a URL
LARGE_BODY: Final = 32 * 1024  # bytes; up to this size, bodies are parsed on the event loop
_UNPARSED = object()
_SOCKET_SCHEMES: Final = frozenset({"ws", "wss"})


async def _run_here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class QueryParameters:
    """The decoded query string: repeated names have all their values."""

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
        """Return the first value of that name."""
        return next((value for key, value in self._items if key == name), None)

    def get_list(self, name: str) -> list[str]:
        """Return every value of that name, in order."""
        return [value for key, value in self._items if key == name]

    def names(self) -> set[str]:
        return {key for key, _ in self._items}

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._items)


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection of a request; `client` is the caller's address behind trusted proxies.

    `host` is the one from a trusted proxy; None: the request has it itself. `root_path` is the
    encoded path that an ASGI application is mounted below: links begin with it, no rule sees it.
    """

    client: tuple[str, int] | None = None
    server: tuple[str, int] | None = None
    scheme: str = "http"
    http_version: str = "1.1"
    host: str | None = None
    root_path: str = ""

    @property
    def is_websocket(self) -> bool:
        return self.scheme in _SOCKET_SCHEMES

    def find_base(self, base_url: str) -> str:
        """Return the public address, followed by `root_path` unless it has a path itself."""
        base = base_url.rstrip("/")
        return base if urlsplit(base).path else base + self.root_path


class Request:
    """One request: method, path as segments, parameters, headers, and a body on demand."""

    account: Account | None = None  # set by authentication
    max_parameters = 200
    pages = OriginPolicy()  # set by the pipeline from the configuration: the trusted pages
    body_limit = 0  # set by the pipeline from the service; 0: no body is read
    offload: Offload = staticmethod(_run_here)  # set by the pipeline
    form: dict[str, Any] | None = None  # the fields of a form, after it is parsed
    is_given = False  # its content is a value that was never text
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
        is_usual = len(raw_path) <= _USUAL_LENGTH
        self.segments = _parse_usual(raw_path) if is_usual else _parse(raw_path)
        self.query_string = query_string
        self.headers = Headers() if headers is None else headers
        self.connection = connection or Connection()
        self.parser: Parser = _raw_bytes
        self._reader = body

    @property
    def path(self) -> str:
        """The decoded path, `/` for the root."""
        return "/" + "/".join(self.segments)

    @property
    def page(self) -> RequestOrigin:
        """Whose page made a browser send this, as far as it is known."""
        return self.pages.classify(self.headers, self.connection.scheme, self.connection.host)

    @property
    def query(self) -> QueryParameters:
        """The query parameters, decoded at first use."""
        if self._parameters is None:
            self._parameters = QueryParameters(self.query_string, self.max_parameters)
        return self._parameters

    @property
    def content_type(self) -> str:
        """The media type in lower case without its parameters; empty if there is none."""
        return _media_type(self.headers.first.get(b"content-type", b""))

    @property
    def is_coded(self) -> bool:
        """Whether the body has a content coding; its length then differs from `Content-Length`."""
        return is_coded(self.headers)

    async def read_body(self) -> bytes:
        """Return the body without its content coding; the first call reads it, others reuse it."""
        if self._flaw is not None:
            raise copy(self._flaw)  # the rest of it is not the body
        if self._body is None:
            try:
                is_coded = b"content-encoding" in self.headers.first
                compressed = is_coded and is_compressed(self.headers)
                body = b"" if self._reader is None else await self._read(self._reader)
                self._body = await self._inflate(body) if compressed else body
            except RequestError as error:
                # A copy: the traceback of the raised error references the body and this request.
                self._flaw = copy(error)
                raise
        return self._body

    async def parse_content(self) -> Any:
        """Parse the body as the service reads it (`parser`), again at each call."""
        return await self.run(self.parser)

    async def run(self, parser: Parser) -> Any:
        """Return the parsed body; a large one is parsed in a thread."""
        content = await self.work(parser, await self.read_body(), self.content_type)
        return await content if isawaitable(content) else content

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of work on the body; for a large body it runs in a thread."""
        if self.is_large:
            result: T = await self.offload(function, *arguments)
            return result
        return function(*arguments)

    def give(self, content: Any) -> None:
        """Set the content of a request that is a part of another, parsed one."""
        self._content, self.is_given = content, True

    @property
    def is_large(self) -> bool:
        """Whether work on the content needs a thread; known after the body was read."""
        return self.is_given or len(self._body or b"") > LARGE_BODY

    async def get_content(self) -> Any:
        """Return the parsed body; the first call reads and parses it, others reuse it."""
        if self._refusal is not None:
            raise copy(self._refusal)
        if self._content is _UNPARSED:
            try:
                self._content = await self.parse_content()
            except RequestError as error:
                self._refusal = copy(error)
                raise
        return self._content

    getContent = get_content  # the specification's names
    parseContent = parse_content

    async def _read(self, reader: BodyReader) -> bytes:
        announced = self.headers.first.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self.body_limit:
            raise self._too_large()
        body = await reader(self.body_limit)
        if len(body) > self.body_limit:
            raise self._too_large()
        return body

    async def _inflate(self, body: bytes) -> bytes:
        """Decompress piece by piece, so that a body above the limit is never held in full."""
        pieces: list[bytes] = []
        size = 0
        async for piece in inflate(body):
            size += len(piece)
            if size > self.body_limit:
                raise self._too_large()
            pieces.append(piece)
        return b"".join(pieces)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body is larger than {self.body_limit} bytes", headers=[("Connection", "close")]
        )


@lru_cache(maxsize=256)
def _media_type(content_type: bytes) -> str:
    return content_type.decode("latin-1").split(";", 1)[0].strip().lower()


def _raw_bytes(body: bytes, content_type: str) -> bytes:
    return body


KEY_PREFIX: Final = "key:"  # of the names of API keys; no other account has such a name


@dataclass(frozen=True, slots=True)
class Account:
    """An authenticated user; an anonymous caller is `None`.

    `properties` are the values of `@user`: the user document, the file entry or the claims, never a
    password. `kind` is the source of the account (`identity`, `database`, `file`, `jwt`).
    `expires_at` is when its credentials expire, in seconds since the epoch; None: never.
    `login_ends_at` is when the login behind them ends by itself (`exp` of a foreign token): nothing
    that is issued for the account may be valid longer (decision 57). `owner` is the user whose key
    this is (decision 72), with the properties that were given to the key; None: this is no key.
    """

    name: str
    roles: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "identity"
    expires_at: float | None = field(default=None, compare=False)
    login_ends_at: float | None = field(default=None, compare=False)
    owner: Account | None = None
