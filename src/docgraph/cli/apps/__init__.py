"""`docgraph apps`: GraphQL app definitions in files and in the database."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.apps.history import history, rollback
from docgraph.cli.apps.stored import Definitions, run_on, without_etag
from docgraph.cli.apps.subgraph import sdl
from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.package_commands import PackageGroup
from docgraph.cli.terminal import make_printable, notice, print_json, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import Document, StartupError, Write, WriteKind

if TYPE_CHECKING:
    from docgraph.cli.adviser import DataReport as Advised
    from docgraph.cli.apps.definitions import Checked
    from docgraph.graphql.definition.definition_diff import Change

_FILES = click.Path(path_type=Path, exists=True)


@click.group(cls=PackageGroup)
def apps() -> None:
    """Apply, check and inspect GraphQL app definitions."""


apps.add_command(history)
apps.add_command(rollback)
apps.add_command(sdl)


@apps.command()
@click.argument("paths", type=_FILES, nargs=-1)
@click.option("--database", is_flag=True, help="Check that the collections exist, too.")
@click.option("--live", is_flag=True, help="Check the data, too, like `docgraph apps advise`.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def check(
    sources: ConfigSources, paths: tuple[Path, ...], database: bool, live: bool, as_json: bool
) -> None:
    """Check the definitions in files and directories; without PATHS, the stored ones.

    A definition is a JSON or YAML file, or a directory with schema.graphql, mappings.yml and
    app.yml. Directories are searched recursively. Files are checked without a server
    and, by default, without a database. Exit code 1 when one of the definitions cannot
    work, and with --live when the data are reason for a warning.
    """
    from docgraph.cli.adviser import load_adviser
    from docgraph.cli.apps.definitions import (
        add_view_warnings,
        check_paths,
        check_stored,
        report,
        resolve_all_questions,
        resolve_offline,
    )

    prepared = prepare_sources(sources)
    adviser = load_adviser() if live else None

    async def check_definitions(bench: Definitions) -> tuple[list[Checked], Advised | None]:
        if paths:
            checked = check_paths(prepared, paths)
        else:
            checked = check_stored(prepared, await bench.read_all())
        settled = await resolve_all_questions(checked, bench.app.store, bench.settings)
        settled = await add_view_warnings(settled, bench.app)
        if adviser is None:
            return settled, None
        sound = [app.document for app in settled if not app.errors]
        is_all = not paths and len(sound) == len(settled)
        return settled, await adviser.advise_apps(bench.app, bench.settings, sound, is_all=is_all)

    if database or live or not paths:
        checked, advised = run_on(sources, check_definitions)
    else:
        checked, advised = resolve_offline(check_paths(prepared, paths)), None
    report(checked, as_json=as_json, advised=advised)
    has_errors = any(app.errors for app in checked)
    if paths and not (database or live or as_json or has_errors):
        notice("the database was not checked: --database checks collections, --live the data, too")
    if not checked and not as_json:
        notice("no apps are stored")
    elif adviser is not None and advised is not None and not as_json:
        adviser.print_report(advised, told=("missing-collection",))
    is_serious = advised is not None and advised.is_serious
    sys.exit(1 if is_serious or has_errors else 0)


@apps.command()
@click.argument("paths", type=_FILES, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.option("--prune", is_flag=True, help="Delete the stored apps that are not among PATHS.")
@click.option(
    "--open-to",
    "open_to",
    multiple=True,
    metavar="ROLE|everybody",
    help="Let callers with this role query the apps; repeatable.",
)
@configured
def apply(
    sources: ConfigSources,
    paths: tuple[Path, ...],
    dry_run: bool,
    prune: bool,
    open_to: tuple[str, ...],
) -> None:
    """Store the definitions of files and directories; none of them if one cannot work.

    See `docgraph apps check --help` for what a definition is. Waits until all instances that run
    have them, for 5 s at most.
    """
    apply_paths(sources, paths, dry_run=dry_run, prune=prune, open_to=open_to)


def apply_paths(
    sources: ConfigSources,
    paths: Sequence[Path],
    *,
    dry_run: bool = False,
    prune: bool = False,
    open_to: tuple[str, ...] = (),
) -> None:
    """Store the definitions of these paths, or none of them if one has errors."""
    from docgraph.cli.acl.opening import Closing, Opening
    from docgraph.cli.adviser import find_adviser
    from docgraph.cli.apps import definitions

    gc.disable()  # what it compiles is kept until the end: searching for garbage finds nothing
    prepared, adviser = prepare_sources(sources), find_adviser()
    opening = Opening(prepared, open_to)
    examined: dict[str, Any] = {}
    checked = definitions.check_paths(prepared, paths, examined)
    if any(app.errors for app in checked):
        _reject_errors(definitions.resolve_offline(checked))

    async def store_all(bench: Definitions) -> None:
        resolved = definitions.resolve_all_questions(checked, bench.app.store, bench.settings)
        _reject_errors(await resolved)
        bench.reuse(examined)
        documents = tuple(without_etag(app.document) for app in checked)
        changes = await bench.compare(documents, prune=prune)
        _reject_collisions(changes, prune=prune)
        await opening.prepare(bench.app, documents)
        closing = Closing.of(prepared, bench.app)
        gone = [change.before for change in changes if prune and not change.after]
        if dry_run:
            _announce(changes, prune=prune)
            opening.announce()
            await closing.close(gone, dry_run=True)
            return
        await bench.store(documents, gone)
        await closing.close(gone)
        await opening.store()
        if not open_to:
            await closing.print_open_rules(change.after for change in changes if not change.before)
        await definitions.print_missing_rights(bench.app.store, documents)
        await bench.print_served()
        if adviser is not None:
            await adviser.print_summary(bench.app, bench.settings, documents)

    run_on(sources, store_all)


@apps.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...|APP")
@click.option("--from", "former", type=click.IntRange(1), help="Compare this version of APP ...")
@click.option("--to", "latter", type=click.IntRange(1), help="... with this one, not the stored.")
@click.option("--prune", is_flag=True, help="Compare as `apply --prune` would store it.")
@click.option("--fail-on-breaking", is_flag=True, help="Exit code 1 if clients would break.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def diff(  # noqa: PLR0913 - the options
    sources: ConfigSources,
    *,
    paths: tuple[str, ...],
    former: int | None,
    latter: int | None,
    prune: bool,
    fail_on_breaking: bool,
    as_json: bool,
) -> None:
    """Compare the definitions of files and directories with the stored ones.

    With --from compare versions of an app, which `docgraph apps history` lists. Changes that break
    clients are marked, and so are those that might.
    """
    from docgraph.cli.apps.definitions import print_changes
    from docgraph.cli.apps.history import compare_versions

    if former is None and latter is not None:
        raise click.UsageError("--to is for versions: give --from, too")
    if former is not None:
        if len(paths) > 1 or prune:
            raise click.UsageError("--from takes one APP, and no --prune")
        between = former, latter
        changes = run_on(sources, lambda bench: compare_versions(bench, paths[0], *between))
    else:
        documents = _read_definitions(paths)
        changes = run_on(sources, lambda bench: bench.compare(documents, prune=prune))
    print_changes(changes, as_json=as_json)
    sys.exit(1 if fail_on_breaking and any(change.breaking for change in changes) else 0)


def _read_definitions(paths: Sequence[str]) -> list[Document]:
    from docgraph.cli.apps.definitions import read_paths

    context = click.get_current_context()
    definitions = read_paths([Path(_FILES.convert(path, None, context)) for path in paths])
    for definition in definitions:
        if definition.flaw is not None or "_id" not in definition.document:
            raise StartupError(
                f"{definition.name}: {definition.flaw or 'has no _id'}",
                hint="run `docgraph apps check` for details",
            )
    return [without_etag(definition.document) for definition in definitions]


@apps.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def list_(sources: ConfigSources, as_json: bool) -> None:
    """List the stored apps: id, uri, enabled or not, valid or not."""

    async def read_all(bench: Definitions) -> list[dict[str, Any]]:
        return [_summarise(document, bench) for document in await bench.read_all()]

    print_table(run_on(sources, read_all), as_json=as_json, if_empty="no apps are stored")


@apps.command()
@click.argument("app", shell_complete=complete_apps)
@click.option(
    "--files",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write schema.graphql, mappings.yml and app.yml into DIR instead.",
)
@configured
def show(sources: ConfigSources, app: str, files: Path | None) -> None:
    """Print a stored definition as it was written."""
    from docgraph.cli.apps.sources import write_definition
    from docgraph.codec import JsonMode, to_json

    document = without_etag(run_on(sources, lambda bench: bench.require(app)))
    if files is not None:
        for file in write_definition(document, files):
            notice(f"wrote {file}")
        return
    plain = to_json(document, JsonMode.STANDARD)
    print_json(plain)


@apps.command()
@click.argument("part", type=click.Choice(["definition", "mappings", "app"]), default="definition")
def schema(part: Any) -> None:
    """Print the JSON Schema of definitions, for editors; or that of a part in its own file."""
    from docgraph.graphql.definition.definition_schema import build_json_schema

    print_json(build_json_schema(part))


@apps.command()
@click.argument("app", shell_complete=complete_apps)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@configured
def remove(sources: ConfigSources, app: str, yes: bool) -> None:
    """Remove a stored app, and the rule of `apps apply --open-to`; it then answers 404."""
    if not yes:
        run_on(sources, lambda bench: bench.require(app))
        click.confirm(f"Remove the app {make_printable(app)!r}?", abort=True, err=True)
    _remove(sources, app)


@apps.command(hidden=True)
@click.argument("app", shell_complete=complete_apps)
@configured
def delete(sources: ConfigSources, app: str) -> None:
    """Remove a stored app without confirmation: the old name of `docgraph apps remove --yes`."""
    _remove(sources, app)


def _remove(sources: ConfigSources, app: str) -> None:
    from docgraph.cli.acl.opening import Closing

    prepared = prepare_sources(sources)

    async def remove(bench: Definitions) -> None:
        document = await bench.require(app)
        await bench.write(Write(WriteKind.DELETE, filter={"_id": document["_id"]}))
        notice(f"removed {app!r}")
        await Closing.of(prepared, bench.app).close([document])
        await bench.print_served()
        if bench.settings.history_versions:
            name = make_printable(shlex.quote(str(document["_id"])))
            notice(f"to restore it: `docgraph apps history {name}`, then `apps rollback`")

    run_on(sources, remove)


def _reject_errors(checked: list[Checked]) -> None:
    from docgraph.cli.apps.definitions import report

    report(checked, as_json=False)
    if any(app.errors for app in checked):
        raise StartupError("nothing was stored", hint="fix the definitions named above")


def _reject_collisions(changes: Sequence[Change], *, prune: bool) -> None:
    from docgraph.cli.apps.definitions import find_collisions

    for app, other in find_collisions(changes, prune=prune):
        raise StartupError(
            f"URI collision: {app} would be served where {other} is",
            hint="choose another `_id` or `descriptor.uri`",
        )


def _announce(changes: Sequence[Change], *, prune: bool) -> None:
    for change in changes:
        count = change.breaking
        breaking = f", {count} breaking change{'s' if count > 1 else ''}" if count else ""
        if change.after:
            notice(f"would store {change.app} ({change.kind}{breaking})")
        elif prune:
            notice(f"would delete {change.app}")
    notice("nothing was stored: this was a dry run")


def _summarise(document: Document, bench: Definitions) -> dict[str, Any]:
    from docgraph.graphql.definition.check import check_definition
    from docgraph.graphql.definition.definition import decode_definition

    definition = decode_definition(document)
    report = check_definition(definition, settings=bench.settings, policy=bench.app.store.policy)
    return {
        "app": str(definition.id),
        "uri": f"/{definition.uri}",
        "enabled": definition.enabled,
        "valid": not report.errors,
        "warnings": len(report.warnings),
        "description": definition.description,
    }
