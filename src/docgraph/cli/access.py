"""`docgraph access`: why somebody may do something, and who sees which fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import notice, paint, print_table
from docgraph.config import Sources
from docgraph.exchange import Deadline, DocgraphError
from docgraph.graphql.sections import Graphql

if TYPE_CHECKING:
    from docgraph.access.explain import Answer, Explanation
    from docgraph.graphql.apps.app import App
    from docgraph.server.app import Docgraph

__all__ = ["access"]

_T = TypeVar("_T")
_MAX_APPS = 100_000
_LIMIT_MS = 30_000
_NOBODY = "(nobody)"  # an unknown caller, or one without roles that matter


@click.group()
def access() -> None:
    """Explain what callers may do and see."""


@access.command()
@click.option("--user", help="Ask as this user; without it, as somebody unknown.")
@click.option("--role", "roles", multiple=True, help="Ask as somebody with this role, too.")
@click.option("--method", default="GET", show_default=True, help="The method of the request.")
@click.option("--path", required=True, help="The path of the request.")
@click.option("--query", default="", help="The query string of the request.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def explain(  # noqa: PLR0913 - the parts of a request
    sources: Sources,
    *,
    user: str | None,
    roles: tuple[str, ...],
    method: str,
    path: str,
    query: str,
    as_json: bool,
) -> None:
    """Print what every authorizer says to a request, the rule that decides, and its filters."""
    from docgraph.access.explain import Question
    from docgraph.codec import JsonMode, encode

    question = Question(method.upper(), path, query, user, roles)

    async def ask(app: Docgraph) -> Explanation:
        explanation: Explanation = await app.plugins.find("accessExplain").explainer.explain(
            question
        )
        return explanation

    explanation = _run(sources, ask)
    if as_json:
        click.echo(encode(explanation.to_document(), JsonMode.STANDARD).decode())
    else:
        for line in _render(explanation):
            click.echo(line)


@access.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def matrix(sources: Sources, as_json: bool) -> None:
    """Print which roles see which fields of which apps (`@visible`)."""

    async def look(app: Docgraph) -> list[dict[str, Any]]:
        settings = app.plugins.values["configuration"]["graphql"]
        rows = [row async for one in _apps(app, settings) for row in _cross(one)]
        return _complete(rows)

    print_table(_run(sources, look), as_json=as_json, if_empty="no apps are stored")


async def _apps(app: Docgraph, settings: Graphql) -> Any:
    """Every app that can be served."""
    apps = app.plugins.values["gql-app-definition-cache"]
    documents = await app.store.find(
        settings.db,
        settings.collection,
        {},
        projection={"_id": 1},
        sort=[("_id", 1)],
        limit=_MAX_APPS,
        deadline=Deadline.after_ms(_LIMIT_MS),
    )
    for document in documents:
        try:
            yield await apps.get(document["_id"])
        except DocgraphError as error:
            notice(f"{document['_id']}: {error.message}")


def _cross(app: App) -> Iterator[dict[str, Any]]:
    """A row per field: what nobody in particular sees, and what each role adds."""
    roles = [_NOBODY, *sorted(app.visibility.all_roles)]
    seen = {role: set(_fields(app.visible_to([role]).schema)) for role in roles}
    for type_name, field in _fields(app.schema):
        row: dict[str, Any] = {"app": str(app.definition.id), "field": f"{type_name}.{field}"}
        yield row | {role: (type_name, field) in seen[role] for role in roles}


def _fields(schema: Any) -> Iterator[tuple[str, str]]:
    """Type and field of every type that the author has written."""
    for name, type_ in sorted(schema.type_map.items()):
        if type_.ast_node is not None and type_.ast_node.kind.endswith("object_type_definition"):
            yield from ((name, field) for field in type_.fields)


def _complete(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every row with a column for every role; a role that an app does not name adds nothing."""
    roles = dict.fromkeys(key for row in rows for key in row if key not in ("app", "field"))
    return [
        {"app": row["app"], "field": row["field"]}
        | {role: row.get(role, row[_NOBODY]) for role in roles}
        for row in rows
    ]


def _render(explanation: Explanation) -> Iterator[str]:
    question, caller = explanation.question, explanation.caller
    who = (
        f"{caller.name} (roles: {', '.join(caller.roles) or 'none'})"
        if caller
        else "an unknown caller"
    )
    is_allowed = explanation.status == 200  # noqa: PLR2004
    word = "ALLOWED" if is_allowed else f"DENIED ({explanation.status})"
    word = paint(word, "green" if is_allowed else "red")
    query = f"?{question.query}" if question.query else ""
    yield f"{word}: {question.method} {question.path}{query} by {who}"
    yield f"  {explanation.reason}"
    yield from _render_answers("vetoers", explanation.vetoers, "passes", "DENIES")
    yield from _render_answers("allowers", explanation.allowers, "APPROVES", "does not")
    if explanation.rules:
        yield "rules of this caller, in the order they are looked at"
    for rule in explanation.rules:
        priority = "no priority" if rule.priority is None else f"priority {rule.priority:g}"
        yield f"  {rule.rule}, {priority}, roles {', '.join(rule.roles)}: {rule.outcome}"
        yield f"    {rule.predicate}"
    yield from _render_conditions(explanation)
    for note in explanation.notes:
        yield f"note: {note}"


def _render_answers(title: str, answers: Iterable[Answer], yes: str, no: str) -> Iterator[str]:
    yield title
    for one in answers:
        yield f"  {one.authorizer}: {yes if one.allowed else no}: {one.reason}"


def _render_conditions(explanation: Explanation) -> Iterator[str]:
    from docgraph.codec import JsonMode, encode

    conditions = explanation.to_document()["conditions"]
    if conditions:
        yield "conditions"
    for name, value in conditions.items():
        yield f"  {name}: {encode(value, JsonMode.STANDARD).decode()}"


def _run(sources: Sources, work: Callable[[Docgraph], Awaitable[_T]]) -> _T:
    """Do something with the plugins and the database of the configuration."""
    from docgraph.cli.workbench import work_on

    return work_on(prepare_sources(sources), work)
