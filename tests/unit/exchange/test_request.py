"""A request reads its body when asked, once, and never beyond its limit."""

import pytest

from docgraph.exchange import Headers, Request
from docgraph.exchange.errors import BodyTooLarge, RequestError

pytestmark = pytest.mark.anyio


def make_request(body=b"", **headers):
    reads = []

    async def read(limit):
        reads.append(limit)
        return body

    request = Request("POST", b"/x", headers=Headers.of(**headers), body=read)
    request.body_limit = 10
    return request, reads


async def test_nothing_is_read_until_somebody_asks():
    _, reads = make_request(b"abc")
    assert reads == []


async def test_the_body_is_read_once_and_parsed_once():
    request, reads = make_request(b"abc")
    parsed = []
    request.parser = lambda body, kind: parsed.append(body) or body.decode()
    assert await request.get_content() == "abc"
    assert await request.getContent() == "abc"
    assert reads == [10]
    assert parsed == [b"abc"]


async def test_parse_content_parses_anew():
    request, reads = make_request(b"abc")
    parsed = []
    request.parser = lambda body, kind: parsed.append(body)
    await request.parse_content()
    await request.parseContent()
    assert len(parsed) == 2
    assert len(reads) == 1


async def test_an_announced_excess_is_refused_before_reading():
    request, reads = make_request(b"x" * 11, content_length="11")
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert reads == []


async def test_an_unannounced_excess_is_refused_and_the_reader_knows_where_it_begins():
    request, reads = make_request(b"x" * 12)
    with pytest.raises(BodyTooLarge):
        await request.read_body()
    assert reads == [10]


async def test_the_parser_sees_the_bare_media_type():
    request, _ = make_request(b"{}", content_type="Application/JSON; charset=utf-8")
    request.parser = lambda body, kind: kind
    assert await request.get_content() == "application/json"


async def test_repeated_parameters_keep_all_values():
    request = Request("GET", b"/", query_string=b"a=1&b=&a=2&c")
    assert request.query.get("a") == "1"
    assert request.query.get_list("a") == ["1", "2"]
    assert "c" in request.query
    assert request.query.get("b") == ""
    assert request.query.get("nope") is None


async def test_too_many_parameters_are_refused():
    request = Request("GET", b"/", query_string=b"&".join(b"a=1" for _ in range(201)))
    with pytest.raises(RequestError, match="more than 200"):
        request.query.get("a")


async def test_a_query_string_that_is_no_text_is_refused():
    with pytest.raises(RequestError):
        Request("GET", b"/", query_string=b"a=%ff").query.get("a")


async def test_headers_are_case_insensitive_and_keep_repetition():
    headers = Headers([(b"X-A", b"1"), (b"x-a", b"2")])
    assert headers.get("X-a") == "1"
    assert headers.get_list("x-A") == ["1", "2"]
    assert "X-A" in headers
    assert "x-b" not in headers
