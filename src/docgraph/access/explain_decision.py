"""Explain an authorization decision: the answer of every authorizer, and the deciding rule.

Calls the same authorizers as the pipeline, in the same way, and calls all of them. The command
`docgraph access explain` prints the explanation, and `GET /access/explain` returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from typing import Any, ClassVar, Final, Protocol

from docgraph.access.authorize import decide
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.language.predicate import Failure
from docgraph.access.rule import UNAUTHENTICATED, Rule, RuleIndex, find_flag, roles_of
from docgraph.access.rule_authorizers import AUTHORIZER, DbAclAuthorizer
from docgraph.access.rulebook import RuleBook
from docgraph.access.service_comparison import Comparison, ServedApps
from docgraph.codec import JsonMode, decode, encode
from docgraph.config.section import ServiceConfig
from docgraph.exchange import Account, Body, Exchange, Headers, Permission, Request
from docgraph.exchange.errors import Forbidden, NotFound, RequestError
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Authorizer, Decision, Kind, Service, UserFinder
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Store

_MAX_RULES: Final = 200
_MAX_IGNORED: Final = 20
_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """A hypothetical request; `user` None means no particular user."""

    method: str
    path: str
    query: str = ""
    user: str | None = None
    roles: tuple[str, ...] = ()
    body: str = ""  # JSON


@dataclass(frozen=True, slots=True)
class AuthorizerAnswer:
    """The answer of one authorizer."""

    authorizer: str
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Consideration:
    """A rule for the caller and its result."""

    rule: str
    priority: float | None
    roles: tuple[str, ...]
    predicate: str
    outcome: str
    failed: tuple[Failure, ...] = ()  # the conditions that prevent a match


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that led to the decision."""

    question: ExplainedRequest
    caller: Account | None
    service: str
    status: int  # 200 means "may proceed"
    reason: str
    vetoers: tuple[AuthorizerAnswer, ...] = ()
    allowers: tuple[AuthorizerAnswer, ...] = ()
    rules: tuple[Consideration, ...] = ()
    permission: Permission | None = None
    notes: tuple[str, ...] = field(default=())
    bindings: tuple[tuple[str, list[str]], ...] = ()  # names of @user by login method
    others: tuple[Consideration, ...] = ()  # of a denied request: matching rules for other roles

    @property
    def is_allowed(self) -> bool:
        return self.status == HTTPStatus.OK

    def to_document(self) -> dict[str, Any]:
        return {
            "user": self.caller.name if self.caller else None,
            "roles": list(roles_of(self.caller)),
            "method": self.question.method,
            "path": self.question.path,
            "service": self.service,
            "allowed": self.status < _REFUSED,
            "status": self.status,
            "reason": self.reason,
            "vetoers": list(map(asdict, self.vetoers)),
            "allowers": list(map(asdict, self.allowers)),
            "rules": list(map(asdict, self.rules)),
            "others": list(map(asdict, self.others)),
            "conditions": _conditions(self.permission),
            "notes": list(self.notes),
            "bindings": [{"account": way, "bound": names} for way, names in self.bindings],
        }


def _conditions(permission: Permission | None) -> dict[str, Any]:
    if permission is None:
        return {}
    conditions = {
        "rule": permission.rule,
        "readFilters": dict(permission.read_filters),
        "writeFilter": permission.write_filter,
        "mergeRequest": permission.merge_request,
        "projectResponse": permission.project_response,
    }
    return {name: value for name, value in conditions.items() if value}


class Bindings(Protocol):
    """The provider `account-bindings`: which names of `@user` are bound."""

    def find(self, account: Account) -> list[tuple[str, list[str]]]:
        """Return each enabled login method, with the names that are bound."""


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains decisions with the plugins and rules of this instance."""

    _dry_run: RequestDryRun
    _book: RuleBook
    comparison: Comparison
    _bindings: Bindings | None = None

    async def explain(self, question: ExplainedRequest) -> Explanation:
        caller = await self.find_caller(question)
        exchange = self._dry_run.enter(Exchange(_build_request(question), "explain"), caller)
        authorization = self._dry_run.authorization
        veto, decision = await self._dry_run.decide(exchange)
        exchange.permission = decision.permission
        status, reason = _status(decision, veto, caller), decision.reason
        if status == HTTPStatus.OK and (
            refused := await self.comparison.find_refused_view(exchange)
        ):
            status, reason = 403, str(refused)
        ignored = await self._book.find_ignored()
        notes = [*await self.comparison.find_notes(exchange), *map(str, ignored[:_MAX_IGNORED])]
        if len(ignored) > _MAX_IGNORED:
            notes.append(f"{len(ignored) - _MAX_IGNORED} more rules cannot be read")
        return Explanation(
            question=question,
            caller=caller,
            service=exchange.service,
            status=status,
            reason=reason,
            vetoers=await self._query_all(authorization.vetoers, exchange),
            allowers=await self._query_all(authorization.allowers, exchange),
            rules=await self._consider(exchange),
            permission=decision.permission,
            notes=tuple(notes),
            bindings=self._find_bindings(caller),
            others=() if status < _REFUSED or veto else await self._find_others(exchange),
        )

    def _find_bindings(self, caller: Account | None) -> tuple[tuple[str, list[str]], ...]:
        """Return the bindings of a user of a realm; other users exist only in the question."""
        if self._bindings is None or caller is None or not caller.properties:
            return ()
        return tuple(self._bindings.find(caller))

    async def find_caller(self, question: ExplainedRequest) -> Account | None:
        """Return the account of the user, or one with just these roles; raises `NotFound`."""
        if question.user is None:
            return Account("somebody", question.roles) if question.roles else None
        find = self._dry_run.registry.of_kind  # of mechanisms: that of API keys
        for realm in (*find(Kind.AUTHENTICATOR), *find(Kind.AUTH_MECHANISM)):
            # An authenticator may be unable to find a user without a password.
            account = await realm.find(question.user) if isinstance(realm, UserFinder) else None
            if account is not None:
                roles = tuple(dict.fromkeys((*account.roles, *question.roles)))
                return replace(account, roles=roles)
        if question.roles:
            return Account(question.user, question.roles)
        raise NotFound(
            f"no authenticator knows the user {question.user!r}",
            hint="name roles instead, or `docgraph users list` for those there are",
        )

    async def find_roles(self, method: str, path: str) -> set[str]:
        """Return the roles with a rule that can match such requests, without the general role."""
        index = RuleIndex(tuple(await self._book.find_all()))
        rules = index.select(method, tuple(path.strip("/").split("/")))
        return {role for _, rule in rules for role in rule.roles} - {UNAUTHENTICATED}

    async def _query_all(
        self, authorizers: Sequence[Authorizer], exchange: Exchange
    ) -> tuple[AuthorizerAnswer, ...]:
        answers = []
        for authorizer in authorizers:
            is_anonymous = exchange.account is None and authorizer.role == "allower"
            if is_anonymous and authorizer.requires_authentication(exchange):
                answers.append(
                    AuthorizerAnswer(authorizer.name, False, "only authenticated callers")
                )
                continue
            decision = await decide(authorizer, exchange)
            answers.append(AuthorizerAnswer(authorizer.name, decision.allowed, decision.reason))
        return tuple(answers)

    async def _consider(self, exchange: Exchange) -> tuple[Consideration, ...]:
        index = await self._book.find_rules(roles_of(exchange.account))
        view = self._book.view(exchange)
        flag = find_flag(view)
        considered: list[Consideration] = []
        decided = False
        for rule in index.rules[:_MAX_RULES]:
            failed: tuple[Failure, ...] = ()
            if flag is not None and flag not in rule.conditions.flags:
                outcome = f"does not match: the request needs mongo.{flag}"
            elif not await self._book.is_met(rule, view):
                outcome = "does not match"
                failed = await self._book.find_failures(rule, view)
            elif decided:
                outcome = "would match, and comes later"
            else:
                reason = (await self._book.build_match(rule, view)).reason
                outcome = f"decides, and denies: {reason}" if reason else "decides"
                decided = True
            considered.append(_consideration(rule, outcome, failed))
        return tuple(considered)

    async def _find_others(self, exchange: Exchange) -> tuple[Consideration, ...]:
        """Return the rules that would permit the request for callers with their roles."""
        own_roles = set(roles_of(exchange.account))
        all_rules = sorted(await self._book.find_all(), key=lambda rule: rule.rank, reverse=True)
        index = RuleIndex(tuple(rule for rule in all_rules if own_roles.isdisjoint(rule.roles)))
        view = self._book.view(exchange)
        flag = find_flag(view)
        return tuple(
            [
                _consideration(rule, "would match, and is for other roles")
                for _, rule in index.select(view.request.method, view.segments)[:_MAX_RULES]
                if (flag is None or flag in rule.conditions.flags)
                and await self._book.is_met(rule, view)
            ]
        )


def _build_request(question: ExplainedRequest) -> Request:
    body = question.body.encode()

    async def read(limit: int) -> bytes:
        return body

    fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    request = Request(
        question.method,
        question.path.encode(),
        query_string=question.query.encode(),
        headers=Headers(fields if body else []),
        body=read,
    )
    request.body_limit = len(body) + 1  # it is already in memory
    request.parser = lambda content, _: decode(content)
    return request


def _consideration(rule: Rule, outcome: str, failed: tuple[Failure, ...] = ()) -> Consideration:
    roles = tuple(sorted(rule.roles))
    return Consideration(str(rule), rule.priority, roles, rule.predicate.text, outcome, failed)


def _status(decision: Decision, veto: Decision | None, caller: Account | None) -> int:
    if decision.allowed:
        return 200
    return 401 if caller is None and veto is None else 403


class AccessExplain(Service):
    """Explains decisions to users with the root role only, regardless of rules."""

    name: ClassVar[str] = "accessExplain"
    description: ClassVar[str] = "explains why a request is allowed or denied"
    uri: ClassVar[str] = "/access/explain"
    exact: ClassVar[bool] = True
    Config = ServiceConfig

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: ServiceConfig,
        *,
        registry: PluginRegistry,
        imagined_requests: RequestDryRun,
        graphql: Graphql,
        mongo: Mongo,
        store: Store,
        acl_rules: RuleBook,
        account_bindings: Bindings | None = None,
        gql_app_definition_cache: ServedApps | None = None,
    ) -> None:
        self.config = config
        self._registry = registry
        apps = gql_app_definition_cache
        comparison = Comparison(graphql, mongo, store, acl_rules, registry, apps)
        self.explainer = Explainer(imagined_requests, acl_rules, comparison, account_bindings)

    async def handle(self, exchange: Exchange) -> Body:
        """Explain the request given by `user`, `role` (repeated), `method`, `path` and `query`."""
        if not self._is_root(exchange):
            raise Forbidden("only the root role may ask for explanations")
        query = exchange.request.query
        path = query.get("path")
        if path is None or not path.startswith("/"):
            raise RequestError("the parameter path is needed", hint="it begins with a slash")
        question = ExplainedRequest(
            method=(query.get("method") or "GET").upper(),
            path=path,
            query=query.get("query") or "",
            user=query.get("user"),
            roles=tuple(query.get_list("role")),
        )
        explanation = await self.explainer.explain(question)
        body = encode(explanation.to_document(), JsonMode.STANDARD)
        return Body(200, body, "application/json")

    def _is_root(self, exchange: Exchange) -> bool:
        authorizer = self._registry.find(AUTHORIZER)
        if not isinstance(authorizer, DbAclAuthorizer):
            return False
        return authorizer.config.root_role in exchange.roles
