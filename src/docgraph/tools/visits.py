"""An app, stored or drafted, for a caller or in the place of another.

Who is let in at the tools has not been let in at an app: each use of one is judged as a request to
its endpoint, as for agents. A draft of somebody without the root role has to be one that they might
store (`permissionDefinitions`), so that no draft shows more than its author sees anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from docgraph.access.definitions.imagined import Imagination, combine
from docgraph.access.definitions.limits import DefinitionLimits
from docgraph.access.explain import Explainer, Question
from docgraph.exchange import Account, DocgraphError, Exchange
from docgraph.exchange.errors import (
    BodyError,
    DefinitionError,
    Forbidden,
    NotFound,
    SecurityViolation,
)
from docgraph.graphql.apps.app import App
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.drafts import Drafts, Inspection
from docgraph.graphql.definition.check import Finding, Report, require_id
from docgraph.graphql.errors import OperationsOnly
from docgraph.graphql.http.body import GraphqlRequest, render_body
from docgraph.graphql.http.service import AppRequest, GraphqlService
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Decision
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store
from docgraph.tools.draft import Draft
from docgraph.tools.wanted import Wanted

__all__ = ["NotAdmitted", "Visit", "Visits"]

_NO_QUERY: Final = GraphqlRequest("{ __typename }")
_MOST_SHOWN: Final = 100  # findings in an error


class NotAdmitted(DocgraphError):
    """Somebody in whose place an administrator asks would be refused."""

    status, code = 403, "forbidden"


@dataclass(frozen=True, slots=True)
class Visit:
    """An app, and the exchange of a request to it."""

    app: App
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Visits:
    """Finds and compiles apps for callers of the tools."""

    graphql: GraphqlService
    apps: Apps
    drafts: Drafts
    limits: DefinitionLimits | None
    imagination: Imagination
    explainer: Explainer
    store: Store
    registry: PluginRegistry

    def is_root(self, exchange: Exchange) -> bool:
        """Whether the caller has the role above all rules."""
        return self.store.guard.is_trusted(exchange.account)

    async def enter(self, outer: Exchange, wanted: Wanted) -> Visit:
        """The app that is asked for, by the caller or by whom he looks as."""
        if wanted.draft is not None and wanted.app is not None:
            raise BodyError("'app' and 'definition' are given", hint="give one of them")
        account = await self.choose_account(outer, wanted)
        if wanted.draft is not None:
            return await self._enter_draft(outer, wanted, wanted.draft, account)
        if wanted.app is None:
            raise BodyError("neither 'app' nor 'definition' is given", hint="give one of them")
        exchange = self._imagine(outer, wanted.app, wanted.request, account)
        decision = None if exchange is None else await self.imagination.judge(exchange)
        if exchange is None or decision is None:
            raise NotFound("GraphQL app not found")
        if not decision.allowed and not wanted.is_for_another:
            emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
            raise NotFound("GraphQL app not found")
        app = await self.apps.find(wanted.app)
        outer.app = exchange.app = str(app.definition.id)
        return self._admit(outer, Visit(app, exchange), decision)

    async def _enter_draft(
        self, outer: Exchange, wanted: Wanted, draft: Draft, account: Account | None
    ) -> Visit:
        app = await self.compile(outer, draft)
        exchange = self._imagine(outer, app.definition.uri, wanted.request, account)
        if exchange is None:
            raise DefinitionError(
                "the app has no address that a request could lead to",
                hint="choose another `_id` or `descriptor.uri`",
            )
        decision = await self.imagination.judge(exchange)
        if not decision.allowed and not wanted.is_for_another:
            emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
            raise Forbidden(decision.reason)
        return self._admit(outer, Visit(app, exchange), decision)

    def _admit(self, outer: Exchange, visit: Visit, decision: Decision) -> Visit:
        if not decision.allowed:
            is_known = visit.exchange.account is not None
            raise NotAdmitted(
                f"the app would answer {403 if is_known else 401}: {decision.reason}",
                hint="ask with 'request' why, or let them in by a rule",
            )
        visit.exchange.permission = combine(outer.permission, decision.permission)
        return visit

    def require_freedom(self, exchange: Exchange) -> None:
        """Raise for callers who may run stored operations and nothing else."""
        if self.graphql.is_bound(exchange.account):
            raise OperationsOnly

    async def judge(self, outer: Exchange, app: App, account: Account | None) -> Decision | None:
        """What becomes of a query of this caller."""
        exchange = self._imagine(outer, app.definition.uri, None, account)
        return None if exchange is None else await self.imagination.judge(exchange)

    async def compile(self, outer: Exchange, draft: Draft) -> App:
        """The app of a draft; raises what is wrong with it, or what its author may not read."""
        inspection = await self.drafts.inspect(draft.document)
        report = _judge(inspection, draft)
        if report.errors:
            raise _refuse(report, draft)
        await self.check_author(outer, draft)
        report = await self.drafts.settle(report)
        if report.errors:
            raise _refuse(report, draft)
        return self.drafts.assemble(inspection)

    async def examine(self, draft: Draft) -> Report:
        """What is found in a draft, as far as nobody has to be asked."""
        return _judge(await self.drafts.inspect(draft.document), draft)

    async def check_author(self, outer: Exchange, draft: Draft) -> None:
        """Raise `SecurityViolation` for a draft that the caller could not store."""
        if self.is_root(outer):
            return
        if self.limits is None:
            raise SecurityViolation("only the root role may try drafts here")
        await self.limits.check_draft(outer, draft.document)

    async def choose_account(self, outer: Exchange, wanted: Wanted) -> Account | None:
        """The caller, or whom he looks as, which only the root role may."""
        if not wanted.is_for_another:
            return outer.account
        if not self.is_root(outer):
            raise Forbidden("only the root role may look as somebody else")
        question = Question("POST", "/", "", wanted.user, wanted.roles or ())
        return await self.explainer.find_caller(question)

    def _imagine(
        self, outer: Exchange, uri: str, request: GraphqlRequest | None, account: Account | None
    ) -> Exchange | None:
        """The request to the app; None when no request could be meant."""
        path = self.graphql.find_path(uri)
        if path is None:
            return None
        body = render_body(request or _NO_QUERY)
        exchange = self.imagination.imagine_post(outer, path, body, account)
        is_meant = isinstance(exchange.parsed, AppRequest) and exchange.parsed.refusal is None
        return exchange if is_meant else None


def _part_of(finding: Finding) -> str:
    return finding.where.partition(".")[0]


def _outside(findings: Collection[Finding], parts: Collection[str]) -> tuple[Finding, ...]:
    """Those that are not about parts which nobody could read."""
    return tuple(one for one in findings if _part_of(one) not in parts)


def _judge(inspection: Inspection, draft: Draft) -> Report:
    """What was found, with what keeps parts of the draft from being read."""
    report = require_id(inspection.report, draft.document)
    unread = {_part_of(flaw) for flaw in draft.flaws}
    return replace(
        report,
        errors=(*draft.flaws, *_outside(report.errors, unread)),
        warnings=_outside(report.warnings, unread),
    )


def _refuse(report: Report, draft: Draft) -> DefinitionError:
    first = report.errors[0]
    return DefinitionError(
        f"the definition cannot work: {first}",
        hint=first.hint,
        details=[draft.describe(one) for one in report.errors[:_MOST_SHOWN]],
    )
