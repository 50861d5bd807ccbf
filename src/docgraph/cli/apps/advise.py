"""`docgraph apps advise`: missing indexes, mismatching data and other advice on apps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import click

from docgraph.cli.apps.stored import Definitions, run_on
from docgraph.cli.options import configured
from docgraph.cli.terminal import make_printable, notice, progress
from docgraph.exchange import StartupError

if TYPE_CHECKING:
    from docgraph.config import ConfigSources
    from docgraph.workbench.advise.advice import AdviceReport, NewIndex

_MAX_SAMPLED = 10_000


class NoAdvice(StartupError):
    """The database, or a named app, could not be inspected."""

    exit_code: ClassVar[int] = 2


@click.command()
@click.argument("apps", nargs=-1)
@click.option(
    "--sample",
    type=click.IntRange(1, _MAX_SAMPLED),
    default=1000,
    show_default=True,
    help="Documents of each collection to inspect.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Create the indexes, after asking.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def advise(
    sources: ConfigSources,
    *,
    apps: tuple[str, ...],
    sample: int,
    is_applied: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Give advice on the stored APPS; by default on all of them.

    Which indexes are missing, by the database's own plans, and which no app uses; data that are not
    as declared; definitions that allow too much. Nothing is written, unless --apply creates the
    indexes. Exit code 1 when something is more than a note, 2 when it could not be done.
    """
    if yes and not is_applied:
        raise click.UsageError("--yes goes with --apply")
    report = _run(sources, lambda bench: _run_advice(bench, apps, sample))
    created: list[NewIndex] = []
    if not as_json:
        _print(report)
    if is_applied:
        created = _create(sources, report, yes=yes)
    elif report.indexes and not as_json:
        notice(f"`docgraph apps advise {' '.join(apps)}".rstrip() + " --apply` creates them")
    if as_json:
        _print_json(report, created if is_applied else None)
    sys.exit(1 if _is_left(report, created) else 0)


def _run(sources: ConfigSources, work: Any) -> Any:
    try:
        return run_on(sources, work)
    except StartupError as error:
        if error.exit_code == NoAdvice.exit_code:
            raise
        raise NoAdvice(error.message, hint=error.hint) from error


async def _run_advice(bench: Definitions, names: tuple[str, ...], sample: int) -> AdviceReport:
    from docgraph.cli.apps.advising import find_advice

    if names:
        documents = [await bench.require(name) for name in dict.fromkeys(names)]
    else:
        documents = await bench.read_all()
    return await find_advice(bench, documents, sample=sample, is_all=not names)


def _print(report: AdviceReport) -> None:
    from docgraph.cli.apps.advising import print_report

    if not report.apps and not report.advice:
        notice("no apps are stored")
    else:
        print_report(report)


def _print_json(report: AdviceReport, created: Sequence[NewIndex] | None) -> None:
    import orjson

    content = report.as_dict()
    if created is not None:
        content["created"] = [one.command for one in created]
    click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())


def _create(sources: ConfigSources, report: AdviceReport, *, yes: bool) -> list[NewIndex]:
    chosen = []
    for one in report.indexes:
        question = f"create {make_printable(one.command)}?"
        if yes or click.confirm(question, default=False, err=True):
            chosen.append(one)
    if chosen:
        _run(sources, lambda bench: _create_all(bench, chosen))
    elif report.indexes:
        notice("nothing was created")
    else:
        notice("there is no index to create")
    return chosen


async def _create_all(bench: Definitions, chosen: Sequence[NewIndex]) -> None:
    from docgraph.exchange import Exchange, Request
    from docgraph.store.administration import Administration

    administration = Administration(bench.app.store)
    exchange = Exchange(Request("POST", b"/"), "advise")
    for one in chosen:
        name = "_".join(f"{path}_{direction}" for path, direction in one.keys)
        shown = make_printable(f"the index {name} of {one.db}.{one.collection}")
        with progress(f"creating {shown}"):
            await administration.create_index(
                one.db, one.collection, name, dict(one.keys), {}, exchange=exchange
            )
        notice(f"created {shown}")


def _is_left(report: AdviceReport, created: Sequence[NewIndex]) -> bool:
    """Return whether something serious is left that no created index fixes."""
    mended = {one.command for one in created}
    return any(
        one.is_serious and not set(one.extra.get("createIndex", [""])) <= mended
        for one in report.advice
    )
