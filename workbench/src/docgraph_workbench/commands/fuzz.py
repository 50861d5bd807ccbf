"""`docgraph access fuzz`: search for leaks of data that is hidden from a role."""

from __future__ import annotations

import secrets
import sys
from asyncio import CancelledError
from typing import TYPE_CHECKING, ClassVar, Final

import click

from docgraph import StartupError
from docgraph.tools.commands import (
    ConfigSources,
    complete_apps,
    configured,
    make_printable,
    notice,
    paint,
    prepare_sources,
    print_json,
)

if TYPE_CHECKING:
    from docgraph.tools.installation import ExplainedRequest
    from docgraph_workbench.leak_check.leaks import LeakReport
    from docgraph_workbench.leak_check.search import SearchBudget

_OPERATIONS: Final = 1000
_LIMITS: Final = (
    "A search, not a proof. Not tried: WebSockets (events are those of SSE), /_tools, the services "
    "of plugins, other apps, several callers at a time, and how long answers take."
)


class _Undone(StartupError):
    """The check could not be run, which says nothing about leaks."""

    exit_code: ClassVar[int] = 2


@click.command()
@click.argument("app", shell_complete=complete_apps)
@click.option("--role", "roles", multiple=True, help="Run as a caller with this role.")
@click.option("--anonymous", is_flag=True, help="Run as an unauthenticated caller.")
@click.option("--user", help="Run as this user, with the roles and properties of the account.")
@click.option("--operations", type=click.IntRange(1), help="How many; 1000 by default.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="How long, instead.")
@click.option("--seed", type=int, help="Repeat the run with this seed.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def fuzz(  # noqa: PLR0913 - the options
    sources: ConfigSources,
    *,
    app: str,
    roles: tuple[str, ...],
    anonymous: bool,
    user: str | None,
    operations: int | None,
    seconds: float | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Search for leaks of hidden data to a role in the stored APP (its uri).

    Definitions and rules are copied into scratch databases with made-up documents, whose hidden
    fields and filtered rows hold canaries; operations of every door are made up, and what answers
    is looked through. Real documents are neither copied nor changed. Exit code 0: no leak was
    found, 1: one was, 2: it could not be done.
    """
    from docgraph.tools.installation import ExplainedRequest
    from docgraph_workbench.leak_check.search import SearchBudget

    if anonymous == bool(roles or user):
        raise click.UsageError("Say who asks: --role, --user or --anonymous.")
    if operations is None and seconds is None:
        operations = _OPERATIONS
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    question = ExplainedRequest("POST", "/", "", user, roles)
    if not as_json:
        notice(f"seed {seed}")
    findings = _check(sources, app, question, SearchBudget(operations, seconds, seed))
    if as_json:
        print_json({**findings.as_dict(), "limits": _LIMITS})
    else:
        _print(findings)
    if findings.shows_nothing:
        raise _Undone(
            "no door answered this caller, so that this shows nothing",
            hint="read the notes; 'docgraph access explain' shows which rule is missing",
        )
    sys.exit(1 if findings.leaks else 0)


def _check(
    sources: ConfigSources, app: str, question: ExplainedRequest, bounds: SearchBudget
) -> LeakReport:
    from docgraph.tools.installation import run_at_database
    from docgraph_workbench.leak_check.search import Task, check_leaks

    shows = sys.stderr.isatty()

    def show_progress(count: int, leaks: int) -> None:
        """Print one line on a terminal, which the next one replaces."""
        if shows:
            click.echo(f"\r\x1b[K{count} operations, {leaks} leaks …", nl=False, err=True)

    try:
        prepared = prepare_sources(sources)
        task = Task(sources, prepared, app, question, bounds, show_progress)
        return run_at_database(
            prepared,
            lambda address: check_leaks(task, address),
        )
    except (KeyboardInterrupt, CancelledError):
        raise _Undone("ended before it was done; the scratch databases are dropped") from None
    except StartupError as error:
        if error.exit_code == _Undone.exit_code:
            raise
        raise _Undone(error.message, hint=error.hint) from error
    finally:
        if shows:
            click.echo("\r\x1b[K", nl=False, err=True)


def _print(findings: LeakReport) -> None:
    click.echo(make_printable(f"app {findings.app} as {findings.caller}"))
    click.echo(f"hidden, with {findings.canaries} canaries:")
    for hidden in findings.hidden or ["nothing"]:
        click.echo(make_printable(f"  {hidden}"))
    tried = (
        f"{door} {count} ({findings.answered.get(door, 0)} answered)"
        for door, count in findings.tried.items()
    )
    click.echo(f"tried: {', '.join(tried)}")
    for note in findings.notes:
        click.echo(make_printable(f"note: {note}"))
    click.echo(_LIMITS)
    if findings.shows_nothing:
        return
    count = len(findings.leaks)
    word = "no leak was found" if not count else f"{count} leak{'s' if count > 1 else ''} found"
    click.echo(paint(word, "red" if count else "green"))
    for number, leak in enumerate(findings.leaks, 1):
        click.echo(make_printable(f"{number}. {leak.describe()}"))
        click.echo(make_printable(f"   {leak.operation.describe()}"))
        click.echo(make_printable(f"   what to do: {leak.advice}"))
