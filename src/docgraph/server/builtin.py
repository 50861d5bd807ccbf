"""The built-in plugins: delete a line, lose a feature."""

from __future__ import annotations

from docgraph.access.full import FullAuthorizer
from docgraph.auth.mechanisms.identity import IdentityMechanism
from docgraph.graphql.service import GraphqlService
from docgraph.graphql.upkeep import AppsIndex, AppsInitializer, AppsProvider, AppsUpdater
from docgraph.graphql.writes import DefinitionChecker, DefinitionReader, DefinitionTeller
from docgraph.plugins.kinds import Plugin
from docgraph.server.services.health import DatabaseProbe
from docgraph.server.services.metrics import MetricsService
from docgraph.server.services.ping import Ping
from docgraph.store import ClientProvider

__all__ = ["BUILTIN"]

BUILTIN: tuple[type[Plugin], ...] = (
    # the database client, for plugins
    ClientProvider,
    # who is calling
    IdentityMechanism,
    # may they
    FullAuthorizer,
    # GraphQL apps
    GraphqlService,
    AppsProvider,
    AppsInitializer,
    AppsUpdater,
    AppsIndex,
    DefinitionChecker,
    DefinitionTeller,
    DefinitionReader,
    # the server itself
    Ping,
    DatabaseProbe,
    MetricsService,
)
