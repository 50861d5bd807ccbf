"""The provider `acl-registry`: authorization by predicates that plugins register in code.

A predicate receives the request (which has its `account`) and returns true or false, directly or as
an awaitable. A predicate that raises counts against the caller: as a veto, as no approval, as a
required login.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import ClassVar

from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import RequestError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision, Provider

RequestPredicate = Callable[[Request], bool | Awaitable[bool]]

_PASSED = Decision(True, "no veto predicate holds")
_NOT_ALLOWED = Decision(False, "no allow predicate holds")


class ACLRegistry:
    """The registered predicates, in the order of their registration."""

    def __init__(self) -> None:
        self.vetoes: list[RequestPredicate] = []
        self.allows: list[RequestPredicate] = []
        self.requirements: list[RequestPredicate] = []

    def register_veto(self, predicate: RequestPredicate) -> None:
        """Deny every request for which the predicate is true."""
        self.vetoes.append(predicate)

    def register_allow(self, predicate: RequestPredicate) -> None:
        """Approve every request for which the predicate is true, unless it is vetoed."""
        self.allows.append(predicate)

    def register_authentication_requirement(self, predicate: RequestPredicate) -> None:
        """Require a login for every request for which the predicate is true."""
        self.requirements.append(predicate)

    registerVeto = register_veto  # the specification's names
    registerAllow = register_allow
    registerAuthenticationRequirement = register_authentication_requirement


async def _find(
    predicates: list[RequestPredicate], request: Request, stage: str, *, on_failure: bool
) -> RequestPredicate | None:
    """Return the first predicate that is true; `on_failure`: one that raises counts as true."""
    for predicate in predicates:
        try:
            answer = predicate(request)
            holds = bool(await answer if isawaitable(answer) else answer)
        except RequestError:  # the request is invalid: not a fault of the predicate
            holds = on_failure
        except MemoryError:
            raise
        except Exception as error:  # a plugin's own code
            emit(PluginFailed("acl-registry", f"{stage} predicate {describe(predicate)}", error))
            holds = on_failure
        if holds:
            return predicate
    return None


def describe(predicate: RequestPredicate) -> str:
    """Return the name of a predicate that its author recognizes."""
    module = getattr(predicate, "__module__", "")
    name = getattr(predicate, "__qualname__", type(predicate).__qualname__)
    return f"{module}.{name}" if module else name


class ACLRegistryProvider(Provider):
    """Provides the registry to every plugin that requires `acl-registry`."""

    name: ClassVar[str] = "aclRegistry"
    description: ClassVar[str] = "access predicates that plugins register"
    provides: ClassVar[str] = "acl-registry"

    def __init__(self, config: PluginConfig) -> None:
        self._registry = ACLRegistry()

    def get(self) -> ACLRegistry:
        return self._registry


class ACLRegistryVetoer(Authorizer):
    """Enforces veto predicates and authentication requirements."""

    name: ClassVar[str] = "ACLRegistryVetoer"
    description: ClassVar[str] = "denies by the veto predicates of acl-registry"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER

    def __init__(self, config: PluginConfig, acl_registry: ACLRegistry) -> None:
        self.decides_by = acl_registry.vetoes
        self.demands_by = acl_registry.requirements

    async def decide(self, exchange: Exchange) -> Decision:
        veto = await _find(self.decides_by, exchange.request, "veto", on_failure=True)
        if veto is None:
            return _PASSED
        return Decision(False, f"the veto predicate {describe(veto)} holds")

    async def demands_login(self, exchange: Exchange) -> bool:
        """Return whether a registered authentication requirement is true."""
        required = await _find(self.demands_by, exchange.request, "requirement", on_failure=True)
        return required is not None


class ACLRegistryAllower(Authorizer):
    """Enforces allow predicates; their approvals have no conditions."""

    name: ClassVar[str] = "ACLRegistryAllower"
    description: ClassVar[str] = "approves by the allow predicates of acl-registry"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.ALLOWER

    def __init__(self, config: PluginConfig, acl_registry: ACLRegistry) -> None:
        self.decides_by = acl_registry.allows

    async def decide(self, exchange: Exchange) -> Decision:
        allow = await _find(self.decides_by, exchange.request, "allow", on_failure=False)
        if allow is None:
            return _NOT_ALLOWED
        return Decision(True, f"the allow predicate {describe(allow)} holds")

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return False: plugins register authentication requirements instead."""
        return False

    @property
    def is_idle(self) -> bool:
        """Whether no plugin has registered an allow predicate."""
        return not self.decides_by
