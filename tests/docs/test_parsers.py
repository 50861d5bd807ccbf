"""The page of parsers names every part of the program that reads bytes of a caller."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docgraph.authoring.sections import Tools
from docgraph.codec import lenient, patterns, pieces, request_body
from docgraph.exchange.request import LARGE_BODY
from docgraph.graphql.apps import definition_writes
from docgraph.graphql.definition import schema
from docgraph.graphql.sections import Graphql
from docgraph.mcp import rpc
from docgraph.mcp.sections import Mcp
from docgraph.plugins.kinds import Kind
from docgraph.rest import flatten, patch
from docgraph.rest.handlers import bulk
from docgraph.rest.sections import Mongo
from docgraph.server.builtin import BUILTIN
from docgraph.server.sections import ConnectionOptions
from docgraph.server.services.batch import BatchService

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/docgraph"
PACKAGES = sorted(ROOT.glob("*/src/docgraph_*"))  # which build on it
PAGE = ROOT / "docs/reference/parsers.md"

# Calls that turn bytes or texts into values.
READING = {
    *("loads", "load", "decode_json", "decompressobj", "parse_qsl", "unquote_to_bytes", "unquote"),
    *("b64decode", "urlsafe_b64decode", "fromhex", "SimpleCookie", "MultipartParser"),
    *("HttpRequestParser", "WSConnection", "validator_for", "CountedParser", "parse_yaml"),
    *("parse_document", "parse_options_header", "parse_weight", "tokenize"),
}
# Parts that read what no caller has sent, with what that is.
OTHERS = {
    "auth/authenticators/sections.py": "the configuration",
    "auth/tokens/jwks.py": "key sets that the configuration names",
    "auth/mechanisms/jwt.py": "key sets that the configuration names",
    "auth/tokens/account_claims.py": "what was encoded a moment before",
    "auth/tokens/token.py": "what another worker stored",
    "access/rule_authorizers.py": "rules of the configuration",
    "access/rulebook.py": "rules that were checked when they were written",
    "docgraph_workbench/fuzz/surface.py": "values of a definition at the command line",
    "docgraph_workbench/infer/yaml_additions.py": "mappings that were parsed before",
    "observe/recent_metrics.py": "what another worker stored",
    "observe/otel/collector.py": "our own modules",
    "openapi/described_resources.py": "addresses in stored schemas",
    "rest/rejections.py": "the query string, which was parsed before",
    "server/app.py": "our own modules",
    "server/services/batch_entries.py": "an answer of ours",
    "server/http/bridge.py": "the path, which was parsed before",
    "server/prepare.py": "the configuration",
    "server/services/monitoring.py": "what another worker stored",
    "server/process/host.py": "our own modules",
    "server/process/forker.py": "what another process of ours sends",
    "store/driver/client.py": "the connection string",
    "store/driver/connection_status.py": "the connection string",
    "store/sections.py": "the connection string",
    "plugins/discover.py": "plugins",
    "plugins/packages.py": "plugins",
    "runtime/allocations.py": "for the modules that call it",
    "store/views.py": "a function of its own",
    "auth/tokens/claim_warnings.py": "rules that are stored",
    "store/collection_stats.py": "a function of its own",
    "tools/installation.py": "mappings that `authoring/requests.py` has parsed before",
    "authoring/requests.py": "named with `authoring/requests.py`, which calls it",
}
LOCAL = (
    "cli/",
    "config/",
    "embedded/",
    "testing/",
    "docgraph_workbench/leak_check/",
    "docgraph_migrate/",
)  # what people at the machine give


def modules() -> set[str]:
    table = PAGE.read_text().partition("\n## Parsers\n")[2]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`([^`]+\.py)`", cell)}


def list_sources() -> Iterator[tuple[str, Path]]:
    """Each file of the core by its path in it, and those of packages with the package before."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            yield path.relative_to(package.parent).as_posix(), path


def readers() -> Iterator[tuple[str, str]]:
    """Each file that reads something, with the call that does so."""
    words = re.compile(rf"\b({'|'.join(READING)})\b")
    for name, path in list_sources():
        text = path.read_text()
        if not words.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
                if called in READING:
                    yield name, str(called)


def test_every_part_that_reads_bytes_is_on_the_page() -> None:
    known = modules() | OTHERS.keys()
    missing = {name: call for name, call in readers() if name not in known}

    assert {name: one for name, one in missing.items() if not name.startswith(LOCAL)} == {}


def test_the_page_names_parts_that_exist() -> None:
    names = {name for name, _ in list_sources()}
    assert modules() - names == set()
    assert OTHERS.keys() - names == set()
    assert len(modules()) > 40


@pytest.mark.parametrize(
    ("module", "limit", "shown"),
    [
        ("codec/pieces.py", pieces.MAX_VALUES, "1 000 000 values"),
        ("codec/request_body.py", request_body._MAX_FIELDS, "1 000 fields"),
        ("codec/request_body.py", request_body.MAX_FORM >> 20, "2 MiB"),
        ("codec/request_body.py", request_body._MAX_PART_HEADERS, "8 headers"),
        ("codec/request_body.py", request_body._MAX_NAME >> 10, "1 KiB"),
        ("codec/patterns.py", patterns.MAX_PATTERN, "4 096 characters"),
        ("rest/flatten.py", flatten._MAX_CREATED, "100 000 values"),
        ("rest/flatten.py", flatten._MAX_STEPS, "100 names"),
        ("rest/flatten.py", flatten._LARGEST_INDEX, "10 000;"),
        ("rest/patch.py", patch._MAX_PATHS, "500 paths"),
        ("rest/handlers/bulk.py", bulk.MAX_DOCUMENTS, "10 000 documents"),
        ("rest/handlers/metadata.py", pieces._MAX_CHECKED, "20 000 values"),
        ("graphql/definition/schema.py", schema.MAX_TOKENS, "100 000 tokens"),
        ("graphql/apps/definition_writes.py", definition_writes._MAX_VALUES, "100 000 values"),
        ("mcp/rpc.py", rpc._MAX_VALUES, "20 000 values"),
    ],
)
def test_limits_are_those_of_the_code(module: str, limit: int, shown: str) -> None:
    row = next(line for line in PAGE.read_text().splitlines() if f"`{module}`" in line)

    assert shown in row
    assert shown.replace(" ", "").startswith(str(limit))


def test_only_document_writes_take_more_than_two_mebibytes() -> None:
    defaults = {one.section_name: one().max_body_size for one in (Graphql, Mcp, Tools, Mongo)}

    assert defaults == {"graphql": 1 << 20, "mcp": 1 << 20, "tools": 2 << 20, "mongo": 16 << 20}
    assert ConnectionOptions().max_body_size == defaults["mongo"]
    own = {"graphql", "mcp", "tools", "mongo", BatchService.name}
    services = [one for one in BUILTIN if one.kind is Kind.SERVICE and one.name not in own]
    assert services
    assert all(getattr(one, "max_body_size", 0) <= 1 << 20 for one in services)
    assert (LARGE_BODY, lenient.MAX_DEPTH) == (32 << 10, 200)
