"""`docgraph apps infer`: infer a definition from data, print it or write it as files.

Existing files are only added to; nothing in them is changed or removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from docgraph import DocgraphError, Document, StartupError
from docgraph.tools.commands import (
    configured,
    make_printable,
    notice,
    prepare_sources,
    print_json,
)
from docgraph_workbench.commands.progress_line import ProgressLine

if TYPE_CHECKING:
    from docgraph.tools.commands import ConfigSources
    from docgraph.tools.installation import Docgraph, LoadedConfiguration
    from docgraph_workbench.infer.existing_definition import Existing
    from docgraph_workbench.infer.infer import Inferred

_MAX_SAMPLED = 10_000
_SCHEMA = "schema.graphql"


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
    from docgraph.tools.installation import find_own_places, work_on

    prepared = prepare_sources(sources)
    place = db or find_own_places(prepared).apps[0]
    existing = None if out is None else _read_existing(out)
    bounds = collections, sample
    inferred = work_on(prepared, lambda bench: _infer(bench, prepared, place, bounds, existing))
    if out is None:
        _print(inferred, name, place, as_json=as_json)
    else:
        _write(prepared, inferred, existing, out, (name, place))
    for note in inferred.notes if not as_json else ():
        notice(f"note: {make_printable(note)}")
    if out is not None:
        notice(f"try it: docgraph apps check {out} && docgraph apps apply {out}")


async def _infer(
    bench: Docgraph,
    prepared: LoadedConfiguration,
    db: str,
    bounds: tuple[tuple[str, ...], int],
    existing: Existing | None,
) -> Inferred:
    """Inspect the named collections of the database, or all of them, by samples of a size."""
    from docgraph.tools.installation import find_own_places
    from docgraph_workbench.infer.infer import KnownNames, infer
    from docgraph_workbench.infer.survey import SurveyScope

    names, line = KnownNames(), ProgressLine()
    if existing is not None:
        names = KnownNames(existing.name_collections(db), existing.name_nested())
    own_collections = find_own_places(prepared).find_in(db)
    collections, sample = bounds
    scope = SurveyScope(
        db, collections or None, sample, own=own_collections, on_progress=line.show_reading
    )
    try:
        return await infer(bench.store, scope, names)
    finally:
        line.end()


def _print(inferred: Inferred, name: str | None, db: str, *, as_json: bool) -> None:
    from docgraph.tools.data import JsonMode, to_json
    from docgraph.tools.installation import render_block
    from docgraph_workbench.infer.infer import build_app, name_app

    app = build_app(name or name_app(db), db)
    if as_json:
        definition = {**app, "schema": inferred.schema, "mappings": inferred.mappings}
        content = {"definition": to_json(definition, JsonMode.STANDARD), "notes": inferred.notes}
        print_json(content)
        return
    parts = {
        "schema.graphql": inferred.schema,
        "mappings.yml": inferred.render_mappings(),
        "app.yml": render_block(app),
    }
    for file, text in parts.items():
        click.echo(f"# --- {file} ---\n{text}")


def _read_existing(directory: Path) -> Existing | None:
    """Return the definition in a directory, if there is one."""
    from docgraph.tools.installation import read_definition
    from docgraph_workbench.infer.existing_definition import read_existing

    document = read_definition(directory)
    if document is None:
        return None
    try:
        return read_existing(document["schema"], document.get("mappings") or {})
    except DocgraphError as error:
        raise StartupError(f"{directory}: {error.message}", hint="nothing was changed") from error


def _write(
    prepared: LoadedConfiguration,
    inferred: Inferred,
    existing: Existing | None,
    directory: Path,
    naming: tuple[str | None, str],
) -> None:
    """Write the files, or add to them; nothing is written that could not be applied."""
    from docgraph.tools.installation import write_definition
    from docgraph_workbench.infer.infer import build_app

    if existing is not None:
        inferred.notes += _add_to_files(prepared, existing, inferred, directory)
        return
    name, db = naming
    document = build_app(name or directory.resolve().name, db)
    document |= {"schema": inferred.schema, "mappings": inferred.mappings}
    _check_whole(prepared, document)
    for file in write_definition(document, directory):
        notice(f"wrote {file}")


def _add_to_files(
    prepared: LoadedConfiguration, existing: Existing, inferred: Inferred, directory: Path
) -> list[str]:
    """Add new types and fields; return notes on differences from the sample."""
    from docgraph.tools.installation import find_definition_part, read_definition
    from docgraph_workbench.infer.merge import merge
    from docgraph_workbench.infer.yaml_additions import add_entries, merge_entries

    merged = merge(existing, inferred.model)
    file = find_definition_part(directory, "mappings")
    text = file.read_bytes().decode() if file.exists() else ""
    mappings = add_entries(text, merged.mappings, file)
    document = read_definition(directory) or {}
    whole = merge_entries(existing.mappings, merged.mappings)
    _check_whole(prepared, {**document, "schema": merged.schema, "mappings": whole})
    try:
        if merged.schema != existing.schema:
            (directory / _SCHEMA).write_bytes(merged.schema.encode())
            notice(f"added to {directory / _SCHEMA}")
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
    from docgraph.tools.installation import inspect_document

    errors = inspect_document(prepared, document).errors
    if errors:
        raise StartupError(
            f"the definition would not work: {errors[0]}",
            hint=f"nothing was written; check app and {_SCHEMA}",
        )
