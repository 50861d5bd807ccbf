"""`docgraph apps advise`: missing indexes, mismatching data and other advice on apps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

from docgraph import DocgraphError, Document, StartupError
from docgraph.tools.commands import (
    Definitions,
    configured,
    make_printable,
    notice,
    paint,
    print_json,
    progress,
    run_on,
)
from docgraph_workbench.commands.progress_line import ProgressLine

if TYPE_CHECKING:
    from docgraph.tools.apps import App
    from docgraph.tools.commands import ConfigSources
    from docgraph.tools.data import RowFilter
    from docgraph_workbench.advise.advice import Advice, AdviceReport, NewIndex

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
    if not as_json and not report.apps and not report.advice:
        notice("no apps are stored")
    elif not as_json:
        print_report(report)
    if is_applied:
        created = _create(sources, report, yes=yes)
    elif report.indexes and not as_json:
        notice(f"`docgraph apps advise {' '.join(apps)}".rstrip() + " --apply` creates them")
    if as_json:
        made = {"created": [index.command for index in created]} if is_applied else {}
        print_json(report.as_dict() | made)
    sys.exit(1 if _is_left(report, created) else 0)


def _run(sources: ConfigSources, work: Any) -> Any:
    try:
        return run_on(sources, work)
    except StartupError as error:
        if error.exit_code == NoAdvice.exit_code:
            raise
        raise NoAdvice(error.message, hint=error.hint) from error


async def _run_advice(bench: Definitions, names: tuple[str, ...], sample: int) -> AdviceReport:
    if names:
        documents = [await bench.require(name) for name in dict.fromkeys(names)]
    else:
        documents = await bench.read_all()
    return await find_advice(bench, documents, sample=sample, is_all=not names)


def _create(sources: ConfigSources, report: AdviceReport, *, yes: bool) -> list[NewIndex]:
    chosen = []
    for index in report.indexes:
        question = f"create {make_printable(index.command)}?"
        if yes or click.confirm(question, default=False, err=True):
            chosen.append(index)
    if chosen:
        _run(sources, lambda bench: _create_all(bench, chosen))
    elif report.indexes:
        notice("nothing was created")
    else:
        notice("there is no index to create")
    return chosen


async def _create_all(bench: Definitions, chosen: Sequence[NewIndex]) -> None:
    from docgraph.tools.data import create_index

    for index in chosen:
        name = "_".join(f"{path}_{direction}" for path, direction in index.keys)
        shown = make_printable(f"the index {name} of {index.db}.{index.collection}")
        with progress(f"creating {shown}"):
            await create_index(bench.app, (index.db, index.collection), name, dict(index.keys))
        notice(f"created {shown}")


def _is_left(report: AdviceReport, created: Sequence[NewIndex]) -> bool:
    """Return whether a serious finding remains that no created index fixes."""
    mended = {index.command for index in created}
    return any(
        finding.is_serious and not set(finding.extra.get("createIndex", [""])) <= mended
        for finding in report.advice
    )


Colour = Literal["red", "yellow", "bright_black"]
_COLOURS: Mapping[str, Colour] = {"error": "red", "warning": "yellow", "note": "bright_black"}
_QUICK_SAMPLE = 100
_QUICK_APPS = 20
_QUICK_SECONDS = 5.0
_MAX_PLACES = 5


async def find_advice(
    bench: Definitions,
    documents: Iterable[Document],
    *,
    sample: int = 1000,
    seconds: float = 45.0,
    is_all: bool = False,
) -> AdviceReport:
    """Return advice on these definitions; invalid ones are errors."""
    from docgraph_workbench.advise.advise import AdviceScope, advise

    apps, broken = await asyncio.to_thread(_compile, bench, list(documents))
    line = ProgressLine()
    scope = AdviceScope(
        sample,
        seconds,
        is_all=is_all and not broken,
        is_open=lambda app: _is_open(bench, app),
        on_progress=line.show_reading,
        run=asyncio.to_thread,  # the driver has work to do meanwhile
        rows=await _find_rows(bench, apps),
    )
    try:
        report = await advise(bench.app.store, bench.settings, apps, scope)
    finally:
        line.end()
    report.advice += broken
    return report


async def _find_rows(bench: Definitions, apps: Iterable[App]) -> list[RowFilter]:
    """Return the row filters of rules on the collections of the apps."""
    from docgraph.tools.installation import find_row_filters
    from docgraph_workbench.advise.advise import find_places

    places = {place for app in apps for place in find_places(app)}
    return await find_row_filters(bench.app, sorted(places))


def _compile(bench: Definitions, documents: Iterable[Document]) -> tuple[list[App], list[Advice]]:
    from docgraph.tools.apps import compile_definition
    from docgraph_workbench.advise.advice import advise_broken

    apps, broken = [], []
    for document in documents:
        try:
            apps.append(compile_definition(document, bench.app, bench.settings))
        except DocgraphError as error:
            broken.append(advise_broken(str(document.get("_id")), error))
    return apps, broken


async def _is_open(bench: Definitions, app: App) -> bool | None:
    """Return whether anonymous callers may query the app; None if unknown."""
    from docgraph.tools.installation import ExplainedRequest

    plugins = bench.app.plugins
    try:
        explainer, graphql = plugins.find("accessExplain").explainer, plugins.find("graphql")
    except StartupError:  # it is disabled
        return None
    path = graphql.find_path(app.definition.uri)
    if path is None:
        return None
    explanation = await explainer.explain(ExplainedRequest("POST", path))
    return bool(explanation.is_allowed)


def print_report(report: AdviceReport, told: Collection[str] = ()) -> None:
    """Print every finding with its location and what to do; then the indexes, and the totals.

    Kinds of findings that were already `told` elsewhere are left out.
    """
    from docgraph_workbench.advise.advice import order_advice

    for finding in order_advice([finding for finding in report.advice if finding.kind not in told]):
        place = (
            ": ".join(part for part in (finding.app, finding.where) if part) or finding.collection
        )
        mark = paint(finding.weight.value, _COLOURS[finding.weight])
        click.echo(f"{mark}: {make_printable(place)}\n    {make_printable(finding.what)}")
        if finding.hint:
            click.echo(f"    → {make_printable(finding.hint)}")
    if report.indexes:
        verb = "is" if len(report.indexes) == 1 else "are"
        click.echo(f"\n{_count(len(report.indexes), 'index', 'indexes')} {verb} missing:")
    for index in report.indexes:
        _print_index(index)
    looked = f"{_count(len(report.apps), 'app')}, {_count(report.collections, 'collection')}"
    notice(f"{looked}: {describe_amount(report.advice) or 'nothing to advise'}")


def _print_index(index: NewIndex) -> None:
    click.echo(f"  {make_printable(index.command)}")
    shown = ", ".join(index.serves[:_MAX_PLACES])
    rest = len(index.serves) - _MAX_PLACES
    click.echo(f"    for {make_printable(shown)}{f' and {rest} more' if rest > 0 else ''}")
    for name in index.replaces:
        click.echo(f"    the index {make_printable(name)} is not needed beside it")


def describe_amount(advice: Sequence[Advice]) -> str:
    """Return how many findings there are of each kind; empty for none."""
    counts = [
        _count(sum(1 for finding in advice if finding.weight == weight), weight)
        for weight in _COLOURS
    ]
    return ", ".join(count for count in counts if not count.startswith("0 "))


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


async def print_advice(bench: Definitions, documents: Sequence[Document]) -> None:
    """Print one line if a quick check finds advice; never a reason to fail."""
    if len(documents) > _QUICK_APPS:
        notice(f"advice: `docgraph apps advise` checks the data of more than {_QUICK_APPS} apps")
        return
    try:
        async with asyncio.timeout(2 * _QUICK_SECONDS):
            report = await find_advice(
                bench, documents, sample=_QUICK_SAMPLE, seconds=_QUICK_SECONDS
            )
    except DocgraphError as error:
        notice(f"advice: the data could not be looked at: {error.message}")
        return
    except TimeoutError:
        notice("advice: a quick look was not enough; `docgraph apps advise` takes its time")
        return
    told = ("missing-collection", "not-looked-at")  # already reported by the checks
    serious = [
        finding for finding in report.advice if finding.is_serious and finding.kind not in told
    ]
    if serious:
        names = " ".join(dict.fromkeys(finding.app for finding in serious if finding.app))
        command = f"docgraph apps advise {make_printable(names)}".rstrip()
        notice(f"advice: {describe_amount(serious)}: `{command}` says more")
