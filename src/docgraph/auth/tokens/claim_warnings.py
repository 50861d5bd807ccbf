"""`@user` properties by login method: warn at start about those that signed tokens do not contain.

Rules, mappings and stored aggregations may use them. `@user.team` is bound after a login by
password, and unbound for the same user by token, unless `account-properties-claims` lists it. That
is easy to overlook, since nothing fails: a rule does not match, a field is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Final

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.auth.mechanisms.sections import IdentityAuthMechanism, JwtAuthenticationMechanism
from docgraph.auth.tokens.account_claims import PropertyNames, build_claims, restore
from docgraph.auth.tokens.sections import JwtTokenManager, RndTokenManager
from docgraph.auth.tokens.token import TokenAccount
from docgraph.auth.tokens.verified_claims import Verified
from docgraph.codec import decode
from docgraph.config.config_node import to_plain
from docgraph.config.section import PluginConfig
from docgraph.config.sources import CONFIGURATION, load_file
from docgraph.exchange import Account, ConfigError, Deadline, DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import ConfigWarning
from docgraph.plugins.kinds import Initializer, Provider
from docgraph.plugins.registry import PluginRegistry
from docgraph.predicates import PredicateError
from docgraph.predicates.parse import REFERENCES, TokenKind, tokenize
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, Instance, run_blocking
from docgraph.store import Store
from docgraph.store.mounts import split_mount
from docgraph.store.names import METADATA_STORE
from docgraph.variables import parse_path

_OPTION: Final = "/jwtTokenManager/account-properties-claims"
_FILE_RULES: Final = "fileAclAuthorizer"
# Plugins that store documents in the database, their kind, and the options for the location.
_KEPT: Final = (
    ("dbAclAuthorizer", "rule", "acl_db", "acl_collection"),
    ("graphql", "app", "db", "collection"),
)
_MAX_DOCUMENTS: Final = 10_000
_MAX_PLACES: Final = 3
_READ_MS: Final = 10_000
_PREDICATE: Final = "predicate"  # of a rule
_NO_MAPPING: Final = "schema"  # the text of an app that is for people


class ClaimsAdvisor(Initializer):
    """Checks every rule and mapping once; inactive without `jwtTokenManager`."""

    name: ClassVar[str] = "tokenClaimsAdvisor"
    description: ClassVar[str] = "tells at start what rules and mappings miss in signed tokens"

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: PluginConfig,
        *,
        manager: JwtTokenManager,
        rest: Mongo,
        registry: PluginRegistry,
        store: Store,
        blocking: Blocking,
        instance: Instance,
    ) -> None:
        self.config = config
        self._names = PropertyNames(manager.account_properties_claims)
        self._rest = rest
        self._registry = registry
        self._store = store
        self._lane = blocking.lane("files", 1)
        self._is_wanted = bool(manager.enabled) and instance.worker <= 1

    async def provision(self) -> None:
        rules = self._registry.find(_FILE_RULES) if self._is_wanted else None
        if rules is not None:
            rules_read = await run_blocking(self._lane, _load_rules, rules.config)
            self._warn((f"the rule {number} of the file", rule) for number, rule in rules_read)

    async def initialize(self) -> None:
        """Check the rules, the apps and the aggregations of the database."""
        documents: list[tuple[str, Any]] = []
        for name, what, db, collection in _KEPT if self._is_wanted else ():
            keeper = self._registry.find(name)
            if keeper is not None:
                stored = await self._store.reads.find(
                    getattr(keeper.config, db),
                    getattr(keeper.config, collection),
                    {},
                    limit=_MAX_DOCUMENTS,
                    deadline=Deadline.after_ms(_READ_MS),
                )
                documents += (
                    (f"the {what} {document.get('_id')}", document) for document in stored
                )
        self._warn([*documents, *await self._find_aggregations()])

    async def _find_aggregations(self) -> list[tuple[str, Any]]:
        is_served = self._is_wanted and self._rest.enabled
        mounts = map(split_mount, self._rest.mongo_mounts if is_served else ())
        named = {mount.what[0] for mount in mounts if mount.what and not mount.is_template}
        documents: list[tuple[str, Any]] = []
        for db in sorted(named):
            stored = await self._store.reads.find(
                db,
                METADATA_STORE,
                {"aggrs": {"$exists": True}},
                limit=_MAX_DOCUMENTS,
                deadline=Deadline.after_ms(_READ_MS),
            )
            documents += (
                (f"the aggrs of {document.get('_id')}", document["aggrs"]) for document in stored
            )
        return documents

    def _warn(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Emit one warning for each property, with the first places that use it."""
        places: dict[str, dict[str, None]] = {}
        for place, document in documents:
            for path in find_user_paths(document):
                if not self._names.carry(path):
                    # Tokens contain an array completely or not at all.
                    listable = takewhile(lambda step: not step.isdigit(), path)
                    places.setdefault(".".join(listable), {})[place] = None
        for missing, users in places.items():
            hint = f"list {missing!r} there if tokens should carry it"
            emit(ConfigWarning(CONFIGURATION, _OPTION, _describe(missing, list(users)), hint))


def find_user_paths(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the paths after `@user` in a rule or an app, whose filters may be JSON text."""
    if isinstance(value, str):
        yield from find_user_paths(_decode(value)) if value.lstrip()[:1] == "{" else _read(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key == _PREDICATE and isinstance(inner, str):
                yield from _find_in_predicate(inner)
            elif key != _NO_MAPPING:
                yield from find_user_paths(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from find_user_paths(inner)


def _find_in_predicate(text: str) -> Iterator[tuple[str, ...]]:
    try:
        tokens = tokenize(text, REFERENCES)
    except PredicateError:
        return  # the authorizer reports it
    for token in tokens:
        if token.kind is TokenKind.WORD:  # quoted text is never a variable
            yield from _read(token.value)


def _read(text: str) -> Iterator[tuple[str, ...]]:
    if not text.startswith("@user"):
        return
    try:
        head, *path = parse_path(text[1:])
    except ValueError:
        return  # the reader of the rule or the app reports it
    if head == "user" and path:
        yield tuple(path)


def _decode(text: str) -> Any:
    try:
        return decode(text)
    except DocgraphError:
        return None  # the reader of the rule reports it


def _load_rules(config: Any) -> list[tuple[int, Any]]:
    rules = config.permissions
    if config.conf_file is not None:
        try:
            content = to_plain(load_file(Path(config.conf_file), f"/{_FILE_RULES}/conf-file"))
        except ConfigError:
            return []  # the authorizer reports it, and prevents the start
        rules = content.get("permissions") if isinstance(content, dict) else None
    return list(enumerate(rules, 1)) if isinstance(rules, list | tuple) else []


def _describe(path: str, places: list[str]) -> str:
    more = len(places) - _MAX_PLACES
    named = ", ".join(places[:_MAX_PLACES]) + (f" and {more} more" if more > 0 else "")
    return f"@user.{path} is not bound for callers who come with a token, and is used by {named}"


class AccountBindings(Provider):
    """Provides itself: `find` lists the login methods with the names that they bind.

    Names of `@user` that are bound, by login method (decision 19). The provider `account-bindings`,
    for `docgraph access explain`: the account of a realm after a login by password, and after a
    login by each kind of token that is enabled.
    """

    name: ClassVar[str] = "accountBindings"
    description: ClassVar[str] = "which names of @user are bound, by how a caller logs in"
    provides: ClassVar[str] = "account-bindings"

    def __init__(
        self,
        config: PluginConfig,
        *,
        identity: IdentityAuthMechanism,
        jwt: JwtAuthenticationMechanism,
        signed: JwtTokenManager,
        random: RndTokenManager,
        cookies: AuthCookieSetter,
    ) -> None:
        self._identity = identity
        self._jwt = jwt
        self._signed = signed
        self._random = random
        self._cookies = cookies

    def get(self) -> AccountBindings:
        return self

    def find(self, account: Account) -> list[tuple[str, list[str]]]:
        """Return each enabled login method, with the names that are bound."""
        return [(way, sorted(names)) for way, names in self._find(account)]

    def _find(self, account: Account) -> Iterator[tuple[str, set[str]]]:
        yield account.kind, set(account.properties)
        token = None
        if self._signed.enabled:
            token = "own JWT", set(_sign(account, self._signed).properties)
        elif self._random.enabled:
            token = "random token", set(account.properties)
        if token is not None:
            yield token
            if self._cookies.enabled:
                yield f"cookie ({token[0]})", token[1]
        if self._identity.enabled:
            yield f"identity ({self._identity.username})", {"userid", "roles"}
        if self._jwt.enabled:
            yield "foreign JWT", {self._jwt.username_claim, "(every claim of the token)"}


def _sign(account: Account, manager: JwtTokenManager) -> Account:
    """Return the account as it is restored from a token of this service."""
    login = TokenAccount(account.name, account.roles, account.properties, account.kind)
    claims = build_claims(login, PropertyNames(manager.account_properties_claims))
    return restore(Verified(Account(account.name, account.roles, claims, "jwt")), "").account
