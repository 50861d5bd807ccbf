"""Responses of the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.authoring.app_sessions import AppSessions
from docgraph.authoring.requests import TEXT_PARTS, Draft, ToolArguments
from docgraph.codec import EncodeError, JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Account, Body, Exchange
from docgraph.exchange.errors import BodyError, Forbidden, SecurityViolation
from docgraph.graphql.apps.compiled_app import ANONYMOUS, App, cross, list_fields
from docgraph.graphql.apps.stored_definitions import build_entry, build_key, find_claims
from docgraph.graphql.definition.definition_diff import Change, ChangeKind
from docgraph.graphql.definition.findings import Finding, Report
from docgraph.graphql.definition.visibility import SchemaPart
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.app_access import AppSession
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.http.response_shape import render_result
from docgraph.runtime import Lane, run_blocking

_MAX_FINDINGS: Final = 1_000
_NARROW: Final = 56  # columns: such texts are edited next to others
_MAX_ROLES: Final = 64
_MAX_LINES: Final = 5_000
_MAX_CELLS: Final = 500_000


@dataclass(frozen=True, slots=True)
class ToolResponses:
    """The tools; work that takes long runs in the `lane`."""

    sessions: AppSessions
    lane: Lane

    async def check(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the findings of `docgraph apps check`, and what storing would change."""
        draft = wanted.draft
        if draft is None:
            raise BodyError("'definition' is missing", hint="give the definition of an app")
        if not wanted.run:
            return await self._render_texts(wanted, draft)
        report = await self._examine(exchange, draft)
        content = await run_blocking(self.lane, _describe_report, report, draft)
        limits = self.sessions.limits
        is_comparable = "_id" in draft.document and not draft.flaws
        if is_comparable and limits is not None and await limits.may_see_apps(exchange):
            content |= await self._compare(exchange, draft)
        if draft.sources and not draft.flaws:
            content |= await run_blocking(self.lane, _render_definition, draft)
        return content | await self._render_texts(wanted, draft)

    async def _render_texts(self, wanted: ToolArguments, draft: Draft) -> dict[str, Any]:
        if not wanted.texts:
            return {}
        return {"texts": await run_blocking(self.lane, _render_texts, draft)}

    async def _examine(self, exchange: Exchange, draft: Draft) -> Report:
        report = await self.sessions.examine(draft)
        if report.errors and not self.sessions.is_root(exchange):
            return replace(report, questions=())  # their permission to query is unknown
        try:
            await self.sessions.check_author(exchange, draft)
        except SecurityViolation as error:
            # Database messages on collections are only for callers who may read them.
            refusal = Finding("", error.message, error.hint)
            return replace(report, errors=(*report.errors, refusal), questions=())
        report = await self.sessions.drafts.resolve(report)
        limits = self.sessions.limits
        if report.errors or limits is None or not await limits.may_see_apps(exchange):
            return report
        return replace(
            report, errors=tuple([collision async for collision in self._find_collisions(draft)])
        )

    async def _find_collisions(self, draft: Draft) -> AsyncIterator[Finding]:
        """Yield stored apps that already use the URI."""
        entry = build_entry(draft.document)
        claims = set(find_claims(entry.id, entry.uri))
        for other in await self.sessions.access.apps.list_served() if entry.enabled else ():
            if other.key != build_key(entry.id) and claims & set(find_claims(other.id, other.uri)):
                yield Finding(
                    "descriptor.uri",
                    f"the app {other.id} is served there, too",
                    "choose another `_id` or `descriptor.uri`",
                )

    async def _compare(self, exchange: Exchange, draft: Draft) -> dict[str, Any]:
        try:
            change = await self.sessions.drafts.compare(draft.document, exchange.deadline)
        except EncodeError:
            return {}  # already a finding
        return await self.render_change(change)

    async def render_change(self, change: Change) -> dict[str, Any]:
        """Return what a change means for clients, and its lines."""
        content = {"breaking": change.breaking, **change.as_dict()}
        if change.kind is ChangeKind.CHANGED:
            lines = await run_blocking(self.lane, lambda: list(change.diff()))
            content["diff"] = "\n".join(lines[:_MAX_LINES])
        return content

    async def draft(self, exchange: Exchange, wanted: ToolArguments) -> Body:
        """Return the response of a draft as if it were stored, or of an app for another user."""
        request = _require_request(wanted)
        session = await self.sessions.enter(exchange, wanted)
        ran = await self.sessions.access.graphql.run(session.app, request, session.exchange)
        return render_result(ran.result, limit=session.app.limits.response_bytes)

    async def plan(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the plan of a query, its estimated cost, and its measured cost."""
        request = _require_request(wanted)
        session = await self.sessions.enter(exchange, wanted)
        graphql = self.sessions.access.graphql
        privileged = graphql.may_explain(exchange.account)
        outlook = await graphql.estimate_cost(session.app, request, session.exchange)
        content = outlook.as_dict(privileged=privileged)
        if not privileged:
            return content
        content["warnings"] = [fetch.warning for fetch in outlook.fetches if fetch.warning]
        limits = session.app.limits  # of a query of the app, in the units of its plan
        content["limits"] = {
            "estimatedDocuments": limits.estimated_documents,
            "fetchedDocuments": limits.fetched_documents,
            "responseBytes": limits.response_bytes,
        }
        if wanted.run:
            return content | await self._run(session, request)
        plan = await graphql.plan(session.app, request, session.exchange)
        return content | {"plan": plan.explain()}

    async def _run(self, session: AppSession, request: GraphqlRequest) -> dict[str, Any]:
        graphql, app = self.sessions.access.graphql, session.app
        try:
            ran = await graphql.run(app, request, session.exchange, is_explained=True)
        except OperationRefused as refusal:
            plan = await graphql.plan(app, request, session.exchange)
            errors = [error.as_dict() for error in refusal.errors]
            return {"plan": plan.explain(), "commands": [], "errors": errors}
        return {
            "plan": ran.plan.explain(),
            "commands": [command.as_dict() for command in ran.commands],
            "documents": ran.result.documents,
            "errors": [error.as_dict() for error in ran.result.errors],
            **ran.freshness,
        }

    async def matrix(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return which roles see which fields of an app; or explain the decision on a `request`."""
        if wanted.question is not None:
            if not self.sessions.is_root(exchange):
                raise Forbidden("only the root role may ask for explanations")
            explanation = await self.sessions.explainer.explain(wanted.question)
            document: dict[str, Any] = to_json(explanation.to_document(), JsonMode.STANDARD)
            return document
        is_root = self.sessions.is_root(exchange)
        looked_as = None
        if wanted.user is not None:
            looked_as = await self.sessions.choose_account(exchange, wanted)
        roles = wanted.roles if looked_as is None else sorted(looked_as.roles)
        if wanted.draft is not None:
            app = await self.sessions.compile(exchange, wanted.draft)
        else:
            session = await self.sessions.enter(exchange, replace(wanted, roles=None, user=None))
            app = session.app
            if not is_root:
                return await self._cross_own(session)
        chosen = list(_choose_roles(app, roles))
        if is_root and roles is None:
            path = self.sessions.access.graphql.find_path(app.definition.uri)
            callers = await self.sessions.explainer.find_roles("POST", path or "/")
            chosen += sorted(callers.difference(chosen))[: _MAX_ROLES - len(chosen)]
        content = await self._cross(app, chosen)
        if is_root:
            content["access"] = [
                {"role": role, **await self._describe_access(exchange, app, account)}
                for role in content["roles"]
                for account in [None if role == ANONYMOUS else Account("somebody", (role,))]
            ]
        if looked_as is not None:
            access = await self._describe_access(exchange, app, looked_as)
            content["user"] = {"name": looked_as.name, **access}
        return content

    async def _cross_own(self, session: AppSession) -> dict[str, Any]:
        """Return what callers without the root role may see: their own fields and roles."""
        view = await self.sessions.access.view(session)
        roles = session.app.visibility.all_roles.intersection(session.exchange.roles)
        return await self._cross(session.app, sorted(roles), set(list_fields(view.schema)))

    async def _describe_access(
        self, exchange: Exchange, app: App, account: Account | None
    ) -> dict[str, Any]:
        """Return whether this caller may query the app, and its row filters."""
        decision = await self.sessions.authorize(exchange, app, account)
        if decision is None:
            return {"allowed": False}
        content = {"allowed": decision.allowed, "reason": decision.reason}
        filters = decision.permission.read_filters if decision.permission else {}
        return content | (
            {"readFilters": to_json(dict(filters), JsonMode.STANDARD)} if filters else {}
        )

    async def _cross(
        self, app: App, roles: Sequence[str], shown: Collection[SchemaPart] | None = None
    ) -> dict[str, Any]:
        return {
            "app": str(app.definition.id),
            "uri": app.definition.uri,
            "roles": [ANONYMOUS, *roles],
            "fields": await run_blocking(self.lane, _describe_fields, app, roles, shown),
        }


def _require_request(wanted: ToolArguments) -> GraphqlRequest:
    if wanted.request is None:
        raise BodyError("'query' is missing", hint="give the text of a GraphQL query")
    return wanted.request


def _describe_report(report: Report, draft: Draft) -> dict[str, Any]:
    return {
        "valid": not report.errors,
        "errors": [draft.describe(error) for error in report.errors[:_MAX_FINDINGS]],
        "warnings": [draft.describe(warning) for warning in report.warnings[:_MAX_FINDINGS]],
    }


def _render_definition(draft: Draft) -> dict[str, Any]:
    """Return the document to store that the texts represent."""
    try:
        return {"definition": to_json(draft.document, JsonMode.STANDARD)}
    except EncodeError:
        return {}  # already a finding


def _render_texts(draft: Draft) -> dict[str, str]:
    """Return the object parts as YAML, which parses to the same objects."""
    texts = {}
    for part in TEXT_PARTS:
        value = draft.document.get(part)
        if not isinstance(value, Mapping):
            continue
        try:
            texts[part] = render_block(to_json(value, JsonMode.STANDARD), _NARROW)
        except EncodeError:
            continue  # already a finding
    return texts


def _choose_roles(app: App, roles: Sequence[str] | None) -> Sequence[str]:
    """Return the requested roles, else all relevant ones, unless there are very many."""
    chosen = sorted(app.visibility.all_roles) if roles is None else roles
    if len(chosen) > _MAX_ROLES:
        raise BodyError(
            f"the app names {len(chosen)} roles", hint=f"name up to {_MAX_ROLES} with 'roles'"
        )
    return chosen


def _describe_fields(
    app: App, roles: Sequence[str], shown: Collection[SchemaPart] | None
) -> list[dict[str, Any]]:
    fields = sum(1 for _ in list_fields(app.schema))
    if fields * (len(roles) + 1) > _MAX_CELLS:
        raise BodyError(
            f"{fields} fields and {len(roles)} roles are too many", hint="name fewer with 'roles'"
        )
    return [
        {"field": row.label, "seenBy": dict(row.seen_by)}
        for row in cross(app, roles)
        if shown is None or (row.use is None and row.part in shown)
    ]
