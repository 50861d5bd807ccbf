"""The closed list of events."""

from __future__ import annotations

import inspect

import pytest

from docgraph.observe import Event, Level, engine_events, events
from docgraph.observe.events import EVENTS


def test_the_list_holds_every_event_of_the_modules() -> None:
    defined = {
        value
        for module in (engine_events, events)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Event)
        if value.__module__ == module.__name__
    }

    assert set(EVENTS) == defined
    assert len(EVENTS) == len(defined)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_is_frozen_and_documented(kind: type[Event]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}(")
    assert kind.level in Level


def test_the_name_is_the_class_in_kebab_case() -> None:
    assert events.RequestFinished.name == "request-finished"
    assert events.LinesDropped.name == "lines-dropped"


def test_no_event_has_a_place_for_headers_bodies_or_query_strings() -> None:
    forbidden = {"headers", "body", "query", "query_string", "password", "token", "cookie"}
    fields = {name for kind in EVENTS for name in kind.__struct_fields__}

    assert not fields & forbidden
