"""`originVetoer` and `filterOperatorsBlacklist`."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from docgraph.access.authorize import FilterOperatorsBlacklist, OriginVetoer
from docgraph.access.sections import FilterOperatorsBlacklist as BlacklistConfig
from docgraph.access.sections import OriginVetoer as OriginConfig
from docgraph.exchange import StartupError
from tests.unit.access.harness import make_exchange

pytestmark = pytest.mark.anyio

LISTED = OriginConfig(
    whitelist=("https://docgraph.example", "http://localhost/"),
    whitelist_patterns=("https://*.docgraph.example",),
    ignore_paths=("/public/{any}",),
)


async def passes(
    config: OriginConfig, origin: str | None, method: str = "GET", **more: str
) -> bool:
    headers = {} if origin is None else {"Origin": origin}
    path = more.pop("path", "/x")
    exchange = make_exchange(method, path, headers=headers | more)
    return (await OriginVetoer(config).decide(exchange)).allowed


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://docgraph.example", True),
        ("HTTPS://DocGraph.example/", True),
        ("http://localhost", True),
        ("http://localhost:3000", False),
        ("https://docgraph.example.evil", False),
        ("http://docgraph.example", False),
        ("https://a.docgraph.example", True),
        ("https://adocgraph.example", False),
        ("https://DOCGRAPH.example:443", True),
        ("https://docgraph.example:80", False),
        ("https://A.docgraph.example:443", True),
        ("https://a.docgraph.example:8443", False),
        ("null", False),
        (None, True),
    ],
)
async def test_origins_are_compared_whole(origin: str | None, expected: bool) -> None:
    assert await passes(LISTED, origin) is expected


async def test_an_origin_may_be_listed_in_any_spelling_and_a_pattern_keeps_its_port() -> None:
    listed = OriginConfig(whitelist=("HTTPS://Docgraph.example:443",))
    assert await passes(listed, "https://docgraph.example")
    assert not await passes(listed, "https://docgraph.example:8443")
    pattern = OriginConfig(whitelist_patterns=("https://*:443",))
    assert await passes(pattern, "https://a.example:443")
    assert not await passes(pattern, "https://a.example:8443")


async def test_a_missing_origin_is_denied_where_configured() -> None:
    assert not await passes(OriginConfig(whitelist=("a",), allow_missing_origin=False), None)


async def test_preflights_pass_and_other_options_do_not() -> None:
    preflight = {"Access-Control-Request-Method": "PUT"}
    assert await passes(LISTED, "https://evil.example", "OPTIONS", **preflight)
    assert not await passes(LISTED, "https://evil.example", "OPTIONS")


async def test_ignored_paths_are_compared_as_they_are() -> None:
    assert await passes(LISTED, "https://evil.example", path="/public/a")
    assert not await passes(LISTED, "https://evil.example", path="/Public/a")
    assert not await passes(LISTED, "https://evil.example", path="/public/a/b")


async def test_without_lists_everything_passes() -> None:
    assert await passes(OriginConfig(allow_missing_origin=False), None)


def test_a_path_that_is_no_template_stops_the_start() -> None:
    with pytest.raises(StartupError, match="ignore-paths"):
        OriginVetoer(OriginConfig(ignore_paths=("/a/{b}c",)))


@pytest.mark.parametrize(
    ("query", "service", "expected"),
    [
        ('filter={"$where":"1"}', "mongo", False),
        ('filter={"a":1}&filter={"$or":[{"b":{"$not":{"$Where":"1"}}}]}', "mongo", False),
        ('filter={"a":"$where"}', "mongo", True),
        ("filter={oops", "mongo", True),
        ('shardkey={"$where":"1"}', "mongo", False),
        ('keys={"$where":"1"}', "mongo", True),
        ('filter={"$where":"1"}', "graphql", True),
        ("", "mongo", True),
    ],
)
async def test_filters_are_searched_at_any_depth(query: str, service: str, expected: bool) -> None:
    exchange = make_exchange("GET", f"/a?{quote(query, safe='=&')}", service=service)
    vetoer = FilterOperatorsBlacklist(BlacklistConfig())
    assert (await vetoer.decide(exchange)).allowed is expected
