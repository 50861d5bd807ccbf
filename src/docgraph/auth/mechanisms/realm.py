"""Find the authenticator that the option of a mechanism names."""

from __future__ import annotations

from docgraph.exchange import StartupError
from docgraph.plugins.kinds import Authenticator, Kind
from docgraph.plugins.registry import PluginRegistry


def require_authenticator(registry: PluginRegistry, section: str, name: str) -> Authenticator:
    """Return the enabled authenticator of that name; raises a configuration error otherwise."""
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
