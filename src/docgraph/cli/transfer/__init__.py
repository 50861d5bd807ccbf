"""`docgraph export` and `docgraph import`: everything docgraph stores besides your data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import make_printable, notice, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import StartupError

if TYPE_CHECKING:
    from docgraph.cli.transfer.files import Directory
    from docgraph.cli.transfer.flaws import Flaws, ReadParts
    from docgraph.cli.transfer.mover import ImportChanges, ImportFlaw, Mover
    from docgraph.cli.transfer.parts import Part
    from docgraph.exchange import Document

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("directory", type=_DIRECTORY)
@click.option("--yes", is_flag=True, help="Overwrite a previous export without confirmation.")
@click.option(
    "--db",
    "databases",
    multiple=True,
    help="Properties and schemas of this database only; repeatable.",
)
@configured
def export(sources: ConfigSources, directory: Path, yes: bool, databases: tuple[str, ...]) -> None:
    """Write apps, users, rules, properties and JSON schemas into files of a DIRECTORY.

    That is everything that docgraph stores in the database, besides your data. `docgraph import`
    stores it in another database. Users include the hashes of their passwords.
    """
    from docgraph.cli.application import work_on
    from docgraph.cli.transfer.files import ODD_APPS, Directory
    from docgraph.cli.transfer.mover import Mover
    from docgraph.codec import name_id

    target = Directory(directory)
    if not target.is_free:
        if not target.is_export:
            raise StartupError(f"{directory} holds something else", hint="name another directory")
        if not yes:
            click.confirm(f"Write over the export in {directory}?", abort=True, err=True)
    prepared = prepare_sources(sources)

    apps, *parts = work_on(prepared, lambda app: _collect(Mover(app, prepared), databases))
    with target.rewrite() as writer:
        for app in apps[1]:
            if not writer.write_app(app):
                name = make_printable(name_id(app["_id"]))
                notice(f"app {name}: files of its own cannot hold it: it is in {ODD_APPS}")
        for part, documents in parts:
            if documents:
                writer.write_documents(part.file, documents)
    rows = [
        {"part": part.name, "documents": len(documents)}
        for part, documents in (apps, *parts)
        if documents
    ]
    print_table(rows, as_json=False, if_empty="there is nothing to export")


async def _collect(mover: Mover, databases: tuple[str, ...]) -> list[tuple[Part, list[Document]]]:
    """Collect everything, apps first; print what could not be imported like this."""
    from docgraph.cli.apps.stored import without_etag
    from docgraph.cli.transfer.flaws import Flaws

    apps = [without_etag(app) for app in await mover.read(mover.apps)]
    parts = [(part, await mover.read(part)) for part in await mover.list_parts(databases)]
    flaws = Flaws(mover)
    collected = [(mover.apps, apps), *parts]
    named = [*await flaws.find_in_apps(apps), *[flaw.text for flaw in await flaws.find(parts)]]
    named += flaws.find_inexact(collected)
    for part in named:
        notice(make_printable(part))
    if named:
        notice("what is named above is exported as it is stored: an import would refuse it")
    return collected


@click.command("import")
@click.argument("directory", type=_DIRECTORY)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Overwrite without confirmation.")
@click.option("--keep", is_flag=True, help="Keep stored documents; add missing ones.")
@click.option("--skip-invalid", is_flag=True, help="Leave out what is invalid; store the rest.")
@configured
def import_(
    sources: ConfigSources,
    directory: Path,
    dry_run: bool,
    yes: bool,
    keep: bool,
    skip_invalid: bool,
) -> None:
    """Store the files that `docgraph export` wrote into a DIRECTORY.

    Overwrites stored documents that differ only after confirmation, or with --yes. Deletes
    nothing. Stores nothing if a part of it cannot work here; --skip-invalid leaves that part out
    and lists it.
    """
    from docgraph.cli.application import work_on
    from docgraph.cli.transfer.files import Directory
    from docgraph.cli.transfer.mover import Mover

    if yes and keep:
        raise click.UsageError("--yes overwrites what --keep leaves: give one of them")
    source = Directory(directory)
    source.check()
    prepared = prepare_sources(sources)

    compared = work_on(prepared, lambda app: _compare(Mover(app, prepared), source, skip_invalid))
    _show(compared)
    differing = sum(len(changes.changed) for changes in compared)
    if dry_run or not any(changes.new or changes.changed for changes in compared):
        return
    overwrite = yes
    if differing and not yes and not keep:
        click.confirm(f"Overwrite {differing} that differ?", abort=True, err=True)
        overwrite = True

    work_on(prepared, lambda app: _store(Mover(app, prepared), compared, overwrite=overwrite))


async def _compare(mover: Mover, source: Directory, skip_invalid: bool) -> list[ImportChanges]:
    """Return the changes of an import; raise if a document would be invalid here."""
    from docgraph.cli.apps.definitions import report
    from docgraph.cli.apps.stored import without_etag
    from docgraph.cli.transfer.flaws import Flaws, leave_out

    for unknown in source.find_unknown():
        notice(make_printable(unknown))
    flaws = Flaws(mover)
    definitions = await flaws.check_apps(source.read_apps())
    invalid = [definition for definition in definitions if definition.errors]
    report(invalid, as_json=False)
    for app in invalid if skip_invalid else ():
        notice(make_printable(f"left out: {app.name}"))
    sound = [
        without_etag(definition.document) for definition in definitions if not definition.errors
    ]
    parts = [(part, source.read_documents(part.file)) for part in mover.list_exported(source)]
    exported = [*parts, (mover.apps, sound)]
    valid: ReadParts = exported
    # What refers to a document that is left out may be invalid, too.
    while named := await _find_flaws(mover, flaws, valid):
        for text in dict.fromkeys(flaw.text for flaw in named):
            notice(make_printable(f"left out: {text}" if skip_invalid else text))
        rest = leave_out(valid, named)
        if not skip_invalid or rest == valid:
            break
        valid = rest
    if named or (invalid and not skip_invalid):
        raise StartupError(
            "nothing was stored",
            hint="fix the errors above, remove these entries from the export, or leave them out "
            "with --skip-invalid",
        )
    compared = [await mover.compare(*part) for part in valid]
    for changes, (_, before), (_, after) in zip(compared, exported, valid, strict=True):
        changes.left_out = len(before) - len(after)
    compared[-1].left_out += len(invalid)
    return compared


async def _find_flaws(mover: Mover, flaws: Flaws, parts: ReadParts) -> list[ImportFlaw]:
    """Return the flaws of all parts; the apps are the last one."""
    collisions = [flaw async for flaw in mover.find_collisions(parts[-1][1])]
    return [*flaws.find_repeated(parts), *await flaws.find(parts), *collisions]


def _show(compared: list[ImportChanges]) -> None:
    has_left_out = any(changes.left_out for changes in compared)
    rows = [
        {
            "part": changes.part.name,
            "new": len(changes.new),
            "differ": len(changes.changed),
            "the same": changes.same,
            **({"left out": changes.left_out} if has_left_out else {}),
        }
        for changes in compared
        if changes.new or changes.changed or changes.same or changes.left_out
    ]
    print_table(rows, as_json=False, if_empty="there is nothing to import")


async def _store(mover: Mover, compared: list[ImportChanges], *, overwrite: bool) -> None:
    """Store everything in the order of the list; definitions last, as `apps apply` does."""
    late = []
    for changes in compared:
        late += await mover.store(changes, overwrite=overwrite)
        if changes.part == mover.apps and (changes.new or (changes.changed and overwrite)):
            await mover.definitions.print_served()
    for name in late:
        notice(
            f"not changed, because another process wrote it in the meantime: {make_printable(name)}"
        )
    if late:
        raise StartupError(
            "not everything was stored", hint="compare with the stored state, and try again"
        )
