"""App history: `docgraph apps history`, `rollback` and `diff --from`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.apps.stored import Definitions, run_on, without_etag
from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured
from docgraph.cli.terminal import notice, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import Document, StartupError, Write, WriteKind

if TYPE_CHECKING:
    from docgraph.graphql.apps.history import Version
    from docgraph.graphql.definition.definition_diff import Change


@click.command()
@click.argument("app", shell_complete=complete_apps)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def history(sources: ConfigSources, app: str, as_json: bool) -> None:
    """List the versions of an app: time, author and changes.

    Also of one that was deleted. `docgraph apps diff APP --from N` shows the lines.
    """

    from docgraph.graphql.apps.version_changes import describe_versions

    async def read(bench: Definitions) -> list[dict[str, Any]]:
        return describe_versions(await _read_versions(bench, app), bench.settings.json_mode)

    rows = run_on(sources, read)
    if not as_json:
        rows = [{**row, "parts": ", ".join(row["parts"])} for row in rows]
    print_table(rows, as_json=as_json, if_empty=f"no versions of {app!r} are kept")


@click.command()
@click.argument("app", shell_complete=complete_apps)
@click.argument("version", type=click.IntRange(1))
@configured
def rollback(sources: ConfigSources, app: str, version: int) -> None:
    """Store an app as it was in a VERSION, which `docgraph apps history` lists.

    It becomes the latest version; a deleted app comes back. It is checked as any definition.
    """
    from docgraph.graphql.apps.app_index import ensure_index

    async def restore(bench: Definitions) -> None:
        former = _choose(await _read_versions(bench, app), app, version)
        if former.is_deletion:
            raise StartupError(
                f"version {version} of {app!r} is its deletion",
                hint="`docgraph apps remove` removes an app",
            )
        definition = _require_text(former)
        stored = await bench.find(former.app)
        if stored is not None and without_etag(stored) == definition:
            notice(f"{former.app!s} is as it was in version {version}")
            return
        await ensure_index(bench.app.store, bench.settings)
        await bench.write(Write(WriteKind.REPLACE, (definition,), upsert=True))
        notice(f"stored {former.app!s} as it was in version {version}")
        await bench.print_served()

    run_on(sources, restore)


async def compare_versions(
    bench: Definitions, app: str, former: int, latter: int | None
) -> list[Change]:
    """Return the changes from one version to another, or to the stored definition."""
    versions = await _read_versions(bench, app)
    version = _choose(versions, app, former)
    before = _read_definition(version)
    if latter is None:
        after = without_etag(await bench.find(version.app) or {})
        label = ""
    else:
        after = _read_definition(_choose(versions, app, latter))
        label = f" (version {latter})"
    return [_compare(bench, version, before, after, (f" (version {former})", label))]


def _compare(
    bench: Definitions,
    version: Version,
    before: Document,
    after: Document,
    labels: tuple[str, str] = ("", ""),
) -> Change:
    from docgraph.cli.apps.definitions import build_deletion
    from docgraph.graphql.definition.definition_diff import Change, ChangeKind, find_change

    if after:
        return find_change(before, after, bench.settings.json_mode, labels)
    if before:
        return build_deletion(before)
    return Change(str(version.app), ChangeKind.SAME, before, after)


async def _read_versions(bench: Definitions, app: str) -> list[Version]:
    """Return the versions of the app with this `_id` or URI; of a deleted one, with this `_id`."""
    from docgraph.graphql.apps.history import History, find_heads
    from docgraph.graphql.apps.stored_definitions import build_key

    kept = History(bench.app.store, bench.settings)
    stored = await bench.find_served(app)
    if stored is not None:
        return await kept.list_of(build_key(stored["_id"]))
    heads = find_heads(await kept.list_all())
    key = next((key for key, head in heads.items() if str(head.app) == app), None)
    if key is None:
        raise StartupError(
            f"there is no app {app!r}, and no version of one",
            hint="`docgraph apps list` lists the stored ones",
        )
    return await kept.list_of(key)


def _choose(versions: Sequence[Version], app: str, number: int) -> Version:
    chosen = next((version for version in versions if version.number == number), None)
    if chosen is None:
        raise StartupError(
            f"there is no version {number} of {app!r}",
            hint="`docgraph apps history` lists those that are kept",
        )
    return chosen


def _read_definition(version: Version) -> Document:
    """Return the definition of a version; empty for a deletion."""
    return {} if version.is_deletion else _require_text(version)


def _require_text(version: Version) -> Document:
    definition = version.definition
    if definition is None:
        raise StartupError(
            f"the definition of version {version.number} is not kept: it was too large",
            hint="graphql.history-size is the bound",
        )
    return definition
