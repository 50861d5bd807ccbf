"""`docgraph access`: why a caller may do something, and who sees which fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.package_commands import PackageGroup
from docgraph.cli.terminal import make_printable, notice, paint, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import Deadline, DocgraphError
from docgraph.graphql.sections import Graphql

if TYPE_CHECKING:
    from docgraph.access.explain_decision import AuthorizerAnswer, Explanation
    from docgraph.access.language.predicate import Failure
    from docgraph.graphql.apps.compiled_app import VisibilityRow
    from docgraph.server.app import Docgraph

_T = TypeVar("_T")
_MAX_APPS = 100_000
_LIMIT_MS = 30_000


@click.group(cls=PackageGroup)
def access() -> None:
    """Explain what callers may do and see."""


@access.command()
@click.option("--user", help="Check for this user; without it, for an unauthenticated caller.")
@click.option(
    "--role", "roles", multiple=True, help="Check for a caller with this role; repeatable."
)
@click.option("--method", default="GET", show_default=True, help="The method of the request.")
@click.option("--path", required=True, help="The path of the request.")
@click.option("--query", default="", help="The query string of the request.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def explain(  # noqa: PLR0913 - the parts of a request
    sources: ConfigSources,
    *,
    user: str | None,
    roles: tuple[str, ...],
    method: str,
    path: str,
    query: str,
    as_json: bool,
) -> None:
    """Print the decision of every authorizer on a request, the deciding rule, and its filters."""
    from docgraph.access.explain_decision import ExplainedRequest
    from docgraph.codec import JsonMode, encode

    question = ExplainedRequest(method.upper(), path, query, user, roles)

    async def explain_request(app: Docgraph) -> Explanation:
        explanation: Explanation = await app.plugins.find("accessExplain").explainer.explain(
            question
        )
        return explanation

    explanation = _run(sources, explain_request)
    if as_json:
        click.echo(encode(explanation.to_document(), JsonMode.STANDARD).decode())
    else:
        click.echo(f"{_render_verdict(explanation)}: {make_printable(_name(explanation))}")
        for line in _render(explanation):
            click.echo(make_printable(line))


@access.command()
@click.option("--user", "users", multiple=True, help="Add a column for a user or a key.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def matrix(sources: ConfigSources, users: tuple[str, ...], as_json: bool) -> None:
    """Print which roles may call which apps, and which fields they see (`@visible`).

    A row such as "POST /graphql/shop" shows who may call the app, by the permissions. The other
    rows show who sees a field or an argument in the schema. A row such as "Person.salary by
    Query.people.find" shows who can compare or order by a field, also without seeing it. The column
    "(everybody)" is for callers without any of the named roles, also unauthenticated ones; with
    --json its name is "(nobody)".
    """
    from docgraph.access.explain_decision import ExplainedRequest
    from docgraph.graphql.apps.compiled_app import ANONYMOUS, cross

    async def load_rules(app: Docgraph) -> list[dict[str, Any]]:
        settings = app.plugins.values["configuration"]["graphql"]
        apps = [compiled async for compiled in _apps(app, settings)]
        rows = [(str(compiled.definition.id), row) for compiled in apps for row in cross(compiled)]
        paths = {
            str(compiled.definition.id): f"{settings.uri}/{compiled.definition.uri}"
            for compiled in apps
        }
        roles = {role for compiled in apps for role in compiled.visibility.all_roles}
        roles |= await _find_callers(app, paths.values())
        table = await _add_calls(app, paths, list(_complete(rows, sorted(roles))))
        for user in users:  # what any of their roles may do
            question = ExplainedRequest("GET", "/", user=user)
            caller = await app.plugins.find("accessExplain").explainer.find_caller(question)
            for row in table:
                row[user] = any(row.get(role) for role in (ANONYMOUS, *caller.roles))
        return table

    rows = _run(sources, load_rules)
    if not as_json:
        named = {ANONYMOUS: "(everybody)"}
        rows = [{named.get(key, key): value for key, value in row.items()} for row in rows]
    print_table(rows, as_json=as_json, if_empty="no apps are stored")


async def _apps(app: Docgraph, settings: Graphql) -> Any:
    apps = app.plugins.values["gql-app-definition-cache"]
    documents = await app.store.reads.find(
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
            notice(make_printable(f"{document['_id']}: {error.message}"))


async def _find_callers(app: Docgraph, paths: Iterable[str]) -> set[str]:
    """Return the roles that have a rule for one of the paths, and the root role."""
    explainer, root = app.plugins.find("accessExplain").explainer, app.plugins.values["root-role"]
    roles = {role for path in paths for role in await explainer.find_roles("POST", path)}
    return roles if root is None else {*roles, root}


async def _add_calls(
    app: Docgraph, paths: dict[str, str], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Put a row in front of the fields of each app: who may call it."""
    from docgraph.access.explain_decision import ExplainedRequest
    from docgraph.graphql.apps.compiled_app import ANONYMOUS

    explainer = app.plugins.find("accessExplain").explainer
    roles = [name for name in (rows[0] if rows else ()) if name not in ("app", "field")]
    added = []
    for name, path in paths.items():
        calls: dict[str, Any] = {"app": name, "field": f"POST {path}"}
        for role in roles:
            held = () if role == ANONYMOUS else (role,)
            explanation = await explainer.explain(ExplainedRequest("POST", path, roles=held))
            calls[role] = explanation.is_allowed
        added += [calls, *(row for row in rows if row["app"] == name)]
    return added


def _complete(rows: list[tuple[str, VisibilityRow]], roles: list[str]) -> Iterator[dict[str, Any]]:
    """Yield every row with a column per role; a role that an app does not name adds nothing."""
    from docgraph.graphql.apps.compiled_app import ANONYMOUS

    for app, row in rows:
        columns = (ANONYMOUS, *roles)
        seen = {role: row.seen_by.get(role, row.seen_by[ANONYMOUS]) for role in columns}
        yield {"app": app, "field": row.label} | seen


def _render_verdict(explanation: Explanation) -> str:
    word = "ALLOWED" if explanation.is_allowed else f"DENIED ({explanation.status})"
    return paint(word, "green" if explanation.is_allowed else "red")


def _name(explanation: Explanation) -> str:
    question, caller = explanation.question, explanation.caller
    who = (
        f"{caller.name} (roles: {', '.join(caller.roles) or 'none'})"
        if caller
        else "an unauthenticated caller"
    )
    query = f"?{question.query}" if question.query else ""
    return f"{question.method} {question.path}{query} by {who}"


def _render(explanation: Explanation) -> Iterator[str]:
    yield f"  {explanation.reason}"
    yield from _render_answers("vetoers", explanation.vetoers, "passes", "DENIES")
    yield from _render_answers("allowers", explanation.allowers, "APPROVES", "does not")
    if explanation.rules:
        yield "rules of this caller, in the order of evaluation"
    for rule in explanation.rules:
        priority = "no priority" if rule.priority is None else f"priority {rule.priority:g}"
        yield f"  {rule.rule}, {priority}, roles {', '.join(rule.roles)}: {rule.outcome}"
        yield from (f"    {line}" for line in rule.predicate.splitlines())
        yield from (f"    {_describe_failure(failure)}" for failure in rule.failed)
    if explanation.others:
        yield "rules that match, and are for other roles"
    for rule in explanation.others:
        yield f"  {rule.rule}, roles {', '.join(rule.roles)}"
    yield from _render_conditions(explanation)
    if explanation.bindings:
        yield "bound names of @user, by login method"
    for way, names in explanation.bindings:
        yield f"  {way}: {', '.join(names)}"
    for note in explanation.notes:
        yield f"note: {note}"


def _describe_failure(failure: Failure) -> str:
    if failure.truth is None:
        return f"cannot be decided because a value is missing: {failure.condition}"
    return f"does not hold: {failure.condition}"


def _render_answers(
    title: str, answers: Iterable[AuthorizerAnswer], yes: str, no: str
) -> Iterator[str]:
    yield title
    for answer in answers:
        yield f"  {answer.authorizer}: {yes if answer.allowed else no}: {answer.reason}"


def _render_conditions(explanation: Explanation) -> Iterator[str]:
    from docgraph.codec import JsonMode, encode

    conditions = explanation.to_document()["conditions"]
    if conditions:
        yield "conditions"
    for name, value in conditions.items():
        yield f"  {name}: {encode(value, JsonMode.STANDARD).decode()}"


def _run(sources: ConfigSources, work: Callable[[Docgraph], Awaitable[_T]]) -> _T:
    from docgraph.cli.application import work_on

    return work_on(prepare_sources(sources), work)
