"""App sessions of the tools: an app, stored or draft, for the caller or another user (impersonate).

A caller who may use the tools is not yet permitted to use an app: each use of one is authorized as
a request to its endpoint, as for agents. A caller without the root role can only use drafts that
they might store (`permissionDefinitions`), so that no draft shows more than its author can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from docgraph.access.author_limits import DefinitionLimits
from docgraph.access.explain_decision import ExplainedRequest, Explainer
from docgraph.authoring.requests import Draft, ToolArguments
from docgraph.exchange import Account, DocgraphError, Exchange, Resource, ResourceType
from docgraph.exchange.errors import (
    BodyError,
    DefinitionError,
    Forbidden,
    NotFound,
    SecurityViolation,
)
from docgraph.exchange.request import encode_path
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.apps.definition_writes import Drafts, Inspection
from docgraph.graphql.definition.check import require_id
from docgraph.graphql.definition.findings import Finding, Report
from docgraph.graphql.http.app_access import AppAccess, AppSession
from docgraph.plugins.kinds import Decision
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Store
from docgraph.store.mounts import find_paths

_MAX_SHOWN: Final = 100  # findings in an error


class NotAdmitted(DocgraphError):
    """The user whom an administrator impersonates would be denied."""

    status, code = 403, "forbidden"


@dataclass(frozen=True, slots=True)
class AppSessions:
    """Finds and compiles apps for callers of the tools."""

    access: AppAccess
    drafts: Drafts
    limits: DefinitionLimits | None
    explainer: Explainer
    store: Store
    registry: PluginRegistry

    def is_root(self, exchange: Exchange) -> bool:
        return self.store.guard.is_trusted(exchange.account)

    def find_path(self, mongo: Mongo, db: str, collection: str) -> str | None:
        """Return the path of a collection in the REST API, if it is served."""
        if self.registry.find(Mongo.section_name) is None:
            return None
        resource = Resource(ResourceType.COLLECTION, db, collection)
        paths = find_paths(resource, mongo.mongo_mounts, mongo.uri)
        return next(map(encode_path, paths), None)

    async def enter(self, outer: Exchange, wanted: ToolArguments) -> AppSession:
        """Return the requested app, for the caller or the user they impersonate."""
        if wanted.draft is not None and wanted.app is not None:
            raise BodyError("'app' and 'definition' are given", hint="give one of them")
        account = await self.choose_account(outer, wanted)
        if wanted.draft is not None:
            return await self._enter_draft(outer, wanted, wanted.draft, account)
        if wanted.app is None:
            raise BodyError("neither 'app' nor 'definition' is given", hint="give one of them")
        authorized = await self._authorize(outer, wanted.app, wanted, account)
        if authorized is None or not (authorized[1].allowed or wanted.is_for_another):
            raise NotFound("GraphQL app not found")
        session = await self.access.open(wanted.app, authorized[0])
        outer.app = session.exchange.app
        return _admit(session, authorized[1])

    async def _enter_draft(
        self, outer: Exchange, wanted: ToolArguments, draft: Draft, account: Account | None
    ) -> AppSession:
        app = await self.compile(outer, draft)
        authorized = await self._authorize(outer, app.definition.uri, wanted, account)
        if authorized is None:
            raise DefinitionError(
                "the app has no address that a request could lead to",
                hint="choose another `_id` or `descriptor.uri`",
            )
        exchange, decision = authorized
        if not decision.allowed and not wanted.is_for_another:
            raise Forbidden(decision.reason)
        return _admit(AppSession(app, exchange), decision)

    async def _authorize(
        self, outer: Exchange, uri: str, wanted: ToolArguments, account: Account | None
    ) -> tuple[Exchange, Decision] | None:
        quietly = wanted.is_for_another
        return await self.access.authorize(outer, uri, account, wanted.request, quietly=quietly)

    async def authorize(
        self, outer: Exchange, app: App, account: Account | None
    ) -> Decision | None:
        uri = app.definition.uri
        authorized = await self.access.authorize(outer, uri, account, quietly=True)
        return None if authorized is None else authorized[1]

    async def compile(self, outer: Exchange, draft: Draft) -> App:
        """Return the app of a draft; raise its mistakes, or what its author may not read."""
        inspection = await self.drafts.inspect(draft.document)
        report = _merge_findings(inspection, draft)
        if report.errors:
            raise _reject(report, draft)
        await self.check_author(outer, draft)
        report = await self.drafts.resolve(report)
        if report.errors:
            raise _reject(report, draft)
        return self.drafts.assemble(inspection)

    async def examine(self, draft: Draft) -> Report:
        """Return the findings of a draft that need no database."""
        return _merge_findings(await self.drafts.inspect(draft.document), draft)

    async def check_author(self, outer: Exchange, draft: Draft) -> None:
        """Raise `SecurityViolation` for a draft that the caller could not store."""
        if self.is_root(outer):
            return
        if self.limits is None:
            raise SecurityViolation("only the root role may try drafts here")
        await self.limits.check_draft(outer, draft.document)

    async def choose_account(self, outer: Exchange, wanted: ToolArguments) -> Account | None:
        """Return the caller, or the user they impersonate, which requires the root role."""
        if not wanted.is_for_another:
            return outer.account
        if not self.is_root(outer):
            raise Forbidden("only the root role may view as another user")
        question = ExplainedRequest("POST", "/", "", wanted.user, wanted.roles or ())
        return await self.explainer.find_caller(question)


def _admit(session: AppSession, decision: Decision) -> AppSession:
    if not decision.allowed:
        is_known = session.exchange.account is not None
        raise NotAdmitted(
            f"the app would answer {403 if is_known else 401}: {decision.reason}",
            hint="ask with 'request' why, or let them in by a rule",
        )
    return session


def _merge_findings(inspection: Inspection, draft: Draft) -> Report:
    """Return the findings, with the reasons why parts of the draft cannot be read."""
    report = require_id(inspection.parts.report, draft.document)
    unread = {flaw.where.partition(".")[0] for flaw in draft.flaws}

    def drop_unread(findings: Iterable[Finding]) -> Iterator[Finding]:
        return (each for each in findings if each.where.partition(".")[0] not in unread)

    errors = (*draft.flaws, *drop_unread(report.errors))
    return replace(report, errors=errors, warnings=tuple(drop_unread(report.warnings)))


def _reject(report: Report, draft: Draft) -> DefinitionError:
    first = report.errors[0]
    return DefinitionError(
        f"the definition cannot work: {first}",
        hint=first.hint,
        details=[draft.describe(error) for error in report.errors[:_MAX_SHOWN]],
    )
