"""Hosts and origins of `mcp` that could never match are refused at the start."""

from __future__ import annotations

import pytest

from docgraph.config import ConfigSources
from docgraph.exchange import ConfigError
from docgraph.mcp.sections import Mcp
from docgraph.server.prepare import load_tree, prepare


@pytest.mark.parametrize(
    "setting",
    [
        '/mcp/allowed-hosts=["https://api.example.org"]',
        '/mcp/allowed-hosts=["api.example.org/x"]',
        '/mcp/allowed-hosts=["*"]',
        '/mcp/allowed-origins=["example.org"]',
        '/mcp/allowed-origins=["https://example.org/"]',
        '/mcp/authorization-servers=["login.example.org"]',
        "/mcp/calls-per-second=0",
    ],
)
def test_what_could_never_match_is_told_with_its_place(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        prepare(load_tree(ConfigSources(settings=(setting,), environ={})))


def test_agents_without_graphql_are_refused() -> None:
    settings = ("/mcp/enabled=true", "/graphql/enabled=false")

    with pytest.raises(ConfigError, match="'graphql' is off"):
        prepare(load_tree(ConfigSources(settings=settings, environ={})))


def test_hosts_with_and_without_a_port_are_understood() -> None:
    setting = '/mcp/allowed-hosts=["api.example.org", "localhost:9000", "[::1]:80", "10.0.0.1"]'

    prepared = prepare(load_tree(ConfigSources(settings=(setting,), environ={})))

    assert len(prepared.config.get(Mcp).allowed_hosts) == 4
