"""The kinds of plugins: small protocols, one file.

A plugin is a class with a `name` (its section in the configuration), a `Config` struct and a
constructor that takes that struct first and then, by keyword, the providers it names: the
parameter `acl_registry` receives the provider `acl-registry`. A parameter that is annotated with
the struct of another section receives that section.

Life: construct (no side effects) → `provision` (may do I/O) → `validate` (raises `StartupError`)
→ use → `close`. Subclassing the protocols below gives the defaults; it is not required.

What is `async` below may be a plain function in a plugin: it runs in a thread then.
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
    """What a plugin is good for."""

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
    """Where an interceptor can stand on the way of a request."""

    BEFORE_AUTH = "before-auth"
    AFTER_AUTH = "after-auth"
    AFTER_FAILED_AUTH = "after-failed-auth"
    RESPONSE = "response"


class Plugin(Protocol):
    """What all plugins have in common."""

    kind: ClassVar[Kind]
    name: ClassVar[str]
    description: ClassVar[str] = ""
    enabled_by_default: ClassVar[bool] = True
    part_of: ClassVar[str] = ""  # the plugin that this one is on and off with
    security: ClassVar[bool] = (
        False  # an enabled security plugin that cannot start stops the server
    )
    Config: ClassVar[type[PluginConfig]] = PluginConfig
    config: Any

    def __init__(self, config: Any) -> None:
        self.config = config

    async def provision(self) -> None:
        """Make ready what needs I/O; everything is constructed by now."""

    def validate(self) -> None:
        """Raise `StartupError` when the plugin cannot work as configured."""

    async def close(self) -> None:
        """Give back what `provision` took; called even when `provision` failed."""


class Service(Plugin, Protocol):
    """Answers requests at and below its `uri`."""

    kind: ClassVar[Kind] = Kind.SERVICE
    Config: ClassVar[type[PluginConfig]] = ServiceConfig
    uri: ClassVar[str]
    exact: ClassVar[bool] = False  # only the uri itself, nothing below it
    methods: ClassVar[tuple[str, ...]] = ("GET",)
    accepted_headers: ClassVar[tuple[str, ...]] = ()  # that pages may send beside the usual ones
    secured: ClassVar[bool] = True
    is_probe: ClassVar[bool] = False  # answered at once, however many requests wait for their turn
    is_same_for_all: ClassVar[bool] = False  # who asks does not matter, unless it is secured
    max_body_size: int = 1 << 20

    def time_limit_ms(self, exchange: Exchange) -> int:
        """How long a request may take, from its arrival on; 0 means as long as it needs."""
        return 0

    def parse(self, exchange: Exchange) -> Parsed | None:
        """The request as `handle` will carry it out, for rules to judge; it is `exchange.parsed`.

        Runs for every caller, before authorization: no I/O, nothing of the body. What is raised
        here is answered after authorization, in place of `handle`.
        """
        return None

    async def handle(self, exchange: Exchange) -> Answer:
        """Answer; raise a `DocgraphError` for what cannot be answered."""
        ...

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """The methods that this resource takes; HEAD and OPTIONS come by themselves."""
        return self.methods

    def render_error(self, error: DocgraphError) -> Body | None:
        """The error in this service's own shape; None: the general one."""
        return None


class Interceptor(Plugin, Protocol):
    """Sees requests at a named point; lower `priority` first."""

    kind: ClassVar[Kind] = Kind.INTERCEPTOR
    point: ClassVar[Point] = Point.AFTER_AUTH
    priority: ClassVar[int] = 10

    def resolve(self, exchange: Exchange) -> bool:
        """Whether this request concerns the interceptor."""
        return True

    async def handle(self, exchange: Exchange) -> Answer | None:
        """An answer ends the walk down (at `response`: replaces the answer); None goes on."""
        ...


class DataInterceptor(Plugin, Protocol):
    """Sees reads and writes of documents, whoever makes them; lower `priority` first.

    It stands at the points whose methods it overrides (before-write, after-write, before-read,
    after-read), one at least; a method raises to refuse, and what it returns takes the place of
    what it was given. `exchange` is None for commands of the command line.

    One at before-write with `wants_whole_documents` sees updates of a single document as
    replacements: the REST API applies them to what is stored and guards the write by its etag.

    One at after-read with `takes_portions` treats each document alone, and may be given the
    documents of a large answer in several portions; others are given all of them at once.

    Those at after-write run all of them, also when the client is gone by then or one of them
    raises. One with `hears_uncertain` is also called after a write that failed and may be done
    nevertheless (a lost connection, time that was up): its `WriteResult` is `uncertain`.
    """

    kind: ClassVar[Kind] = Kind.DATA_INTERCEPTOR
    priority: ClassVar[int] = 10
    wants_whole_documents: ClassVar[bool] = False
    hears_uncertain: ClassVar[bool] = False
    takes_portions: ClassVar[bool] = False

    def resolve(self, resource: Resource) -> bool:
        """Whether this resource concerns the interceptor."""
        ...

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        """The read that is made, or whose documents are counted."""
        return read

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """The documents that the caller gets."""
        return documents

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """The write that is made."""
        return write

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """The result that the caller gets of the write, which has been made."""
        return result


@dataclass(frozen=True, slots=True)
class Absent:
    """The request carries nothing for this mechanism."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request carries credentials for this mechanism and they are not accepted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The caller is known."""

    account: Account


Outcome = Absent | Rejected | Accepted
ABSENT = Absent()


class AuthMechanism(Plugin, Protocol):
    """Finds out who is calling; lower `priority` is tried first. Never writes to the response."""

    kind: ClassVar[Kind] = Kind.AUTH_MECHANISM
    security: ClassVar[bool] = True
    priority: ClassVar[int] = 10

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """What this mechanism makes of the request."""
        ...

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """The values of `WWW-Authenticate` that this mechanism offers."""
        return ()


class Authenticator(Plugin, Protocol):
    """Knows users and their passwords."""

    kind: ClassVar[Kind] = Kind.AUTHENTICATOR
    security: ClassVar[bool] = True

    async def verify(self, user: str, password: str) -> Account | None:
        """The account, or None; both take the same time."""
        ...


class TokenManager(Plugin, Protocol):
    """Makes, knows and revokes tokens."""

    kind: ClassVar[Kind] = Kind.TOKEN_MANAGER
    security: ClassVar[bool] = True

    async def issue(self, account: Account, *, renew: bool = False) -> tuple[str, float]:
        """A token for the account and the time (seconds since the epoch) it ends."""
        ...

    async def verify(self, user: str, token: str) -> Account | None:
        """The account that the token was made for."""
        ...

    async def revoke(self, account: Account) -> None:
        """End the account's token."""
        ...


class AuthorizerRole(StrEnum):
    """A vetoer can only deny, an allower can only approve."""

    VETOER = "vetoer"
    ALLOWER = "allower"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of an authorizer, with its reason."""

    allowed: bool
    reason: str
    authorizer: str = ""
    permission: Permission | None = None  # the conditions that an approval comes with


class Authorizer(Plugin, Protocol):
    """Says whether a request may proceed."""

    kind: ClassVar[Kind] = Kind.AUTHORIZER
    security: ClassVar[bool] = True
    role: ClassVar[AuthorizerRole] = AuthorizerRole.ALLOWER
    priority: ClassVar[int] = 10

    async def decide(self, exchange: Exchange) -> Decision:
        """For a vetoer `allowed=False` is a veto; for an allower `allowed=True` an approval."""
        ...

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Whether an anonymous caller has to log in before this allower could say yes."""
        return True


class Initializer(Plugin, Protocol):
    """Does something once, when the database first answers."""

    kind: ClassVar[Kind] = Kind.INITIALIZER
    priority: ClassVar[int] = 10

    async def initialize(self) -> None:
        """Called once per process; raising is logged and tried again later."""
        ...


class Provider(Plugin, Protocol):
    """Gives a named value to the constructors of other plugins."""

    kind: ClassVar[Kind] = Kind.PROVIDER
    provides: ClassVar[str]

    def get(self) -> Any:
        """The value; called once, after construction of this provider."""
        ...


class VariableResolver(Plugin, Protocol):
    """Gives the value of `@<variable>…` in mappings, filters and predicates."""

    kind: ClassVar[Kind] = Kind.VARIABLE_RESOLVER
    variable: ClassVar[str]  # without the @

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        """The value of the whole expression; None counts as unbound."""
        ...


@runtime_checkable
class Command(Plugin, Protocol):
    """A command of the command line: `docgraph <name> …`."""

    kind: ClassVar[Kind] = Kind.COMMAND

    async def run(self, arguments: Sequence[str]) -> int:
        """Do it; the result is the exit code."""
        ...
