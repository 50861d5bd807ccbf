"""`docgraph migrate`: migration of a RESTHeart installation to docgraph."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from docgraph.cli.migrate.convert import Conversion, Fate, Remark
from docgraph.cli.migrate.restheart_config import load_restheart
from docgraph.cli.terminal import notice, print_table
from docgraph.config import ConfigSources
from docgraph.config.section import Section
from docgraph.exchange import StartupError

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def migrate() -> None:
    """Move an installation of another server to docgraph."""


@migrate.command()
@click.argument("config", type=_FILE)
@click.option("-o", "--override", type=_FILE, help="The override file of RESTHeart (-o, RHO_FILE).")
@click.option("--env", "with_environment", is_flag=True, help="Also read the variable RHO.")
@click.option("--db", help="Use this database for documents, apps, users and rules.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("docgraph.yml"),
    show_default=True,
    help="The file to write; it must not exist.",
)
@click.option("--offline", is_flag=True, help="Do not read the database.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def restheart(  # noqa: PLR0913, PLR0917 - the options of the command
    config: Path,
    override: Path | None,
    with_environment: bool,
    db: str | None,
    output: Path,
    offline: bool,
    as_json: bool,
) -> None:
    """Convert CONFIG, a configuration file of RESTHeart 8 or 9, to one of docgraph.

    Then read the database, without writing to it, and find what would behave differently. The
    report says what is taken over, what changes in meaning and what is not supported. Exit code 1:
    callers would see more than before.
    """
    from docgraph.cli.migrate.survey import check_file_rules

    environment = os.environ.get("RHO") if with_environment else None
    found = load_restheart(config, override, environment)
    conversion = Conversion(found, config.parent, _find_sections())
    conversion.run()
    if db is not None:
        conversion.move_to(db)
    write_private(output, conversion.render())
    rules = conversion.sections.get("fileAclAuthorizer", {}).get("permissions", ())
    remarks = check_file_rules(rules)
    try:
        if not offline:
            remarks += _survey(output)
    finally:  # also when the database cannot be read: then nothing needs what opens more
        if not offline:
            conversion.drop_unneeded({one.needs for one in remarks})
            output.unlink()
            write_private(output, conversion.render())
        remarks = [*conversion.remarks, *remarks]
        _print_report(remarks, as_json=as_json)
    notice(f"{config} is of version {found.version}; its defaults apply where nothing is set")
    notice(f"{output} is written; try it with `docgraph config check {output}`")
    sys.exit(1 if any(one.shows_more for one in remarks) else 0)


def _find_sections() -> Mapping[str, type[Section]]:
    from docgraph.server.prepare import find_plugins, load_tree, sections_of

    return sections_of(find_plugins(load_tree(ConfigSources(environ={}))))


def _survey(file: Path) -> list[Remark]:
    """Return the differences found in the database of the written configuration."""
    from docgraph.cli.application import work_on
    from docgraph.cli.migrate.survey import StoredSurvey
    from docgraph.rest.sections import Mongo
    from docgraph.server.prepare import load_tree, prepare

    prepared = prepare(load_tree(ConfigSources(file=file, environ={})))
    mounts = prepared.config.get(Mongo).mongo_mounts
    databases = sorted({one.what.strip("/").split("/")[0] for one in mounts})
    return work_on(prepared, lambda app: StoredSurvey(app).run(databases))


def write_private(file: Path, text: str) -> None:
    """Write a new file that only its owner can read: it may contain secrets."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        hint = "name another one with --output, or move this one away"
        raise StartupError(f"the file {file} exists already", hint=hint) from None
    except OSError as error:
        raise StartupError(f"the file {file} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(text)


def _print_report(remarks: Sequence[Remark], *, as_json: bool) -> None:
    order = list(Fate)
    rows = [
        {
            "result": one.fate.value,
            "where": one.where,
            "remark": one.text,
            "shows more": one.shows_more,
        }
        for one in sorted(remarks, key=lambda one: order.index(one.fate))
    ]
    print_table(rows, as_json=as_json)
