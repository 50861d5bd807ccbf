"""`docgraph acl`: permission rules by command."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import make_printable, notice, print_json, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import Document, StartupError

if TYPE_CHECKING:
    from docgraph.access.parse_rule import Knowledge
    from docgraph.access.rule import Rule
    from docgraph.access.rule_warnings import Tie
    from docgraph.access.rulebook import RuleBook
    from docgraph.access.view_rules import ViewWarning
    from docgraph.cli.acl.rules import RuleCollection
    from docgraph.cli.adviser import DataFinding
    from docgraph.variables.errors import Flaw
_T = TypeVar("_T")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def acl() -> None:
    """Add, list, check and remove permission rules."""


@acl.command()
@click.argument("id", required=False)
@click.argument("predicate", required=False)
@click.option("--role", "roles", multiple=True, help="For users with this role; repeatable.")
@click.option("--everybody", is_flag=True, help="For everyone, also for unauthenticated callers.")
@click.option("--priority", type=float, help="Of rules for the same callers, the highest is first.")
@click.option("--mongo", metavar="JSON", help="Filters and flags, such as a readFilter.")
@click.option("--description", help="What the rule is for.")
@click.option("--file", type=_FILE, help="Read the rule, or a list of rules, from a file instead.")
@click.option("--replace", is_flag=True, help="Replace the rule with the same id.")
@configured
def add(sources: ConfigSources, *, file: Path | None, replace: bool, **parts: Any) -> None:
    """Add a rule: requests for which PREDICATE is true are allowed to its roles.

    docgraph acl add notes "path-prefix('/notes')" --role user
    """
    from docgraph.cli.acl.rules import describe_roles, load_rules
    from docgraph.cli.application import print_served
    from docgraph.codec.bson_types import ObjectId

    if file is None:
        documents = [_build_rule(**parts)]
    elif any(parts.values()):
        raise click.UsageError("a file says everything: give --file and --replace only")
    else:
        documents = load_rules(file)
    documents = [{"_id": ObjectId(), **document} for document in documents]

    async def store(rules: RuleCollection) -> None:
        if not replace:
            await _reject_existing(rules, documents)
        await rules.add(documents, replace=replace)
        for document in documents:
            roles = document.get("roles") or [document["role"]]
            name = make_printable(_name(document))
            notice(f"stored the rule {name} for {describe_roles(roles)}")
        await print_served("rules", rules.versions)

    _run(sources, store)


@acl.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def list_(sources: ConfigSources, as_json: bool) -> None:
    """List the rules of the database and of fileAclAuthorizer, the highest priority first."""
    from docgraph.access.rule import RuleOrigin

    async def read_all(rules: RuleCollection) -> list[dict[str, Any]]:
        book: RuleBook = rules.app.plugins.values["acl-rules"]
        stored = [_summarise(rule, book.knowledge, as_json) for rule in await rules.read_all()]
        written = [rule for rule in await book.find_all() if rule.source is RuleOrigin.FILE]
        written.sort(key=lambda rule: rule.rank, reverse=True)
        rows = [*stored, *(_summarise_file(rule, as_json) for rule in written)]
        return sorted(rows, key=_order)  # of equal ones, those of the database first

    rows = _run(sources, read_all)
    if_empty = "there are no rules: only the root role has access"
    print_table(rows, as_json=as_json, if_empty=if_empty)


@acl.command()
@click.argument("id")
@configured
def show(sources: ConfigSources, id: str) -> None:
    """Print a rule of the database as it is stored."""
    from docgraph.cli.apps.stored import without_etag
    from docgraph.codec import JsonMode, to_json

    rule = _run(sources, lambda rules: rules.require(id))
    print_json(to_json(without_etag(rule), JsonMode.STANDARD))


@acl.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@configured
def remove(sources: ConfigSources, id: str, yes: bool) -> None:
    """Remove a rule of the database; requests that only it allowed are then rejected."""
    from docgraph.cli.acl.rules import describe_roles
    from docgraph.cli.application import print_served

    rule = _run(sources, lambda rules: rules.require(id))
    if not yes:
        roles = rule.get("roles") or [rule.get("role")]
        predicate = make_printable(" ".join(str(rule.get("predicate")).split()))
        notice(f"{describe_roles([str(role) for role in roles])}: {predicate}")
        click.confirm(f"Remove the rule {id!r}?", abort=True, err=True)

    async def delete(rules: RuleCollection) -> None:
        await rules.remove(rule["_id"])
        notice(f"removed the rule {make_printable(id)}")
        await print_served("rules", rules.versions)

    _run(sources, delete)


@acl.command()
@click.argument("predicate", required=False)
@click.option("--file", type=_FILE, help="Check the rule, or the list of rules, in a file.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def check(sources: ConfigSources, predicate: str | None, file: Path | None, as_json: bool) -> None:
    """Check a predicate, the rules of a file, or without either the stored rules.

    Only the last needs a database, and also recommends indexes for row filters. Exit code 1 when a
    rule cannot work, which then allows nothing.
    """
    from docgraph.access.rule_warnings import find_ties
    from docgraph.access.sections import Acl
    from docgraph.cli.acl.rules import (
        build_knowledge,
        compile_rules,
        find_rule_warnings,
        load_rules,
    )

    prepared = prepare_sources(sources)
    knowledge, choice = build_knowledge(prepared), prepared.config.get(Acl)
    if predicate is not None and file is not None:
        raise click.UsageError("give a predicate or --file, not both")

    async def check_stored(rules: RuleCollection) -> list[dict[str, Any]]:
        from docgraph.cli.acl.rules import find_missing_indexes

        stored = await rules.read_all()
        rows = [
            _render_flaws(_name(rule), await rules.find_flaws(rule, knowledge)) for rule in stored
        ]
        book: RuleBook = rules.app.plugins.values["acl-rules"]
        all_rules = await book.find_all()
        rows = _add_ties(rows, find_ties(all_rules, choice))
        comparison = rules.app.plugins.find("accessExplain").explainer.comparison
        rows = _add_views(rows, await comparison.find_view_warnings(all_rules))
        return _add_advice(rows, await find_missing_indexes(rules))

    if predicate is not None:
        rule = {"roles": ["any"], "predicate": predicate}
        rows = [_render_flaws(predicate, find_rule_warnings(rule, knowledge))]
    elif file is not None:
        file_rules = load_rules(file)
        rows = [
            _render_flaws(_name(rule, place), find_rule_warnings(rule, knowledge))
            for place, rule in enumerate(file_rules)
        ]
        rows = _add_ties(rows, find_ties(compile_rules(file_rules, knowledge), choice))
    else:
        rows = _run(sources, check_stored)
    if as_json:
        print_table(rows, as_json=True)
    else:
        for line in _report(rows):
            notice(line)
    sys.exit(0 if all(row["valid"] for row in rows) else 1)


def _build_rule(  # noqa: PLR0913 - the parts of a rule
    *,
    id: str | None,
    predicate: str | None,
    roles: tuple[str, ...],
    everybody: bool,
    priority: float | None,
    mongo: str | None,
    description: str | None,
) -> Document:
    from docgraph.access.rule import UNAUTHENTICATED

    if not id or not predicate:
        raise click.UsageError("give an id and a predicate, or --file")
    if not roles and not everybody:
        raise click.UsageError("say whom it is for: --role, or --everybody")
    for role in roles:
        if not role:
            raise click.BadParameter(
                "a role is not empty; the shell replaced '$…' as one of its variables, "
                "unless you put it in single quotes",
                param_hint="--role",
            )
    rule: Document = {
        "_id": id,
        "roles": [*roles, *([UNAUTHENTICATED] if everybody else [])],
        "predicate": predicate,
        "priority": priority,
        "mongo": None if mongo is None else _parse_object(mongo),
        "description": description,
    }
    return {key: value for key, value in rule.items() if value is not None}


def _parse_object(text: str) -> Document:
    from docgraph.codec import decode
    from docgraph.exchange import DocgraphError

    try:
        value = decode(text)
    except DocgraphError as error:
        raise click.BadParameter(error.message, param_hint="--mongo") from error
    if not isinstance(value, dict):
        raise click.BadParameter("it is not a JSON object", param_hint="--mongo")
    return value


async def _reject_existing(rules: RuleCollection, documents: list[Document]) -> None:
    """Reject ids that exist before the first of several is stored: all or nothing."""
    for document in documents:
        stored = await rules.find(str(document["_id"]))
        if stored is not None and stored["_id"] == document["_id"]:
            raise StartupError(
                f"there is a rule {_name(document)} already",
                hint="--replace puts the new one in its place",
            )


def _name(document: Document, place: int = 0) -> str:
    from docgraph.codec import name_id

    return name_id(document["_id"]) if "_id" in document else f"permissions[{place}]"


def _render_flaws(name: str, flaws: Sequence[Flaw]) -> dict[str, Any]:
    from docgraph.access.parse_rule import describe_flaw

    errors = [{"what": describe_flaw(flaw), "hint": flaw.hint} for flaw in flaws]
    return {"rule": name, "valid": not flaws, "errors": errors, "warnings": []}


def _add_ties(rows: list[dict[str, Any]], ties: Iterable[Tie]) -> list[dict[str, Any]]:
    """Add a warning to the rule that wins a tie."""
    return _add_warnings(rows, [(tie.rule, tie.describe()) for tie in ties])


def _add_views(rows: list[dict[str, Any]], warnings: Iterable[ViewWarning]) -> list[dict[str, Any]]:
    """Add a warning for each view that a rule refuses, or that passes a filter."""
    return _add_warnings(rows, [(warning.rule, warning.describe()) for warning in warnings])


def _add_warnings(
    rows: list[dict[str, Any]], warnings: Iterable[tuple[Rule, Flaw]]
) -> list[dict[str, Any]]:
    """Add warnings to the rows of their rules; file rules have no row in the list."""
    from docgraph.access.rule import RuleOrigin

    by_name = {row["rule"]: row for row in rows}
    for rule, flaw in warnings:
        name = str(rule).removesuffix(f" ({RuleOrigin.DATABASE})")
        row = by_name.setdefault(name, _render_flaws(name, ()))
        row["warnings"].append({"what": f"{flaw.where} {flaw.what}", "hint": flaw.hint})
    return [*by_name.values()]


def _add_advice(rows: list[dict[str, Any]], advice: Sequence[DataFinding]) -> list[dict[str, Any]]:
    """Return the rules with the advice for each; other advice is printed immediately."""
    advised = [{**row, "advice": []} for row in rows]
    by_place = {f"the rule {row['rule']} (database): ": row["advice"] for row in advised}
    for text in advice:
        place = next((name for name in by_place if text.where.startswith(name)), None)
        if place is None:
            notice(make_printable(f"{text.what} ({text.hint})" if text.hint else text.what))
        else:
            where = text.where.removeprefix(place)
            by_place[place].append({"where": where, "what": text.what, "hint": text.hint})
    return advised


def _report(rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "no rules are stored"
    for row in rows:
        if row["valid"] and not row["warnings"]:
            yield f"{row['rule']}: fine"
        for error in (*row["errors"], *row["warnings"]):
            hint = f" ({error['hint']})" if error["hint"] else ""
            yield f"{row['rule']}: {error['what']}{hint}"
        for text in row.get("advice", ()):
            yield make_printable(f"{row['rule']}: {text['where']}: {text['what']}")
            yield make_printable(f"    → {text['hint']}")


def _order(row: dict[str, Any]) -> float:
    priority = row["priority"]
    return -priority if isinstance(priority, int | float) else inf


def _summarise(document: Document, knowledge: Knowledge, as_json: bool) -> dict[str, Any]:
    from docgraph.cli.acl.rules import find_flaws

    roles = document.get("roles", document.get("role"))
    listed = [str(role) for role in (roles if isinstance(roles, list) else [roles])]
    block = document.get("mongo")
    return {
        "rule": _name(document),
        "from": "database",
        "priority": document.get("priority"),
        "roles": listed if as_json else ", ".join(listed),
        "predicate": document.get("predicate"),
        "conditions": _join(block if isinstance(block, dict) else (), as_json),
        "valid": not find_flaws(document, knowledge),
    }


def _summarise_file(rule: Rule, as_json: bool) -> dict[str, Any]:
    roles, held = sorted(rule.roles), rule.conditions
    conditions = {
        "readFilter": held.read_filter,
        "readFilters": held.read_filters,
        "writeFilter": held.write_filter,
        "mergeRequest": held.merge_request,
        "projectResponse": held.project_response,
    }
    set_ = [*(name for name, value in conditions.items() if value), *sorted(held.flags)]
    return {
        "rule": str(rule.id if rule.id is not None else f"permissions[{rule.position}]"),
        "from": str(rule.source),
        "priority": rule.priority,
        "roles": roles if as_json else ", ".join(roles),
        "predicate": rule.predicate.text,
        "conditions": _join(set_, as_json),
        "valid": True,
    }


def _join(names: Any, as_json: bool) -> Any:
    return list(names) if as_json else ", ".join(names)


def _run(sources: ConfigSources, work: Callable[[RuleCollection], Awaitable[_T]]) -> _T:
    from docgraph.cli.acl.rules import RuleCollection, require_authorizer
    from docgraph.cli.application import work_on

    prepared = prepare_sources(sources)
    settings = require_authorizer(prepared)
    return work_on(prepared, lambda app: work(RuleCollection(app, settings)))
