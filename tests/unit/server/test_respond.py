"""What every response has, and the shape of errors (H08)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from docgraph.exchange import Account, Body, Exchange, Headers, Request, Stream
from docgraph.exchange.errors import (
    BodyError,
    Forbidden,
    MethodNotAllowed,
    Overloaded,
    RequestError,
    SecurityViolation,
    Unauthenticated,
)
from docgraph.server.respond import (
    SMALLEST,
    CorsPolicy,
    Responder,
    check_accepts_compression,
    choose_encoding,
    compress,
    compress_chunks,
    is_compressible,
)
from docgraph.server.serve import build_error_body

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0.5, deflate;q=0.8", "deflate"),
        ("gzip;q=0, deflate", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0, *", "deflate"),
        ("gzip;q=0", None),
        ("*;q=0", None),
        ("br, zstd", None),
        ("identity", None),
        ("gzip;q=nonsense", None),
        ("", None),
    ],
)
def test_the_best_coding_that_the_caller_accepts_is_chosen(
    accepted: str, encoding: str | None
) -> None:
    assert choose_encoding(accepted) == encoding


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", True),
        ("application/graphql-response+json; charset=utf-8", True),
        ("text/html", True),
        ("image/svg+xml", True),
        ("text/event-stream", False),
        ("application/octet-stream", False),
        ("image/png", False),
    ],
)
def test_only_what_gains_by_it_is_compressed(media_type: str, expected: bool) -> None:
    assert is_compressible(media_type) is expected


@pytest.mark.parametrize(
    ("encoding", "decode"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)]
)
def test_compressed_content_comes_back_whole(encoding: str, decode: object) -> None:
    content = b'{"name": "ada"}' * 1000

    encoded = compress(content, encoding)

    assert len(encoded) < len(content) / 5
    assert decode(encoded) == content  # type: ignore[operator]


async def test_each_chunk_of_a_stream_can_be_read_when_it_was_sent() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"second"

    decoder = zlib.decompressobj(31)
    read = [decoder.decompress(chunk) async for chunk in compress_chunks(chunks(), "gzip")]

    assert read == [b"first", b"second", b""]
    assert decoder.eof


@pytest.mark.parametrize("accepted", [None, "", "identity", "br"])
def test_callers_that_refuse_compression_are_turned_away_when_it_is_forced(
    accepted: str | None,
) -> None:
    with pytest.raises(RequestError, match="must include gzip or deflate"):
        check_accepts_compression(accepted)


def test_callers_that_accept_compression_pass_when_it_is_forced() -> None:
    check_accepts_compression("deflate")


TRACE = [b"X-Request-Id: r1\r\n"]


async def _run(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


async def _full(*_: Any) -> bytes:
    raise Overloaded("busy")


@pytest.fixture
def responder() -> Responder:
    return Responder(CorsPolicy(), _run)


@pytest.fixture
def exchange() -> Exchange:
    return _exchange()


def _exchange(accept_encoding: str | None = None) -> Exchange:
    fields = {} if accept_encoding is None else {"accept_encoding": accept_encoding}
    return Exchange(Request("GET", b"/", headers=Headers.of(**fields)), "r1")


async def _render(
    responder: Responder, body: Body, exchange: Exchange
) -> tuple[dict[str, str], bytes]:
    body = await responder.encode(body, exchange) if len(body.content) >= SMALLEST else body
    head, content = responder.render_body(body, exchange, TRACE)
    assert head.status == body.status
    lines = [line.decode().rstrip("\r\n").partition(": ") for line in head.lines]
    return {name.lower(): value for name, _, value in lines}, content


async def test_a_body_has_its_length_type_id_and_the_headers_of_all(
    responder: Responder, exchange: Exchange
) -> None:
    headers, content = await _render(responder, Body(200, b"{}", "application/json"), exchange)

    assert content == b"{}"
    assert headers["content-length"] == "2"
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-request-id"] == "r1"
    assert headers["access-control-allow-origin"] == "*"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "cache-control" not in headers
    assert "server" not in headers


async def test_an_answer_may_say_who_embeds_it(responder: Responder, exchange: Exchange) -> None:
    own = [("cross-origin-resource-policy", "cross-origin")]

    head, _ = responder.render_body(Body(200, b"x", "image/png", own), exchange, TRACE)

    policies = [line for line in head.lines if line.startswith(b"Cross-Origin-Resource-Policy")]
    assert policies == [b"Cross-Origin-Resource-Policy: cross-origin\r\n"]


async def test_the_answer_to_a_known_caller_is_not_stored(
    responder: Responder, exchange: Exchange
) -> None:
    exchange.account = Account("ada")

    headers, _ = await _render(responder, Body(), exchange)

    assert headers["cache-control"] == "no-store"


async def test_a_service_may_say_itself_what_is_stored(
    responder: Responder, exchange: Exchange
) -> None:
    exchange.account = Account("ada")
    body = Body(headers=[("Cache-Control", "private, max-age=60")])

    headers, _ = await _render(responder, body, exchange)

    assert headers["cache-control"] == "private, max-age=60"


async def test_head_has_the_headers_of_get_without_its_content(
    responder: Responder,
) -> None:
    body, exchange = Body(200, b"x" * 5000, "text/plain"), _exchange("gzip")
    of_get, content = await _render(responder, body, exchange)
    exchange.request.method = "HEAD"

    of_head, nothing = await _render(responder, body, exchange)

    assert of_head == of_get
    assert content
    assert nothing == b""


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_content_has_no_length(
    responder: Responder, exchange: Exchange, status: int
) -> None:
    headers, content = await _render(responder, Body(status), exchange)

    assert "content-length" not in headers
    assert content == b""


async def test_a_long_text_is_compressed_for_those_who_accept_it(
    responder: Responder,
) -> None:
    body = Body(200, b'{"a": 1}' * 200, "application/json")

    headers, content = await _render(responder, body, _exchange("gzip"))

    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert headers["content-length"] == str(len(content))
    assert gzip.decompress(content) == body.content


@pytest.mark.parametrize(
    ("body", "accepted"),
    [
        (Body(200, b"x" * 1000, "text/plain"), "gzip"),
        (Body(200, b"x" * 5000, "image/png"), "gzip"),
        (Body(200, b"x" * 5000, "text/plain"), None),
        (Body(200, b"x" * 5000, "text/plain", [("Content-Encoding", "br")]), "gzip"),
    ],
    ids=["short", "not-a-text", "not-accepted", "encoded-already"],
)
async def test_other_content_is_sent_as_it_is(
    responder: Responder, body: Body, accepted: str | None
) -> None:
    headers, content = await _render(responder, body, _exchange(accepted))

    assert headers.get("content-encoding") in (None, "br")
    assert content == body.content


async def test_large_content_is_sent_as_it_is_when_the_threads_are_busy() -> None:
    body = Body(200, b"x" * 1_000_000, "text/plain")

    headers, content = await _render(Responder(CorsPolicy(), _full), body, _exchange("gzip"))

    assert "content-encoding" not in headers
    assert content == body.content


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\x00b", "日"])
async def test_a_header_value_cannot_break_out(
    responder: Responder, exchange: Exchange, value: str
) -> None:
    with pytest.raises(ValueError, match="unsafe"):
        await _render(responder, Body(headers=[("Location", value)]), exchange)


async def test_length_and_coding_of_the_message_are_ours_to_say(
    responder: Responder, exchange: Exchange
) -> None:
    body = Body(200, b"ab", headers=[("Content-Length", "9"), ("Transfer-Encoding", "chunked")])

    headers, _ = await _render(responder, body, exchange)

    assert headers["content-length"] == "2"
    assert "transfer-encoding" not in headers


async def test_names_are_sent_in_their_usual_capitals(
    responder: Responder, exchange: Exchange
) -> None:
    names = ["etag", "ETag", "www-authenticate", "location", "X-B3-TraceId", "x-own"]
    body = Body(200, b"x", "text/plain", [(name, "a") for name in names])

    head, _ = responder.render_body(body, exchange, TRACE)

    assert [line.partition(b":")[0].decode() for line in head.lines] == [
        "X-Content-Type-Options",
        "Access-Control-Allow-Origin",
        "Access-Control-Expose-Headers",
        "X-Request-Id",
        *["ETag", "ETag", "WWW-Authenticate", "Location", "X-B3-TraceId", "X-Own"],
        "Cross-Origin-Resource-Policy",
        "Content-Type",
        "Content-Length",
    ]


@pytest.mark.parametrize("name", ["a b", "a\r\nb", "a:", "", "é"])
def test_a_name_cannot_break_out(responder: Responder, exchange: Exchange, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        responder.render_body(Body(headers=[(name, "a")]), exchange, TRACE)


async def test_the_body_of_a_service_is_not_changed(responder: Responder) -> None:
    body = Body(200, b"x" * 5000, "text/plain")

    for _ in range(2):
        headers, _ = await _render(responder, body, _exchange("gzip"))
        assert headers["content-encoding"] == "gzip"

    assert (body.content, body.headers) == (b"x" * 5000, [])


def test_an_error_has_the_general_shape() -> None:
    """Decision 41: the keys of the data service, plus code and hint."""
    error = BodyError('line 1: "x"\tis wrong', hint="write y", details={"line": 1})

    body = build_error_body(error)

    assert body.status == 400
    assert body.media_type == "application/json"
    assert orjson.loads(body.content) == {
        "http status code": 400,
        "http status description": "Bad Request",
        "message": "line 1: 'x'  is wrong",
        "code": "malformed-body",
        "hint": "write y",
        "details": {"line": 1},
    }


@pytest.mark.parametrize(
    "error", [Unauthenticated("who are you", hint="you"), Forbidden("not you", details="you")]
)
def test_denials_never_say_why(error: Unauthenticated | Forbidden) -> None:
    """Decision 68."""
    body = orjson.loads(build_error_body(error).content)
    assert {"message", "code"} <= body.keys()
    assert "you" not in str(body)


def test_a_forbidden_stage_is_explained() -> None:
    assert b"$out" in build_error_body(SecurityViolation("the stage $out is refused")).content


def test_the_headers_of_an_error_are_kept() -> None:
    assert build_error_body(MethodNotAllowed("PUT", ["GET"])).headers == [("Allow", "GET")]
    assert build_error_body(Overloaded("busy")).headers == [("Retry-After", "1")]


@pytest.mark.parametrize("encoding", [None, "gzip"])
async def test_a_chunk_that_is_text_ends_the_stream_with_a_clear_error(
    responder: Responder, encoding: str | None
) -> None:
    async def chunks() -> Any:
        yield b"bytes, "
        yield "text"

    stream = Stream(chunks(), media_type="text/plain")
    _, sent = responder.render_stream(stream, _exchange(encoding), [])

    with pytest.raises(TypeError, match="a chunk of a Stream is str, not bytes: encode it"):
        [chunk async for chunk in sent]
