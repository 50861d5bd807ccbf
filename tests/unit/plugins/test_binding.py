"""Where services are bound: one answer for the router, the rules, the REST API and OpenAPI."""

from __future__ import annotations

from typing import ClassVar

import pytest

from docgraph.config.section import PluginConfig, ServiceConfig
from docgraph.exchange import Answer, Body, Exchange
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import bound_path, is_secured


class Hall(Service):
    """A service with a path and a need for rules of its own."""

    name: ClassVar[str] = "hall"
    description: ClassVar[str] = "says hello"
    uri: ClassVar[str] = "/own/hall"

    async def handle(self, exchange: Exchange) -> Answer:
        """Nobody asks."""
        return Body(200, b"", "text/plain")


@pytest.mark.parametrize("section", [None, PluginConfig(), ServiceConfig()])
def test_a_service_is_bound_as_it_says_where_the_section_says_nothing(section: object) -> None:
    assert bound_path(Hall(None), section) == ("own", "hall")
    assert is_secured(Hall(None), section) is True


def test_the_section_says_where_a_service_is_bound() -> None:
    section = ServiceConfig(uri="/other//a%20b/", secured=False)

    assert bound_path(Hall(None), section) == ("other", "a b")
    assert is_secured(Hall(None), section) is False


def test_a_service_may_be_bound_to_the_root() -> None:
    assert bound_path(Hall(None), ServiceConfig(uri="/")) == ()
