"""Places in traces: W3C Trace Context, as callers write it and as the database is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from docgraph.observe.tracing import Tracing, current, find_command_place

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01".encode()


@pytest.fixture
def tracing() -> Iterator[Tracing]:
    tracing = Tracing()
    tracing.sampler = lambda trace_id: True
    before = current.set(None)
    yield tracing
    current.reset(before)


def test_a_caller_is_continued_and_told_on(tracing: Tracing) -> None:
    trace = tracing.begin([(b"traceparent", GOOD)])

    place = trace.place
    assert (trace.id, f"{place.parent_id:016x}", place.is_sampled) == (TRACE, PARENT, True)
    assert place.traceparent == f"00-{TRACE}-{place.span_id:016x}-01"
    below = find_command_place()
    assert below is not None
    assert (below.trace_id, below.parent_id) == (place.trace_id, place.span_id)
    assert not below.has_remote_parent


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"traceparent", GOOD), (b"traceparent", GOOD)],
        [(b"traceparent", GOOD.upper())],
        [(b"traceparent", GOOD.replace(b"-01", b"-0g"))],
        [(b"traceparent", GOOD + b"\n")],
        [(b"traceparent", b"")],
    ],
)
def test_what_is_no_trace_of_a_caller_is_none(
    tracing: Tracing, headers: list[tuple[bytes, bytes]]
) -> None:
    trace = tracing.begin(headers)

    assert trace.id != TRACE
    assert (trace.place.parent_id, trace.place.is_sampled) == (0, True)


@pytest.mark.parametrize("flags", ["00", "02", "fe"])
def test_only_the_last_bit_of_the_flags_says_that_it_is_recorded(
    tracing: Tracing, flags: str
) -> None:
    trace = tracing.begin([(b"traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode())])

    assert not trace.place.is_sampled
    assert trace.place.traceparent.endswith("-00")


@pytest.mark.parametrize(
    ("states", "passed"),
    [
        ([b"a=1", b"b=2"], "a=1,b=2"),
        ([b" a=1 ,, t@v=x/y "], "a=1,t@v=x/y"),
        ([b"a=1,a=2"], ""),
        ([b"A=1"], ""),
        ([b"a=\x00"], ""),
        ([b",".join(b"k%d=1" % number for number in range(33))], ""),
        ([b"a=" + b"x" * 256, ], f"a={'x' * 256}"),
        ([b"a=" + b"x" * 250, b"b=" + b"x" * 250, b"c=" + b"x" * 10], ""),
    ],
)  # fmt: skip
def test_the_state_of_other_tracers_is_passed_on_if_it_is_one(
    tracing: Tracing, states: list[bytes], passed: str
) -> None:
    trace = tracing.begin([(b"traceparent", GOOD), *((b"tracestate", state) for state in states)])

    assert trace.place.state == passed


def test_a_caller_who_is_not_trusted_has_no_say(tracing: Tracing) -> None:
    tracing.trusts_callers = False

    assert tracing.begin([(b"traceparent", GOOD)]).id != TRACE


def test_work_that_outlives_its_request_is_in_no_trace(tracing: Tracing) -> None:
    trace = tracing.begin([])
    trace.is_over = True

    assert find_command_place() is None
