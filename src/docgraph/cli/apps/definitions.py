"""Definitions on disk or stored, checked with or without a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docgraph.cli.apps.sources import SCHEMA_FILE, Found, find_definitions
from docgraph.cli.terminal import Colour, notice, paint, print_table
from docgraph.exchange import Document, StartupError
from docgraph.graphql.advise.findings import Report as Advised
from docgraph.graphql.apps.questions import settle
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.check import Report, inspect_definition, require_id
from docgraph.graphql.definition.definition import Finding, decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Kind
from docgraph.server.prepare import Prepared
from docgraph.store import Policy, Store
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import BUILT_IN

__all__ = [
    "Checked",
    "check_found",
    "check_paths",
    "check_stored",
    "find_variables",
    "inspect_document",
    "read_paths",
    "report",
    "settle_all",
    "settle_alone",
]

_COLOURS: dict[str, Colour] = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A definition, where it is from, and what is to be said about it."""

    name: str
    document: Document = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    source: str = "file"

    @property
    def errors(self) -> Sequence[Finding]:
        """What keeps it from working."""
        return self.report.errors

    @property
    def warnings(self) -> Sequence[Finding]:
        """What might be wrong."""
        return self.report.warnings


def check_paths(prepared: Prepared, paths: Sequence[Path]) -> list[Checked]:
    """Check the definitions of files and directories; two that claim one uri collide.

    What only a database knows is left open: see `settle_all` and `settle_alone`.
    """
    return check_found(prepared, read_paths(paths))


def check_found(prepared: Prepared, found: Sequence[Found]) -> list[Checked]:
    """The same for definitions that were read already."""
    return list(_find_collisions([_check(prepared, one) for one in found]))


def read_paths(paths: Sequence[Path]) -> list[Found]:
    """The definitions of files and directories; what in a directory is none is named."""
    sources = find_definitions(paths)
    for path, reason in sources.skipped:
        notice(f"{path}: skipped: {reason}")
    if not sources.definitions:
        raise StartupError(
            f"there is no definition in {', '.join(map(str, paths))}",
            hint=f"it is a .json or .yml file, or a directory with {SCHEMA_FILE}",
        )
    return sources.definitions


def check_stored(prepared: Prepared, documents: Sequence[Document]) -> list[Checked]:
    """Check definitions as they are stored."""
    return [
        Checked(str(one.get("_id")), one, inspect_document(prepared, one), "app")
        for one in documents
    ]


async def settle_all(checked: Sequence[Checked], store: Store, settings: Graphql) -> list[Checked]:
    """The same with what the database says."""
    return [replace(one, report=await settle(one.report, store, settings)) for one in checked]


def settle_alone(checked: Sequence[Checked]) -> list[Checked]:
    """The same without a database."""
    return [replace(one, report=one.report.settle_alone()) for one in checked]


def _check(prepared: Prepared, found: Found) -> Checked:
    if found.flaw is not None:
        return Checked(found.name, report=Report((found.flaw,)))
    report = require_id(inspect_document(prepared, found.document), found.document)
    return Checked(found.name, found.document, report)


def find_variables(prepared: Prepared) -> frozenset[str]:
    """The predefined variables and those of plugins, without their @."""
    plugins: list[Any] = [
        one.plugin for one in prepared.found if one.plugin.kind is Kind.VARIABLE_RESOLVER
    ]
    return frozenset((*BUILT_IN, *(plugin.variable for plugin in plugins)))


def inspect_document(prepared: Prepared, document: Document) -> Report:
    """What is wrong with a definition under this configuration, as far as no database is asked."""
    return inspect_definition(
        document,
        settings=prepared.config.get(Graphql),
        policy=Policy.from_section(prepared.config.get(AggregationSecurity)),
        variables=find_variables(prepared),
    )


def _find_collisions(checked: Sequence[Checked]) -> Iterator[Checked]:
    taken: dict[str, str] = {}
    for one in checked:
        if one.errors:
            yield one
            continue
        claims = find_claims(one.document["_id"], decode_definition(one.document).uri)
        other = next((taken[claim] for claim in claims if claim in taken), None)
        taken.update(dict.fromkeys(claims, one.name))
        if other is None:
            yield one
        else:
            collision = Finding("descriptor.uri", f"the app in {other} is served there, too")
            yield replace(one, report=replace(one.report, errors=(collision,)))


def report(checked: Sequence[Checked], *, as_json: bool, advised: Advised | None = None) -> None:
    """Every finding with its place and the way out; in JSON also what was advised."""
    if as_json:
        print_table([_as_row(one, advised) for one in checked], as_json=True)
        return
    for one in checked:
        for kind, findings in (("error", one.errors), ("warning", one.warnings)):
            for finding in findings:
                hint = f" ({finding.hint})" if finding.hint else ""
                notice(f"{one.name}: {paint(kind, _COLOURS[kind], err=True)}: {finding}{hint}")
        if not one.errors and one.warnings:
            notice(f"{one.name}: works, but look at the warnings")
        elif not one.errors:
            notice(f"{one.name}: {paint('fine', 'green', err=True)}")


def _as_row(one: Checked, advised: Advised | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        one.source: one.name,
        "valid": not one.errors,
        "errors": [finding.as_dict() for finding in one.errors],
        "warnings": [finding.as_dict() for finding in one.warnings],
    }
    if advised is not None:
        row["advice"] = [found.as_dict() for found in advised.find(str(one.document.get("_id")))]
    return row
