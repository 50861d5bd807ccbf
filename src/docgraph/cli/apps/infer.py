"""`docgraph apps infer`: infer a definition from data, print it or write it as files.

Existing files are only added to; nothing in them is changed or removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import ProgressLine, make_printable, notice, print_json
from docgraph.exchange import DocgraphError, Document, StartupError

if TYPE_CHECKING:
    from docgraph.config import ConfigSources, Decoded
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration
    from docgraph.workbench.infer.existing_definition import Existing
    from docgraph.workbench.infer.infer import Inferred

_MAX_SAMPLED = 10_000


@click.command()
@click.argument("collections", nargs=-1)
@click.option("--db", help="The database to inspect; by default that of the apps.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write schema.graphql, mappings.yml and app.yml into DIR, or add to them there.",
)
@click.option("--name", help="The name of the app; that of DIR or of the database without it.")
@click.option(
    "--sample",
    type=click.IntRange(1, _MAX_SAMPLED),
    default=1000,
    show_default=True,
    help="Documents of each collection to inspect.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the definition and notes as JSON.")
@configured
def infer(  # noqa: PLR0913 - the options
    sources: ConfigSources,
    *,
    collections: tuple[str, ...],
    db: str | None,
    out: Path | None,
    name: str | None,
    sample: int,
    as_json: bool,
) -> None:
    """Infer an app from a sample of COLLECTIONS; of all in the database, if none is named.

    Prints what it would write, unless --out names a directory. A definition that is there keeps
    everything that it has, and gets what is new.
    """
    from docgraph.cli.application import work_on
    from docgraph.graphql.sections import Graphql

    prepared = prepare_sources(sources)
    place = db or prepared.config.get(Graphql).db
    existing = None if out is None else _read_existing(out)
    bounds = collections, sample
    found = work_on(prepared, lambda bench: _infer(bench, prepared.config, place, bounds, existing))
    if out is None:
        _print(found, name, place, as_json=as_json)
    else:
        _write(prepared, found, existing, out, (name, place))
    for note in found.notes if not as_json else ():
        notice(f"note: {make_printable(note)}")
    if out is not None:
        notice(f"try it: docgraph apps check {out} && docgraph apps apply {out}")


async def _infer(
    bench: Docgraph,
    config: Decoded,
    db: str,
    bounds: tuple[tuple[str, ...], int],
    existing: Existing | None,
) -> Inferred:
    """Inspect the named collections of the database, or all of them, by samples of a size."""
    from docgraph.access.sections import DbAclAuthorizer
    from docgraph.auth.authenticators.sections import DbRealmAuthenticator
    from docgraph.graphql.sections import Graphql
    from docgraph.workbench.infer.infer import KnownNames, infer
    from docgraph.workbench.infer.survey import SurveyScope
    from docgraph.workbench.toolset import find_own

    names, line = KnownNames(), ProgressLine()
    if existing is not None:
        names = KnownNames(existing.name_collections(db), existing.name_nested())
    users, rules = config.get(DbRealmAuthenticator), config.get(DbAclAuthorizer)
    own = find_own(config.get(Graphql), users, rules, db)
    collections, sample = bounds
    scope = SurveyScope(db, collections or None, sample, own=own, on_progress=line.show_reading)
    try:
        return await infer(bench.store, scope, names)
    finally:
        line.end()


def _print(found: Inferred, name: str | None, db: str, *, as_json: bool) -> None:
    from docgraph.codec import JsonMode, to_json
    from docgraph.config.render import render_block
    from docgraph.workbench.infer.infer import build_app, name_app

    app = build_app(name or name_app(db), db)
    if as_json:
        definition = {**app, "schema": found.schema, "mappings": found.mappings}
        content = {"definition": to_json(definition, JsonMode.STANDARD), "notes": found.notes}
        print_json(content)
        return
    parts = {
        "schema.graphql": found.schema,
        "mappings.yml": found.render_mappings(),
        "app.yml": render_block(app),
    }
    for file, text in parts.items():
        click.echo(f"# --- {file} ---\n{text}")


def _read_existing(directory: Path) -> Existing | None:
    """Return the definition in a directory, if there is one."""
    from docgraph.cli.apps.sources import APP, MAPPINGS, SCHEMA_FILE, SUFFIXES, read_directory
    from docgraph.exchange import StartupError
    from docgraph.workbench.infer.existing_definition import read_existing

    if not (directory / SCHEMA_FILE).is_file():
        parts = (directory / f"{part}{suffix}" for part in (APP, MAPPINGS) for suffix in SUFFIXES)
        if (alone := next((one for one in parts if one.exists()), None)) is not None:
            raise StartupError(
                f"{alone} is there without {SCHEMA_FILE}",
                hint="choose another directory; nothing was changed",
            )
        return None
    found = read_directory(directory)
    if found.flaw is not None:
        raise StartupError(f"{directory}: {found.flaw}", hint="nothing was changed")
    mappings: dict[str, Any] = found.document.get(MAPPINGS) or {}
    if mappings and not any((directory / f"{MAPPINGS}{suffix}").is_file() for suffix in SUFFIXES):
        raise StartupError(
            f"{directory}: the mappings are in the file of the app",
            hint=f"move them to {MAPPINGS}.yml; nothing was changed",
        )
    try:
        return read_existing(found.document["schema"], mappings)
    except DocgraphError as error:
        raise StartupError(f"{directory}: {error.message}", hint="nothing was changed") from error


def _write(
    prepared: LoadedConfiguration,
    found: Inferred,
    existing: Existing | None,
    directory: Path,
    naming: tuple[str | None, str],
) -> None:
    """Write the files, or add to them; nothing is written that could not be applied."""
    from docgraph.cli.apps.sources import write_definition
    from docgraph.workbench.infer.infer import build_app

    if existing is not None:
        found.notes += _add_to_files(prepared, existing, found, directory)
        return
    name, db = naming
    document = build_app(name or directory.resolve().name, db)
    document |= {"schema": found.schema, "mappings": found.mappings}
    _check_whole(prepared, document)
    for file in write_definition(document, directory):
        notice(f"wrote {file}")


def _add_to_files(
    prepared: LoadedConfiguration, existing: Existing, found: Inferred, directory: Path
) -> list[str]:
    """Add new types and fields; return notes on differences from the sample."""
    from docgraph.cli.apps.sources import MAPPINGS, SCHEMA_FILE, find_part, read_directory
    from docgraph.workbench.infer.merge import merge
    from docgraph.workbench.infer.yaml_additions import add_entries, merge_entries

    merged = merge(existing, found.model)
    file = find_part(directory, MAPPINGS)
    text = file.read_bytes().decode() if file.exists() else ""
    mappings = add_entries(text, merged.mappings, file)
    document = read_directory(directory).document
    whole = merge_entries(existing.mappings, merged.mappings)
    _check_whole(prepared, {**document, "schema": merged.schema, MAPPINGS: whole})
    try:
        if merged.schema != existing.schema:
            (directory / SCHEMA_FILE).write_bytes(merged.schema.encode())
            notice(f"added to {directory / SCHEMA_FILE}")
        if mappings != text:
            file.write_bytes(mappings.encode())
            notice(f"added to {file}")
    except OSError as error:
        raise StartupError(f"{error.filename or directory}: {error.strerror}") from error
    for name in merged.added:
        notice(f"new: {make_printable(name)}")
    if not merged.added:
        notice(f"{directory}: nothing is new")
    return merged.notes


def _check_whole(prepared: LoadedConfiguration, document: Document) -> None:
    """Reject a definition that `apps apply` would not accept."""
    from docgraph.cli.apps.definitions import inspect_document
    from docgraph.cli.apps.sources import APP, SCHEMA_FILE

    errors = inspect_document(prepared, document).errors
    if errors:
        raise StartupError(
            f"the definition would not work: {errors[0]}",
            hint=f"nothing was written; check {APP} and {SCHEMA_FILE}",
        )
