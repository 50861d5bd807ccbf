"""Definitions on disk or stored: checked, with or without a database, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docgraph.access.service_comparison import find_namespaces
from docgraph.access.view_rules import ViewWarning, find_view_warnings
from docgraph.cli.adviser import DataReport as Advised
from docgraph.cli.apps.sources import SCHEMA_FILE, FoundDefinition, find_definitions
from docgraph.cli.terminal import Colour, notice, paint, print_table
from docgraph.codec import JsonMode, as_meant, encode
from docgraph.exchange import Document, StartupError
from docgraph.exchange.request import Segments, parse_path
from docgraph.graphql.apps.definition_questions import resolve_reports
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.check import Examination, inspect_definition, require_id
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.definition_diff import (
    Change,
    ChangeKind,
    Effect,
    Severity,
    find_change,
)
from docgraph.graphql.definition.findings import Finding, Report
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Kind
from docgraph.rest.sections import Mongo
from docgraph.server.prepare import LoadedConfiguration
from docgraph.store import Policy, Store
from docgraph.store.diagnostics import CheckState, diagnose_rights
from docgraph.store.driver.rights import Right
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import BUILT_IN

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph

_COLOURS: dict[str, Colour] = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A definition, its source, and its findings."""

    name: str
    document: Document = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    source: str = "file"

    @property
    def errors(self) -> Sequence[Finding]:
        """The findings that make it invalid."""
        return self.report.errors

    @property
    def warnings(self) -> Sequence[Finding]:
        """The findings that might be wrong."""
        return self.report.warnings


def check_paths(
    prepared: LoadedConfiguration,
    paths: Sequence[Path],
    examined: dict[str, Examination] | None = None,
) -> list[Checked]:
    """Check the definitions of files and directories; two that claim one URI collide.

    Questions for a database stay open: see `resolve_all_questions` and `resolve_offline`.
    """
    return check_found(prepared, read_paths(paths), examined)


def check_found(
    prepared: LoadedConfiguration,
    definitions: Sequence[FoundDefinition],
    examined: dict[str, Examination] | None = None,
) -> list[Checked]:
    """Check definitions that were already read; `examined` gets their compiled parts."""
    return list(
        _find_collisions([_check(prepared, definition, examined) for definition in definitions])
    )


def read_paths(paths: Sequence[Path]) -> list[FoundDefinition]:
    """Read the definitions of files and directories; print which files are no definitions."""
    sources = find_definitions(paths)
    for path, reason in sources.skipped:
        notice(f"{path}: skipped: {reason}")
    if not sources.definitions:
        raise StartupError(
            f"there is no definition in {', '.join(map(str, paths))}",
            hint=f"it is a .json or .yml file, or a directory with {SCHEMA_FILE}",
        )
    return sources.definitions


def check_stored(prepared: LoadedConfiguration, documents: Sequence[Document]) -> list[Checked]:
    """Check definitions as they are stored."""
    return [
        Checked(str(document.get("_id")), document, inspect_document(prepared, document), "app")
        for document in documents
    ]


async def resolve_all_questions(
    checked: Sequence[Checked], store: Store, settings: Graphql
) -> list[Checked]:
    """Return the checks with the answers of the database."""
    reports = await resolve_reports([app.report for app in checked], store, settings)
    return [replace(app, report=report) for app, report in zip(checked, reports, strict=True)]


async def add_view_warnings(checked: Sequence[Checked], app: Docgraph) -> list[Checked]:
    """Add a warning for each view that an app reads under a rule, and that hides its rows."""
    values = app.plugins.values
    sections = values["configuration"]
    mongo = sections.get(Mongo.section_name) or Mongo()
    base = parse_path(sections[Graphql.section_name].uri.encode())
    apps = {
        check.name: (*base, *parse_path(decode_definition(check.document).uri.encode()))
        for check in checked
        if not check.errors
    }

    async def read_apps() -> dict[Segments, set[str]]:
        return {
            apps[app.name]: set(find_namespaces(as_meant(app.document)))
            for app in checked
            if app.name in apps
        }

    rules = await values["acl-rules"].find_all()
    warnings = await find_view_warnings(rules, app.store, mongo, read_apps)
    return [
        replace(check, report=replace(check.report, warnings=(*check.warnings, *added)))
        for check in checked
        for added in [
            [_describe_view(view) for view in warnings if apps.get(check.name) in view.apps]
        ]
    ]


def _describe_view(warning: ViewWarning) -> Finding:
    flaw = warning.describe()
    return Finding("mappings", f"{flaw.where} of the rule {warning.rule} {flaw.what}", flaw.hint)


def resolve_offline(checked: Sequence[Checked]) -> list[Checked]:
    """Return the checks without a database."""
    return [replace(app, report=app.report.resolve_offline()) for app in checked]


def _check(
    prepared: LoadedConfiguration,
    definition: FoundDefinition,
    examined: dict[str, Examination] | None,
) -> Checked:
    if definition.flaw is not None:
        return Checked(definition.name, report=Report((definition.flaw,)))
    report = require_id(
        inspect_document(prepared, definition.document, examined), definition.document
    )
    return Checked(definition.name, definition.document, report)


def find_variables(prepared: LoadedConfiguration) -> frozenset[str]:
    """Return the names of predefined variables and those of plugins, without their @."""
    plugins: list[Any] = [
        plugin.plugin for plugin in prepared.found if plugin.plugin.kind is Kind.VARIABLE_RESOLVER
    ]
    return frozenset((*BUILT_IN, *(plugin.variable for plugin in plugins)))


def inspect_document(
    prepared: LoadedConfiguration,
    document: Document,
    examined: dict[str, Examination] | None = None,
) -> Report:
    """Return what is wrong with a definition under this configuration, without a database."""
    return inspect_definition(
        document,
        settings=prepared.config.get(Graphql),
        policy=Policy.from_section(prepared.config.get(AggregationSecurity)),
        variables=find_variables(prepared),
        examined=examined,
    )


def _find_collisions(checked: Sequence[Checked]) -> Iterator[Checked]:
    taken: dict[str, str] = {}
    for app in checked:
        if app.errors:
            yield app
            continue
        claims = claims_of(app.document)
        other = next((taken[claim] for claim in claims if claim in taken), None)
        taken.update(dict.fromkeys(claims, app.name))
        if other is None:
            yield app
        else:
            collision = Finding("descriptor.uri", f"the app in {other} is served there, too")
            yield replace(app, report=replace(app.report, errors=(collision,)))


def report(checked: Sequence[Checked], *, as_json: bool, advised: Advised | None = None) -> None:
    """Print every finding with its location and what to do; in JSON also the advice."""
    if as_json:
        print_table([_as_row(app, advised) for app in checked], as_json=True)
        return
    for app in checked:
        for kind, findings in (("error", app.errors), ("warning", app.warnings)):
            for finding in findings:
                hint = f" ({finding.hint})" if finding.hint else ""
                notice(f"{app.name}: {paint(kind, _COLOURS[kind], err=True)}: {finding}{hint}")
        if not app.errors and app.warnings:
            notice(f"{app.name}: works, with warnings")
        elif not app.errors:
            notice(f"{app.name}: {paint('fine', 'green', err=True)}")


def _as_row(app: Checked, advised: Advised | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        app.source: app.name,
        "valid": not app.errors,
        "errors": [finding.as_dict() for finding in app.errors],
        "warnings": [finding.as_dict() for finding in app.warnings],
    }
    if advised is not None:
        row["advice"] = [advice.as_dict() for advice in advised.find(str(app.document.get("_id")))]
    return row


async def print_missing_rights(store: Store, documents: Iterable[Document]) -> None:
    """Print which collections docgraph may not read, and what to do about it."""
    missing = await diagnose_rights(store, list_rights(documents), besides_own=False)
    if missing.state is not CheckState.OK:
        for place in missing.details:
            notice(f"docgraph lacks a right at the database: {place}")
        notice(f"  {missing.advice}")


def list_rights(documents: Iterable[Document]) -> list[Right]:
    """Return the rights to read the collections of these apps."""
    return [
        Right(db, collection, ("find",), f"the app {document['_id']}")
        for document in documents
        for db, collection in sorted(set(_find_sources(document)))
    ]


def _find_sources(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the database and the collection of each mapped field."""
    mappings = as_meant(document).get("mappings")
    for fields in mappings.values() if isinstance(mappings, dict) else ():
        for mapping in fields.values() if isinstance(fields, dict) else ():
            if isinstance(mapping, dict) and "collection" in mapping and "db" in mapping:
                yield str(mapping["db"]), str(mapping["collection"])


_DIFFERENT: dict[str, Colour] = {"+": "green", "-": "red"}
_MARKS = {ChangeKind.NEW: "+", ChangeKind.CHANGED: "~", ChangeKind.SAME: "=", ChangeKind.GONE: "-"}


def find_changes(
    stored: Sequence[Document], wanted: Sequence[Document], *, json_mode: str, prune: bool
) -> list[Change]:
    """Return a change for each app, by id; with `prune`, those only stored are removed."""
    before = {_key(app): app for app in stored}
    after = {_key(app): app for app in wanted}
    changes = [find_change(before.get(key, {}), app, json_mode) for key, app in after.items()]
    for key, document in before.items():
        if key not in after:
            changes.append(build_deletion(document, is_wanted=prune))
    return sorted(changes, key=lambda change: change.app)


def build_deletion(stored: Document, *, is_wanted: bool = True) -> Change:
    """Return the change of a deleted app; unless `is_wanted`, nothing happens."""
    deleted = Effect(Severity.BREAKING, "The app is deleted.")
    effects = (deleted,) if is_wanted else ()
    return Change(str(stored["_id"]), ChangeKind.GONE, stored, {}, effects)


def _key(document: Document) -> bytes:
    return encode(document["_id"], JsonMode.EXTENDED)


def find_collisions(changes: Sequence[Change], *, prune: bool) -> Iterator[tuple[str, str]]:
    """Yield apps that could not be stored, each with the app that already has its URI."""
    holders: dict[str, list[str]] = {}
    for change in changes:
        if change.before and not (prune and not change.after):
            for claim in claims_of(change.before):
                holders.setdefault(claim, []).append(str(change.before["_id"]))
    for change in changes:
        claims = claims_of(change.after) if change.after else set()
        others = {other for claim in claims for other in holders.get(claim, ())}
        for other in sorted(others - {change.app}):
            yield change.app, other


def claims_of(document: Document) -> set[str]:
    """Return the URIs that an app claims."""
    named: Document = {key: document[key] for key in ("_id", "descriptor") if key in document}
    return set(find_claims(document["_id"], decode_definition(named).uri))


def print_changes(changes: Sequence[Change], *, as_json: bool) -> None:
    """Print every change with its effects on clients, and the lines that differ."""
    if as_json:
        print_table([change.as_dict() for change in changes], as_json=True)
        return
    for change in changes:
        click.echo(f"{_MARKS[change.kind]} {change.app}: {_describe(change)}")
        for effect in change.effects:
            mark = effect.severity.upper() if effect.severity is Severity.BREAKING else None
            colour: Colour = "yellow" if mark is None else "red"
            click.echo(f"    {paint(mark or effect.severity, colour)}: {effect.what}")
        if change.kind is ChangeKind.CHANGED:
            click.echo("".join(f"    {_paint_line(line)}\n" for line in change.diff()), nl=False)


def _describe(change: Change) -> str:
    if change.kind is ChangeKind.GONE:
        return "to be deleted" if change.effects else "stored only (--prune deletes it)"
    return change.kind.value


def _paint_line(line: str) -> str:
    if line.startswith(("+++", "---")) or line[:1] not in _DIFFERENT:
        return line
    return paint(line, _DIFFERENT[line[:1]])
