"""Request ids and the address of the caller, as far as they come from the request."""

from __future__ import annotations

import pytest

from docgraph.exchange import Headers
from docgraph.server.fields import RequestIds
from docgraph.server.proxies import TrustedProxies


def test_generated_ids_are_short_and_say_nothing_about_others() -> None:
    """Neither how many requests there were, nor the id of another one."""
    ids = [one.generate() for one in (RequestIds(), RequestIds()) for _ in range(200)]

    assert len(set(ids)) == len(ids)
    assert {len(id) for id in ids} == {24}
    assert all(len(set(digits)) > 8 for digits in zip(*ids, strict=True))


def test_an_id_is_not_taken_from_a_header_that_is_not_listed() -> None:
    id, fields = RequestIds().trace([(b"x-request-id", b"mine")])

    assert id != "mine"
    assert fields == [b"X-Request-Id: %s\r\n" % id.encode()]


def test_every_tracing_header_goes_back_and_the_first_listed_is_the_id() -> None:
    ids = RequestIds(["X-B3-TraceId", "Traceparent"])

    id, fields = ids.trace([(b"traceparent", b"00-1"), (b"x-b3-traceid", b"abc"), (b"x", b"y")])

    assert id == "abc"
    assert fields == [
        b"X-Request-Id: abc\r\n",
        b"X-B3-TraceId: abc\r\n",
        b"Traceparent: 00-1\r\n",
    ]


def test_the_own_header_may_be_listed_and_is_sent_once() -> None:
    _, fields = RequestIds(["X-Request-Id"]).trace([(b"x-request-id", b"mine")])

    assert fields == [b"X-Request-Id: mine\r\n"]


@pytest.mark.parametrize("value", [b"", b"a b", b'a"b', b"\x1b[31m", b"a" * 129, "ä".encode()])
def test_an_unsafe_id_is_neither_used_nor_sent_back(value: bytes) -> None:
    id, fields = RequestIds(["X-Trace"]).trace([(b"x-trace", value)])

    assert fields == [b"X-Request-Id: %s\r\n" % id.encode()]


def _resolve(proxies: list[str], peer: str, *forwarded: str, proto: str = "") -> tuple[str, str]:
    raw = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    raw += [(b"x-forwarded-proto", value.encode()) for value in proto.split()]
    client, scheme = TrustedProxies(proxies).resolve((peer, 4711), "http", Headers(raw))
    assert client is not None
    return client[0], scheme


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "expected"),
    [
        ([], "10.0.0.1", ["6.6.6.6"], "10.0.0.1"),
        (["10.0.0.1"], "10.0.0.2", ["6.6.6.6"], "10.0.0.2"),
        (["10.0.0.1"], "10.0.0.1", [], "10.0.0.1"),
        (["10.0.0.1"], "10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        (["10.0.0.1"], "10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        (["10.0.0.0/8"], "10.0.0.1", ["6.6.6.6, 1.2.3.4, 10.9.9.9"], "1.2.3.4"),
        (["10.0.0.0/8"], "10.0.0.1", ["6.6.6.6", "1.2.3.4, 10.9.9.9"], "1.2.3.4"),
        (["10.0.0.0/8"], "10.0.0.1", ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        (["10.0.0.1"], "10.0.0.1", ["1.2.3.4:5678"], "1.2.3.4"),
        (["10.0.0.1"], "10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        (["10.0.0.1"], "10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        (["10.0.0.1"], "10.0.0.1", ["1.2.3.4, unknown"], "10.0.0.1"),
        (["10.0.0.1"], "::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
    ],
)
def test_the_caller_is_the_right_most_hop_that_is_not_a_trusted_proxy(
    proxies: list[str], peer: str, forwarded: list[str], expected: str
) -> None:
    assert _resolve(proxies, peer, *forwarded)[0] == expected


def test_the_scheme_is_believed_from_a_trusted_proxy_only() -> None:
    assert _resolve(["10.0.0.1"], "10.0.0.1", proto="https")[1] == "https"
    assert _resolve(["10.0.0.1"], "10.0.0.1", proto="wss")[1] == "https"  # what it is, not how
    assert _resolve(["10.0.0.1"], "10.0.0.1", proto="gopher")[1] == "http"
    assert _resolve(["10.0.0.1"], "10.0.0.2", proto="https")[1] == "http"
    # The client has sent the first one, and the proxy has added the last.
    assert _resolve(["10.0.0.1"], "10.0.0.1", proto="https http")[1] == "http"
    assert _resolve(["10.0.0.1"], "10.0.0.1", proto="http https")[1] == "https"


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.0.0.1", "www.example.org", "www.example.org"),
        ("10.0.0.1", "www.example.org:8443, inner", "www.example.org:8443"),
        ("10.0.0.1", " ", None),
        ("10.0.0.1", None, None),
        ("10.0.0.2", "www.example.org", None),
    ],
)
def test_the_host_is_believed_from_a_trusted_proxy_only(
    peer: str, forwarded: str | None, expected: str | None
) -> None:
    headers = Headers([(b"x-forwarded-host", forwarded.encode())] if forwarded else [])
    assert TrustedProxies(["10.0.0.1"]).find_host((peer, 4711), headers) == expected
    assert TrustedProxies([]).find_host((peer, 4711), headers) is None
