"""Plugin kinds as protocols: service, interceptor, authenticator, provider and others.

A plugin is a class with a `name` (its section in the configuration), a `Config` struct and a
constructor. The constructor takes that struct first and then, by keyword, the providers it names:
the parameter `acl_registry` receives the provider `acl-registry`. A parameter that is annotated
with the struct of another section receives that section.

Lifecycle: construct (no side effects) → `provision` (may do I/O) → `validate` (raises
`StartupError`) → use → `close`. Subclassing the protocols below gives the defaults; it is not
required.

A method that is `async` below may be a plain function in a plugin: then it runs in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from docgraph.config.section import PluginConfig, ServiceConfig
from docgraph.exchange import (
    Account,
    Answer,
    Body,
    DocgraphError,
    Document,
    Exchange,
    Parsed,
    Permission,
    Read,
    Resource,
    Write,
    WriteResult,
)

__all__ = [
    "ABSENT",
    "Absent",
    "Accepted",
    "AuthMechanism",
    "Authenticator",
    "Authorizer",
    "AuthorizerRole",
    "Command",
    "DataInterceptor",
    "Decision",
    "Initializer",
    "Interceptor",
    "Kind",
    "Outcome",
    "Plugin",
    "Point",
    "Provider",
    "Rejected",
    "Service",
    "TokenManager",
    "VariableResolver",
]


class Kind(StrEnum):
    """The kinds of plugins."""

    SERVICE = "service"
    INTERCEPTOR = "interceptor"
    DATA_INTERCEPTOR = "data-interceptor"
    AUTH_MECHANISM = "auth-mechanism"
    AUTHENTICATOR = "authenticator"
    TOKEN_MANAGER = "token-manager"  # noqa: S105 - a kind, not a secret
    AUTHORIZER = "authorizer"
    INITIALIZER = "initializer"
    PROVIDER = "provider"
    VARIABLE_RESOLVER = "variable-resolver"
    COMMAND = "command"


class Point(StrEnum):
    """The points of a request where an interceptor can run."""

    BEFORE_AUTH = "before-auth"
    AFTER_AUTH = "after-auth"
    AFTER_FAILED_AUTH = "after-failed-auth"
    RESPONSE = "response"


class Plugin(Protocol):
    """The attributes and methods of all plugins."""

    kind: ClassVar[Kind]
    name: ClassVar[str]
    description: ClassVar[str] = ""
    enabled_by_default: ClassVar[bool] = True
    part_of: ClassVar[str] = ""  # the plugin that enables and disables this one
    security: ClassVar[bool] = (
        False  # an enabled security plugin that cannot start stops the server
    )
    Config: ClassVar[type[PluginConfig]] = PluginConfig
    config: Any

    def __init__(self, config: Any) -> None:
        self.config = config

    # The body makes these three defaults: type checkers treat a protocol's empty method as
    # abstract.
    async def provision(self) -> None:
        """Prepare what needs I/O; all plugins are constructed by now."""
        return

    def validate(self) -> None:
        """Raise `StartupError` if the plugin cannot work as configured."""
        return

    async def close(self) -> None:
        """Release what `provision` acquired; called even when `provision` failed."""
        return


class Service(Plugin, Protocol):
    """Answers requests at and below its `uri`."""

    kind: ClassVar[Kind] = Kind.SERVICE
    Config: ClassVar[type[PluginConfig]] = ServiceConfig
    uri: ClassVar[str]
    exact: ClassVar[bool] = False  # only the uri itself, nothing below it
    methods: ClassVar[tuple[str, ...]] = ("GET",)
    accepted_headers: ClassVar[tuple[str, ...]] = ()  # that pages may send in addition
    secured: ClassVar[bool] = True
    is_probe: ClassVar[bool] = False  # answered immediately, not queued
    is_same_for_all: ClassVar[bool] = False  # independent of the caller, unless secured
    max_body_size: int = 1 << 20

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return the time limit of a request from its arrival; 0 means no limit."""
        return 0

    def parse(self, exchange: Exchange) -> Parsed | None:
        """Parse the request as `handle` will execute it, for rules; it is `exchange.parsed`.

        It runs for every caller, before authorization: no I/O, nothing of the body. An error raised
        here is the response after authorization, instead of `handle`.
        """
        return None

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the response; raise a `DocgraphError` for a request that cannot be answered."""

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods of this resource; HEAD and OPTIONS are added automatically."""
        return self.methods

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render the error in the format of this service; None: the general format."""
        return None


class Interceptor(Plugin, Protocol):
    """Intercepts requests at a named point; lower `priority` first.

    One at `response` with `is_stable` changes equal responses to equal requests of the same caller
    in the same way. Answers that another one changes are neither cached nor sent as live queries.
    One `only_with_attribute` concerns requests whose `exchange.attributes` have it, and no others.
    """

    kind: ClassVar[Kind] = Kind.INTERCEPTOR
    point: ClassVar[Point] = Point.AFTER_AUTH
    priority: ClassVar[int] = 10
    is_stable: ClassVar[bool] = False

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether this request concerns the interceptor."""
        return True

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Return a response to end the request (at `response`: to replace it), or None."""


class DataInterceptor(Plugin, Protocol):
    """Intercepts reads and writes of documents from any source; lower `priority` first.

    It runs at the points whose methods it overrides (before-write, after-write, before-read,
    after-read), at least one. A method raises an error to reject, and its result replaces its
    argument. `exchange` is None for commands of the command line.

    An interceptor at before-write with `wants_whole_documents` sees updates of a single document as
    replacements: the REST API applies them to the stored document and guards the write by its ETag.

    An interceptor at after-read with `takes_portions` treats each document alone, and may receive
    the documents of a large response in several portions. Others receive all of them in one call.
    If none `changes_read`, the documents need not be decoded.

    Interceptors at after-write all run, also when the client has disconnected or one of them
    raises. One with `hears_uncertain` is also called after a write that failed and may have been
    applied nevertheless (a lost connection, a timeout): its `WriteResult` is `uncertain`.
    """

    kind: ClassVar[Kind] = Kind.DATA_INTERCEPTOR
    priority: ClassVar[int] = 10
    wants_whole_documents: ClassVar[bool] = False
    hears_uncertain: ClassVar[bool] = False
    takes_portions: ClassVar[bool] = False

    def resolve(self, resource: Resource) -> bool:
        """Return whether this resource concerns the interceptor."""

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        """Return the read to run, or to count the documents of."""
        return read

    def changes_read(self, exchange: Exchange | None, resource: Resource) -> bool:
        """Return whether `after_read` concerns this read; its resource does."""
        return True

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """Return the documents for the caller."""
        return documents

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write to run."""
        return write

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Return the result for the caller; the write has been applied."""
        return result


@dataclass(frozen=True, slots=True)
class Absent:
    """The request has no credentials for this mechanism."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request has credentials for this mechanism, and they are not accepted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The caller is authenticated."""

    account: Account


Outcome = Absent | Rejected | Accepted
ABSENT = Absent()


class AuthMechanism(Plugin, Protocol):
    """Authenticates callers; lower `priority` is tried first. Never writes to the response.

    A class with an `authorization_scheme` of its own (in lower case) reads nothing but credentials
    of that scheme in `Authorization`; it is not called for requests without.
    """

    kind: ClassVar[Kind] = Kind.AUTH_MECHANISM
    security: ClassVar[bool] = True
    priority: ClassVar[int] = 10

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Return the result of this mechanism for the request."""

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """Return the values of `WWW-Authenticate` that this mechanism offers."""
        return ()


class Authenticator(Plugin, Protocol):
    """Looks up users and checks passwords."""

    kind: ClassVar[Kind] = Kind.AUTHENTICATOR
    security: ClassVar[bool] = True

    async def verify(self, user: str, password: str) -> Account | None:
        """Return the account, or None; both take the same time."""


@runtime_checkable
class UserFinder(Protocol):
    """An authenticator that can find a user without a password; it need not have the method."""

    async def find(self, user: str) -> Account | None:
        """Return the account, or None when it does not exist."""


@runtime_checkable
class KeyOwners(UserFinder, Protocol):
    """An authenticator whose users can own API keys."""

    async def find_owner(self, user: str) -> tuple[Account, str] | None:
        """Return the account and a text that every new password changes: keys end then."""
        ...


@runtime_checkable
class DigestAuthenticator(UserFinder, Protocol):
    """An authenticator that digest authentication can use."""

    async def digest_secret(self, user: str, realm: str, algorithm: str) -> str | None:
        """Return HA1 in lower-case hexadecimal digits; None for a user without one."""


class TokenManager(Plugin, Protocol):
    """Issues, verifies and revokes tokens."""

    kind: ClassVar[Kind] = Kind.TOKEN_MANAGER
    security: ClassVar[bool] = True

    async def issue(self, account: Account, *, renew: bool = False) -> tuple[str, float]:
        """Return a token for the account and its expiry (seconds since the epoch)."""

    async def verify(self, user: str, token: str) -> Account | None:
        """Return the account that the token was issued for."""

    async def revoke(self, account: Account) -> None:
        """Revoke the account's token."""


class AuthorizerRole(StrEnum):
    """A vetoer can only deny, an allower can only approve."""

    VETOER = "vetoer"
    ALLOWER = "allower"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an authorizer, with its reason."""

    allowed: bool
    reason: str
    authorizer: str = ""
    permission: Permission | None = None  # the conditions of an approval


class Authorizer(Plugin, Protocol):
    """Decides whether a request may proceed.

    An allower whose own class says that it `takes_anonymous` callers never requires a login. One
    that `decides_by` a list, or that `demands_by` a list whether callers must log in, is not asked
    while that list is empty; lists may grow. A vetoer of `only_data` concerns REST requests only.
    """

    kind: ClassVar[Kind] = Kind.AUTHORIZER
    security: ClassVar[bool] = True
    role: ClassVar[AuthorizerRole] = AuthorizerRole.ALLOWER
    priority: ClassVar[int] = 10

    async def decide(self, exchange: Exchange) -> Decision:
        """Return `allowed=False` as the veto of a vetoer, `allowed=True` to approve."""

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return whether an anonymous caller must log in before this allower could approve."""
        return True


@runtime_checkable
class LoginDemander(Protocol):
    """An authorizer that can require a login, regardless of the allowers."""

    async def demands_login(self, exchange: Exchange) -> bool:
        """Return whether this request requires an authenticated caller."""


class Initializer(Plugin, Protocol):
    """Runs once, when the database is first available."""

    kind: ClassVar[Kind] = Kind.INITIALIZER
    priority: ClassVar[int] = 10

    async def initialize(self) -> None:
        """Run once per process; an error is logged, and the call is retried later."""


class Provider(Plugin, Protocol):
    """Provides a named value to the constructors of other plugins."""

    kind: ClassVar[Kind] = Kind.PROVIDER
    provides: ClassVar[str]

    def get(self) -> Any:
        """Return the value; called once, after construction of this provider."""


class VariableResolver(Plugin, Protocol):
    """Resolves `@<variable>…` in mappings, filters and predicates.

    With `is_stable`, its value depends on the caller alone. Answers that use another variable are
    neither cached nor sent as live queries.
    """

    kind: ClassVar[Kind] = Kind.VARIABLE_RESOLVER
    variable: ClassVar[str]  # without the @
    is_stable: ClassVar[bool] = False

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        """Return the value of the whole expression; None counts as unbound."""


@runtime_checkable
class Command(Plugin, Protocol):
    """A command of the command line: `docgraph <name> …`."""

    kind: ClassVar[Kind] = Kind.COMMAND

    async def run(self, arguments: Sequence[str]) -> int:
        """Run the command; return the exit code."""
