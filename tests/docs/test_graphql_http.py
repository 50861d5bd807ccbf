"""The page on GraphQL over HTTP names every code, status, limit and classification there is."""

from __future__ import annotations

import re
from pathlib import Path

from tools.error_codes import SOURCE, find_made

from docgraph.exchange import errors
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.errors import Classification, OperationsOnly
from docgraph.graphql.sections import GraphqlLimits
from docgraph.variables.errors import NotBound, UnusableValue

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/graphql-http.md").read_text()
# Not made by the GraphQL endpoint: other services, or the protocol layer.
ELSEWHERE = {
    "outcome-unknown",
    "conflict",
    "precondition-failed",
    "not-supported",
    "url-too-long",
    "headers-too-large",
    "upgrade-required",
}


def documented_codes() -> set[str]:
    section = PAGE.partition("### The request as a whole")[2].partition("## Limits")[0]
    cells = re.findall(r"^\| (`[a-zA-Z].*?) \|", section, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([a-z-]+|[A-Z_]+)`", cell)} - {"code"}


def general_codes() -> set[str]:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    return {one.code for one in kinds if issubclass(one, DocgraphError)}


def test_every_code_is_documented_and_every_documented_code_exists() -> None:
    """Decision 22: codes are stable."""
    own = {*find_made(SOURCE / "graphql"), NotBound.code, UnusableValue.code, OperationsOnly.code}

    assert documented_codes() == own | (general_codes() - ELSEWHERE)


def test_every_classification_is_documented() -> None:
    """Decision 22."""
    assert set(re.findall(r"^\| `([A-Z][a-z]\w+)` \|", PAGE, re.MULTILINE)) == set(Classification)


def test_limits_are_documented_with_their_defaults() -> None:
    """Decision 26."""
    section = PAGE.partition("| `graphql.limits.` |")[2].partition("| Fixed |")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", section, re.MULTILINE))
    defaults = GraphqlLimits()

    assert rows == {
        name.replace("_", "-"): str(getattr(defaults, name)) for name in defaults.__struct_fields__
    }
