"""However bytes are cut into packets, the same answers come; and nothing is too odd to be read."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.exchange import Answer, Body, Exchange
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import RequestFailed
from docgraph.server.http.state import build_state
from docgraph.server.settings import ServerSettings
from tests.chance import examples
from tests.connections import Peer, build_request
from tests.process.test_framing import REFUSED, UNDERSTOOD
from tests.unit.server.http.test_exchanges import App

VARYING = re.compile(rb"(Date|X-Request-Id): [^\r]*")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def _echo(exchange: Exchange) -> Answer:
    request = exchange.request
    request.body_limit = 1 << 20
    body = await request.read_body()
    return Body(200, f"{request.method} {request.path} {body!r}".encode(), "text/plain")


def _chunked(body: bytes) -> bytes:
    head = build_request("PUT", "/chunked", transfer_encoding="chunked")
    parts = [b"%x\r\n%s\r\n" % (len(one), one) for one in (body[:3], body[3:]) if one]
    return head + b"".join(parts) + b"0\r\n\r\n"


bodies = st.binary(max_size=40)
requests = st.one_of(
    st.sampled_from(["/", "/a%20b", "/%ff", "/a?b=c"]).map(lambda path: build_request("GET", path)),
    st.just(build_request("HEAD")),
    bodies.map(lambda body: build_request("POST", "/sized", body)),
    bodies.map(lambda body: build_request("POST", "/expected", body, expect="100-continue")),
    bodies.map(
        lambda body: build_request("POST", "/h2c", body, connection="Upgrade", upgrade="h2c")
    ),
    bodies.map(_chunked),
    st.sampled_from(list(UNDERSTOOD.values())),
)
odd = st.one_of(
    st.sampled_from([one for one in REFUSED.values() if len(one) < 1000]),
    st.binary(max_size=60),
    st.sampled_from([b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", b"\r\n", b"\x00"]),
)


@st.composite
def streams(draw: Any) -> tuple[bytes, list[int]]:
    """Some requests, perhaps something odd, and where the stream is cut."""
    data = b"".join(draw(st.lists(requests, max_size=4)))
    data += draw(st.one_of(st.just(b""), odd))
    data += b"".join(draw(st.lists(requests, max_size=2)))
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=12))
    return data, sorted(cuts)


async def _converse(data: bytes, cuts: list[int]) -> bytes:
    """What a server says to these packets."""
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))

    def hear(event: Event) -> None:
        if isinstance(event, RequestFailed):
            faults.append(event)

    subscribe(hear)
    try:
        output = await _exchange_bytes(data, cuts)
    finally:
        unsubscribe(hear)
    assert not faults
    output = VARYING.sub(rb"\1", output.replace(CONTINUE, b""))
    return _unite(output)


def _unite(output: bytes) -> bytes:
    """A method that nobody knows can be told from nonsense only where it is in one packet."""
    before, _, last = output.rpartition(b"HTTP/1.1 ")
    is_refusal = last.startswith(b"405") or b"the request is not valid HTTP" in last
    return before + b"refused" if is_refusal else output


async def _exchange_bytes(data: bytes, cuts: list[int]) -> bytes:
    state = build_state(App(_echo), ServerSettings())
    peer = Peer(state)
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        peer.send(data[begin:end])
        await asyncio.sleep(0)
    await _settle(state, peer)
    output = bytes(peer.transport.output)
    peer.leave()
    await peer.wait_lost()
    await asyncio.gather(*state.exchanges.tasks, return_exceptions=True)
    return output


async def _settle(state: Any, peer: Peer) -> None:
    """Until everything is quiet: nothing here waits for time to pass."""
    quiet = 0
    while quiet < 10:
        before = len(peer.transport.output), len(state.exchanges.tasks)
        await asyncio.sleep(0)
        quiet = (
            quiet + 1 if before == (len(peer.transport.output), len(state.exchanges.tasks)) else 0
        )


@settings(deadline=None, max_examples=examples(150))
@given(stream=streams())
def test_the_same_bytes_in_other_packets_have_the_same_answers(
    stream: tuple[bytes, list[int]],
) -> None:
    data, cuts = stream
    assert asyncio.run(_converse(data, cuts)) == asyncio.run(_converse(data, []))


@settings(deadline=None, max_examples=examples(50))
@given(stream=streams())
def test_single_bytes_have_the_same_answers(stream: tuple[bytes, list[int]]) -> None:
    data, _ = stream
    cuts = list(range(1, len(data)))
    assert asyncio.run(_converse(data, cuts)) == asyncio.run(_converse(data, []))


@settings(deadline=None, max_examples=examples(150))
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_garbage_is_refused_and_never_a_fault(data: bytes, cuts: list[int]) -> None:
    places = sorted(min(cut, len(data)) for cut in cuts)
    output = asyncio.run(_converse(data, places))
    assert output == b"" or output.startswith((b"HTTP/1.1 4", b"refused"))
