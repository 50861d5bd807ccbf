"""A request reads its body on demand, once, within its limit; its path has one reading."""

from __future__ import annotations

import gzip
import random
from typing import Any

import pytest

from docgraph.exchange import Headers, Request
from docgraph.exchange import headers as header_fields
from docgraph.exchange.errors import BodyError, BodyTooLarge, RequestError, UnsupportedMediaType
from docgraph.exchange.request import parse_path, render_path
from tests.expect import keep

pytestmark = pytest.mark.anyio


def make_request(body: bytes = b"", **headers: Any) -> tuple[Request, list[Any]]:
    reads = []

    async def read(limit: int) -> bytes:
        reads.append(limit)
        return body

    request = Request("POST", b"/x", headers=Headers.of(**headers), body=read)
    request.body_limit = 10
    return request, reads


async def test_nothing_is_read_until_somebody_asks() -> None:
    _, reads = make_request(b"abc")
    assert reads == []


async def test_the_body_is_read_once_and_parsed_once() -> None:
    request, reads = make_request(b"abc")
    parsed: list[bytes] = []
    request.parser = lambda body, kind: keep(parsed, body) and body.decode()
    assert await request.get_content() == "abc"
    assert await request.getContent() == "abc"
    assert reads == [10]
    assert parsed == [b"abc"]


async def test_parse_content_parses_anew() -> None:
    request, reads = make_request(b"abc")
    parsed = []
    request.parser = lambda body, kind: parsed.append(body)
    await request.parse_content()
    await request.parseContent()
    assert len(parsed) == 2
    assert len(reads) == 1


async def test_an_announced_excess_is_refused_before_reading() -> None:
    request, reads = make_request(b"x" * 11, content_length="11")
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert reads == []


async def test_an_unannounced_excess_is_refused_and_the_reader_knows_where_it_begins() -> None:
    request, reads = make_request(b"x" * 12)
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert reads == [10]


async def test_a_body_that_could_not_be_read_stays_so() -> None:
    """What is left of it must never pass for the body."""
    request, _ = make_request(b"x" * 18)
    for _ in range(2):
        with pytest.raises(BodyTooLarge):
            await request.read_body()


# --- content coding -------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZip", "identity, gzip", ", gzip"])
async def test_a_body_in_gzip_is_read_plain(coding: str) -> None:
    request, reads = make_request(gzip.compress(b"0123456789"), content_encoding=coding)
    request.body_limit = 100
    assert reads == []
    assert request.is_coded
    assert await request.read_body() == b"0123456789"


@pytest.mark.parametrize("coding", ["identity", "", "Identity, identity"])
async def test_no_coding_is_none(coding: str) -> None:
    request, _ = make_request(b"abc", content_encoding=coding)
    assert not request.is_coded
    assert await request.read_body() == b"abc"


async def test_several_members_are_one_body() -> None:
    members = gzip.compress(b"abc") + gzip.compress(b"def")
    request, _ = make_request(members, content_encoding="gzip")
    request.body_limit = 100
    assert await request.read_body() == b"abcdef"


async def test_no_bytes_at_all_are_no_body() -> None:
    request, _ = make_request(b"", content_encoding="gzip")
    assert await request.read_body() == b""


@pytest.mark.parametrize(
    "coding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "*", "aws-chunked"]
)
async def test_any_other_coding_is_refused_before_reading_with_the_one_that_is_known(
    coding: str,
) -> None:
    request, reads = make_request(b"abc", content_encoding=coding)
    for _ in range(2):
        with pytest.raises(UnsupportedMediaType) as caught:
            await request.read_body()
        assert caught.value.headers == (("Accept-Encoding", "gzip"),)
    assert reads == []


@pytest.mark.parametrize(
    "data",
    [
        b"plain text",
        gzip.compress(b"abc", mtime=0)[:-1],
        gzip.compress(b"abc", mtime=0)[:3],
        gzip.compress(b"abc", mtime=0) + b"rubbish",
        gzip.compress(b"abc", mtime=0)[:-8] + b"\0" * 8,
    ],
)
async def test_what_is_no_gzip_is_refused(data: bytes) -> None:
    request, _ = make_request(data, content_encoding="gzip")
    request.body_limit = 100
    for _ in range(2):
        with pytest.raises(BodyError):
            await request.read_body()


async def test_a_bomb_is_refused_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is inflated than a piece beyond the bound, however much there would be."""
    inflated = []

    def count(member: Any, data: bytes) -> bytes:
        inflated.append(len(piece := inflate(member, data)))
        return piece

    inflate = header_fields._inflate
    monkeypatch.setattr(header_fields, "_inflate", count)
    bomb = gzip.compress(bytes(50_000_000))
    request, _ = make_request(bomb, content_encoding="gzip")
    request.body_limit = 100_000
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert sum(inflated) <= request.body_limit + 64 * 1024


async def test_compressed_bytes_count_too() -> None:
    """Many empty members say nothing at any length."""
    request, reads = make_request(gzip.compress(b"") * 100, content_encoding="gzip")
    request.body_limit = 100
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert reads == [100]


@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])
async def test_members_of_any_length_are_read_once(length: int) -> None:
    """A member that fills more than one piece leaves over what follows it, and no more."""
    parts = [bytes([65 + number]) * length for number in range(12)]
    request, _ = make_request(b"".join(map(gzip.compress, parts)), content_encoding="gzip")
    request.body_limit = 1 << 22

    assert await request.read_body() == b"".join(parts)


async def test_many_members_are_refused() -> None:
    """Each costs time, and an empty one is bounded by nothing that it holds."""
    request, _ = make_request(gzip.compress(b"") * 1000, content_encoding="gzip")
    request.body_limit = 1 << 20
    with pytest.raises(BodyError, match="more than 100 gzip members"):
        await request.read_body()


async def test_a_large_body_in_gzip_is_read_whole() -> None:
    content = random.Random(1).randbytes(300_000) + bytes(300_000)
    request, _ = make_request(gzip.compress(content), content_encoding="gzip")
    request.body_limit = 1 << 20
    assert await request.read_body() == content


async def test_a_body_may_be_as_long_as_the_bound_and_no_longer() -> None:
    for size, fits in ((1000, True), (1001, False)):
        request, _ = make_request(gzip.compress(bytes(size)), content_encoding="gzip")
        request.body_limit = 1000
        if fits:
            assert len(await request.read_body()) == size
        else:
            with pytest.raises(BodyTooLarge):
                await request.read_body()


async def test_the_parser_sees_the_bare_media_type() -> None:
    request, _ = make_request(b"{}", content_type="Application/JSON; charset=utf-8")
    request.parser = lambda body, kind: kind
    assert await request.get_content() == "application/json"


async def test_repeated_parameters_keep_all_values() -> None:
    request = Request("GET", b"/", query_string=b"a=1&b=&a=2&c")
    assert request.query.get("a") == "1"
    assert request.query.get_list("a") == ["1", "2"]
    assert "c" in request.query
    assert request.query.get("b") == ""
    assert request.query.get("nope") is None


async def test_too_many_parameters_are_refused() -> None:
    request = Request("GET", b"/", query_string=b"&".join(b"a=1" for _ in range(201)))
    with pytest.raises(RequestError, match="more than 200"):
        request.query.get("a")


async def test_a_query_string_that_is_no_text_is_refused() -> None:
    with pytest.raises(RequestError):
        Request("GET", b"/", query_string=b"a=%ff").query.get("a")


async def test_headers_are_case_insensitive_and_keep_repetition() -> None:
    headers = Headers([(b"X-A", b"1"), (b"x-a", b"2")])
    assert headers.get("X-a") == "1"
    assert headers.get_list("x-A") == ["1", "2"]
    assert "X-A" in headers
    assert "x-b" not in headers


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/", ()),
        (b"", ()),
        (b"/a/b", ("a", "b")),
        (b"//a///b//", ("a", "b")),
        (b"/a/./b", ("a", "b")),
        (b"/a/../b", ("b",)),
        (b"/../../a", ("a",)),
        (b"/a/%2e%2e/b", ("b",)),
        (b"/a%2Fb", ("a/b",)),
        (b"/%C3%A9", ("é",)),
        (b"/A", ("A",)),
    ],
)
def test_a_path_has_one_reading(raw: bytes, segments: tuple[str, ...]) -> None:
    assert parse_path(raw) == segments


@pytest.mark.parametrize("raw", [b"/%ff", b"/%C3", b"/a%00b"])
def test_a_path_that_is_no_text_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError):
        parse_path(raw)


def test_the_root_renders_as_a_slash() -> None:
    assert render_path(()) == "/"
    assert render_path(("a", "b")) == "/a/b"
