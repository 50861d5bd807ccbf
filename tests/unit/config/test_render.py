"""`docgraph config show`, `docgraph config template` and the reference page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta
from tools.reference import render

from docgraph.auth.tokens.sections import JwtTokenManager
from docgraph.config import PluginConfig, Section, decode, show, template
from docgraph.config.options import walk_options
from docgraph.config.render import render_value
from docgraph.graphql.sections import Graphql
from docgraph.observe.sections import Otel
from docgraph.runtime.sections import Cors
from docgraph.server.prepare import SECTIONS
from docgraph.server.sections import HttpListener
from docgraph.store.sections import MClient
from tests.unit.config.harness import KEY, decode_text, load_text

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def show_text(directory: Path, text: str, sections: dict[str, type[Section]], *sets: str) -> str:
    tree = load_text(directory, text, settings=sets)
    return show(tree, decode(tree, sections))


def test_every_value_of_a_secret_mapping_is_masked(tmp_path: Path) -> None:
    text = """\
otel:
  endpoint: https://ada:lovelace@collector:4318
  headers: {authorization: Bearer xyz, tenant: books}
"""

    shown = show_text(tmp_path, text, {"otel": Otel})

    assert 'endpoint: "https://ada:********@collector:4318"' in shown
    assert 'headers: {authorization: "********", tenant: "********"}' in shown


def test_show_of_a_small_file(tmp_path: Path) -> None:
    text = """\
http-listener:
  port: 9090
cors:
  allow-origins:
    - https://a.example
mclient: {connection-string: "mongodb://u:secret@db/x"}
"""
    sections: dict[str, type[Section]] = {
        "http-listener": HttpListener,
        "cors": Cors,
        "mclient": MClient,
    }

    assert (
        show_text(tmp_path, text, sections, "/mclient/max-pool-size=7")
        == """\
http-listener:
  enabled: true                                           # built-in default
  host: 127.0.0.1                                         # built-in default
  port: 9090                                              # docgraph.yml:2:3
  socket: null                                            # built-in default
  socket-mode: "660"                                      # built-in default

cors:
  allow-origins: ["https://a.example"]                    # docgraph.yml:4:3

mclient:
  connection-string: "mongodb://u:********@db/x"          # docgraph.yml:6:11
  command-ceiling-ms: 300000                              # built-in default
  max-pool-size: 7                                        # --set
  min-pool-size: 5                                        # built-in default
  max-connecting: 2                                       # built-in default
  wait-queue-timeout-ms: null                             # built-in default
  connect-timeout-ms: 2000                                # built-in default
  heartbeat-frequency-ms: 2000                            # built-in default
  server-selection-timeout-ms: 15000                      # built-in default
  uuid-representation: standard                           # built-in default
"""
    )


def test_show_of_nested_and_secret_options(tmp_path: Path) -> None:
    text = f"""\
graphql:
  app-def-cache-ttl: 5000
  introspection: [admin, "on"]
  limits: {{depth: 4, response-bytes: 1 MiB}}
jwtTokenManager: {{key: {KEY}}}
"""
    sections: dict[str, type[Section]] = {"graphql": Graphql, "jwtTokenManager": JwtTokenManager}

    assert (
        show_text(tmp_path, text, sections)
        == """\
graphql:
  enabled: true                                           # built-in default
  uri: /graphql                                           # built-in default
  secured: true                                           # built-in default
  db: docgraph                                            # built-in default
  collection: gql-apps                                    # built-in default
  app-cache-enabled: true                                 # built-in default
  app-cache-ttr: 5000                                     # docgraph.yml:2:3
  default-limit: 100                                      # built-in default
  max-limit: 1000                                         # built-in default
  count-time-limit: 500                                   # built-in default
  cursor-key: null                                        # built-in default
  previous-cursor-key: null                               # built-in default
  query-time-limit: 0                                     # built-in default
  verbose: false                                          # built-in default
  app-def-cache-ttl: 5000                                 # docgraph.yml:2:3
  limits:
    depth: 4                                              # docgraph.yml:4:12
    aliases: 50                                           # built-in default
    root-fields: 20                                       # built-in default
    tokens: 2500                                          # built-in default
    directives: 50                                        # built-in default
    estimated-documents: 2000000                          # built-in default
    fetched-documents: 100000                             # built-in default
    relation-depth: 3                                     # built-in default
    representations: 10000                                # built-in default
    response-bytes: 1048576                               # docgraph.yml:4:22
  live:
    min-interval-ms: 200                                  # built-in default
    max-queries: 1000                                     # built-in default
    max-queries-per-user: 100                             # built-in default
    max-queries-per-address: 400                          # built-in default
    max-executions: 200                                   # built-in default
  cache:
    max-bytes: 67108864                                   # built-in default
    max-lag-ms: 1000                                      # built-in default
  introspection: [admin, "on"]                            # docgraph.yml:3:3
  operations-only: []                                     # built-in default
  explain: null                                           # built-in default
  history-versions: 50                                    # built-in default
  history-size: 67108864                                  # built-in default
  json-mode: standard                                     # built-in default
  serve-by-id: false                                      # built-in default
  max-body-size: 1048576                                  # built-in default
  read-preference: primary                                # built-in default

jwtTokenManager:
  enabled: false                                          # built-in default
  key: "********"                                         # docgraph.yml:5:19
  ttl: 15                                                 # built-in default
  srv-uri: /tokens                                        # built-in default
  issuer: docgraph                                        # built-in default
  audience: null                                          # built-in default
  account-properties-claims: []                           # built-in default
  max-session-age: 0                                      # built-in default
"""
    )


def test_what_is_shown_reads_back_as_itself(tmp_path: Path) -> None:
    tree = load_text(tmp_path, "core: {name: 'it''s: #1', tracing-headers: [x-id]}")
    decoded = decode(tree, SECTIONS)

    again = decode_text(tmp_path, show(tree, decoded))

    assert again.sections == decoded.sections


def test_the_template_means_the_defaults(tmp_path: Path) -> None:
    assert decode_text(tmp_path, template(SECTIONS)).sections == decode_text(tmp_path).sections


def test_the_template_without_its_marks_means_the_defaults(tmp_path: Path) -> None:
    text = "\n".join(
        line.replace("#", "", 1) if line.lstrip().startswith("#") and "# " not in line[:8] else line
        for line in template(SECTIONS).splitlines()
    )

    assert "  max-limit: 1000" in text.splitlines()
    assert decode_text(tmp_path, text).sections == decode_text(tmp_path).sections


@pytest.mark.parametrize(("name", "section"), SECTIONS.items())
def test_the_template_has_every_option(name: str, section: type[Section]) -> None:
    text = template({name: section})

    for path, option in walk_options(section, ""):
        assert f"{option.name}:" in text, path


class Shop(PluginConfig, frozen=True):
    """A section of a plugin."""

    limit: Annotated[int, Meta(ge=1), "most orders of a page"] = 10
    title: Annotated[str, Meta(description="shown above the list")] = "orders"


def test_the_template_describes_options_of_plugins() -> None:
    lines = [line.strip() for line in template({"shop": Shop}).splitlines()]

    assert lines[lines.index("#limit: 10") - 1] == "# most orders of a page"
    assert lines[lines.index("#title: orders") - 1] == "# shown above the list"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run: python tools/reference.py > docs/reference/configuration.md"
    )


@pytest.mark.parametrize(("name", "section"), SECTIONS.items())
def test_the_reference_page_has_every_option(name: str, section: type[Section]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert f"## `{name}`" in page
    chapter = page.split(f"## `{name}`")[1].split("\n## ")[0]
    for path, option in walk_options(section, ""):
        if option.struct is None:
            assert f"| `{path[1:].replace('/', '.')}` |" in chapter, path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("true", '"true"'),
        ("12", '"12"'),
        ("1.5", '"1.5"'),
        ("", '""'),
        ("no", '"no"'),
        ("1_000", '"1_000"'),
        ("gql-apps", "gql-apps"),
        ("a b", '"a b"'),
        ("a\nb", '"a\\U0000000ab"'),
        ('say "\\"', '"say \\"\\\\\\""'),
        ("é", '"é"'),
        (None, "null"),
        (True, "true"),
        ([1, "x"], "[1, x]"),
        ({"a b": [None]}, '{"a b": [null]}'),
        (float("inf"), ".inf"),
    ],
)
def test_values_are_rendered_so_that_they_read_back(value: object, text: str) -> None:
    assert render_value(value) == text
