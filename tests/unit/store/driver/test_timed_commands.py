"""What is told of a command, and what its comment tells the database, in a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.tracing import RequestTrace, TraceContext, current
from docgraph.store.driver.timed_commands import Observed
from tests.http.harness import listening

PLACE = TraceContext(trace_id=7, span_id=8, is_sampled=True)


@pytest.fixture
def trace() -> Iterator[None]:
    token = current.set(RequestTrace(PLACE))
    yield
    current.reset(token)


@pytest.mark.parametrize(
    ("comment", "members"),
    [
        (None, {}),
        ({"app": "blog"}, {"app": "blog"}),
        ("nightly cleaning", {"comment": "nightly cleaning"}),
        (5, {"comment": 5}),
    ],
)
def test_a_comment_of_any_type_goes_along_with_the_trace(
    trace: None, comment: Any, members: dict[str, Any]
) -> None:
    """A plugin may comment on its reads in its own way."""
    command: dict[str, Any] = {"find": "posts", "comment": comment}
    with Observed("db", command):
        pass

    parent = command["comment"].pop("traceparent")
    assert parent.startswith(f"00-{7:032x}-")
    assert command["comment"] == members


@pytest.mark.parametrize(
    ("command", "collection"), [({"find": "posts"}, "posts"), ({"commitTransaction": 1}, "")]
)
def test_what_is_no_name_is_no_collection(command: dict[str, Any], collection: str) -> None:
    with listening(CommandFinished) as told, Observed("db", command):
        pass

    assert [event.collection for event in told] == [collection]
