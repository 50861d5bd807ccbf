"""How a mechanism comes to the authenticator that its option names."""

from __future__ import annotations

from docgraph.exchange import StartupError
from docgraph.plugins.kinds import Authenticator, Kind
from docgraph.plugins.registry import PluginRegistry

__all__ = ["require_authenticator"]


def require_authenticator(registry: PluginRegistry, section: str, name: str) -> Authenticator:
    """The enabled authenticator of that name; anything else stops the start."""
    found = registry.find(name)
    if found is not None and found.kind is Kind.AUTHENTICATOR:
        authenticator: Authenticator = found
        return authenticator
    known = [one.name for one in registry.of_kind(Kind.AUTHENTICATOR)]
    listed = ", ".join(known) or "none; enable dbRealmAuthenticator or fileRealmAuthenticator"
    raise StartupError(
        f"/{section}/authenticator: there is no authenticator {name!r} that is on",
        hint=f"authenticators that are on: {listed}",
    )
