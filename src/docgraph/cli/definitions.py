"""Definitions on disk: found, read and checked, without a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docgraph.cli.terminal import notice, print_table
from docgraph.codec import decode
from docgraph.exchange import DocgraphError, Document, StartupError
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import Finding, decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Kind
from docgraph.server.prepare import Prepared
from docgraph.store import Policy
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import BUILT_IN

__all__ = ["Checked", "check_path", "report"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file with a definition, and what is to be said about it."""

    file: Path
    document: Document = field(default_factory=dict)
    errors: Sequence[Finding] = ()
    warnings: Sequence[Finding] = ()


def check_path(prepared: Prepared, path: Path) -> list[Checked]:
    """Check a file, or every `*.json` file of a directory; two that claim one uri collide."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise StartupError(f"there is no *.json file in {path}")
    checked = [_check_file(prepared, file) for file in files]
    return list(_find_collisions(checked))


def _check_file(prepared: Prepared, file: Path) -> Checked:
    try:
        document = decode(file.read_bytes())
    except DocgraphError as error:
        return Checked(file, errors=[Finding("", f"not valid JSON: {error.message}")])
    if not isinstance(document, dict):
        return Checked(file, errors=[Finding("", "a definition is a JSON object")])
    plugins: list[Any] = [
        one.plugin for one in prepared.found if one.plugin.kind is Kind.VARIABLE_RESOLVER
    ]
    report = check_definition(
        document,
        settings=prepared.config.get(Graphql),
        policy=Policy.from_section(prepared.config.get(AggregationSecurity)),
        variables={*BUILT_IN, *(plugin.variable for plugin in plugins)},
    )
    errors = list(report.errors)
    if "_id" not in document:
        errors.append(Finding("_id", "missing", "give the app a name"))
    return Checked(file, document, errors, report.warnings)


def _find_collisions(checked: Sequence[Checked]) -> Iterator[Checked]:
    taken: dict[str, Path] = {}
    for one in checked:
        if one.errors:
            yield one
            continue
        claims = {decode_definition(one.document).uri, str(one.document["_id"])}
        other = next((taken[claim] for claim in sorted(claims) if claim in taken), None)
        taken.update(dict.fromkeys(claims, one.file))
        if other is None:
            yield one
        else:
            collision = Finding("descriptor.uri", f"the app in {other} is served there, too")
            yield Checked(one.file, one.document, [collision], one.warnings)


def report(checked: Sequence[Checked], *, as_json: bool) -> None:
    """Every finding with its place and the way out."""
    if as_json:
        print_table([_as_row(one) for one in checked], as_json=True)
        return
    for one in checked:
        for kind, findings in (("error", one.errors), ("warning", one.warnings)):
            for finding in findings:
                hint = f" ({finding.hint})" if finding.hint else ""
                notice(f"{one.file}: {kind}: {finding}{hint}")
        if not one.errors:
            notice(f"{one.file}: fine")


def _as_row(one: Checked) -> dict[str, Any]:
    return {
        "file": str(one.file),
        "valid": not one.errors,
        "errors": [_as_dict(finding) for finding in one.errors],
        "warnings": [_as_dict(finding) for finding in one.warnings],
    }


def _as_dict(finding: Finding) -> dict[str, Any]:
    return {"where": finding.where, "what": finding.what, "hint": finding.hint}
