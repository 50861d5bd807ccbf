"""`docgraph migrate`: migration of a RESTHeart installation to docgraph."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from docgraph import StartupError
from docgraph.tools.commands import notice
from docgraph.tools.configuration import check_file, find_sections
from docgraph_migrate.convert import Conversion
from docgraph_migrate.corrections import check_new_file
from docgraph_migrate.report import (
    Remark,
    check_accepted,
    explain_open,
    find_open,
    print_report,
)
from docgraph_migrate.restheart_config import load_restheart
from docgraph_migrate.steps import run_conversion

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_NOT_ACCEPTED: Final = 3  # the exit code


@click.group()
def migrate() -> None:
    """Move an installation of another server to docgraph."""


@migrate.command()
@click.argument("config", type=_FILE, required=False)
@click.option(
    "-o",
    "--override",
    "overrides",
    type=_FILE,
    multiple=True,
    help="An override file of RESTHeart (-o, RHO_FILE); without CONFIG its default file applies.",
)
@click.option("--env", "with_environment", is_flag=True, help="Also read the variable RHO.")
@click.option(
    "--from-version",
    type=click.Choice(["8", "9"]),
    help="The version of RESTHeart; by default it is derived from the sections.",
)
@click.option("--db", help="Use this database for documents, apps, users and rules.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("docgraph.yml"),
    show_default=True,
    help="The file to write; it must not exist.",
)
@click.option(
    "--config",
    "corrected",
    type=_FILE,
    help="Write nothing, and compare the database with this docgraph.yml, which you corrected.",
)
@click.option(
    "--accept", "accepted", multiple=True, metavar="ID", help="Accept a line of the first list."
)
@click.option("--offline", is_flag=True, help="Do not read the database.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def restheart(  # noqa: PLR0913, PLR0917 - the options of the command
    config: Path | None,
    overrides: tuple[Path, ...],
    with_environment: bool,
    from_version: str | None,
    db: str | None,
    output: Path,
    corrected: Path | None,
    accepted: tuple[str, ...],
    offline: bool,
    as_json: bool,
) -> None:
    """Convert CONFIG, a configuration file of RESTHeart 8 or 9, to one of docgraph.

    Then read the database, without writing to it, and find what would behave differently. The
    report has three lists: less is protected than before, more is refused than before, answers
    differ. Exit code 3: a line of the first list is not accepted.
    """
    environment = os.environ.get("RHO") if with_environment else None
    if config is None and not overrides and not environment:
        raise click.UsageError("give CONFIG, or an override file with -o")
    version = int(from_version) if from_version else None
    loaded = load_restheart(config, overrides, environment, version)
    directory = config.parent if config is not None else Path()
    conversion = Conversion(loaded, directory, find_sections())
    remarks = _convert(conversion, db, corrected)
    if corrected is None:
        _require_free(output)
    try:
        if not offline:
            remarks += _survey(conversion, corrected)
    finally:  # also when the database cannot be read: then nothing needs what opens more
        if not offline:
            conversion.drop_unneeded({remark.needs for remark in remarks})
        if corrected is None:
            write_private(output, conversion.render())
        print_report(remarks, accepted, as_json=as_json)
    notice(f"{loaded.name} is of version {loaded.version}; its defaults apply where nothing is set")
    notice(f"{output} is written" if corrected is None else f"{corrected} works")
    check_accepted(remarks, accepted)
    if left := find_open(remarks, accepted):
        explain_open(left)
        sys.exit(_NOT_ACCEPTED)


def _convert(conversion: Conversion, db: str | None, corrected: Path | None) -> list[Remark]:
    """Convert and check the result; return the lines about the configuration.

    The rules are those of the corrected file, if there is one.
    """
    from docgraph.tools.stored import list_file_rules
    from docgraph_migrate.survey import check_file_rules

    run_conversion(conversion)
    if db is not None:
        conversion.move_to(db)
    survey = check_file_rules(conversion.list_file_rules())
    conversion.drop_rules(survey.unreadable)
    conversion.drop_disabled()
    check_new_file(conversion)
    if corrected is not None:
        survey = check_file_rules(list_file_rules(check_file(corrected)))
    return [*conversion.remarks, *survey.remarks]


def _survey(conversion: Conversion, corrected: Path | None) -> list[Remark]:
    """Return the differences found in the database of the new configuration."""
    from docgraph.tools.stored import list_mounted_databases, work_on
    from docgraph_migrate.survey import StoredSurvey

    with TemporaryDirectory() as directory:
        file = corrected or Path(directory, "docgraph.yml")
        if corrected is None:
            write_private(file, conversion.render())
        prepared = check_file(file)
        databases = list_mounted_databases(prepared)
        return work_on(prepared, lambda app: StoredSurvey(app).run(databases))


def _require_free(file: Path) -> None:
    if file.exists():
        hint = "name another one with --output, or compare it with --config"
        raise StartupError(f"the file {file} exists already", hint=hint)


def write_private(file: Path, text: str) -> None:
    """Write a new file that only its owner can read: it may contain secrets."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        hint = "name another one with --output, or compare it with --config"
        raise StartupError(f"the file {file} exists already", hint=hint) from None
    except OSError as error:
        raise StartupError(f"the file {file} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(text)
