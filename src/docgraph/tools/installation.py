"""Installation for tools: its database, definitions, rules, services; a server without a port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from docgraph.access.explain_decision import ExplainedRequest
from docgraph.access.rule_filters import find_row_filters as find_filters
from docgraph.access.sections import DbAclAuthorizer, FileAclAuthorizer
from docgraph.access.service_comparison import find_namespaces
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.authoring.author_tool import OwnPlaces
from docgraph.cli.application import open_application, run_at_database, work_on
from docgraph.cli.apps.definitions import inspect_document
from docgraph.cli.apps.sources import (
    APP,
    MAPPINGS,
    SCHEMA_FILE,
    SUFFIXES,
    read_directory,
    write_definition,
)
from docgraph.cli.apps.sources import find_part as find_definition_part
from docgraph.config import ConfigSources
from docgraph.config.config_node import ConfigNode, Origin, to_plain
from docgraph.config.parse import parse_yaml
from docgraph.config.render import render_block
from docgraph.config.sources import load_file
from docgraph.exchange import Document, Resource, ResourceType, StartupError
from docgraph.exchange.data import CollectionName
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Plugin
from docgraph.rest.sections import Mongo
from docgraph.runtime import create_instance
from docgraph.server.app import Docgraph
from docgraph.server.builtin import BUILTIN
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.prepare import LoadedConfiguration, load_tree, prepare
from docgraph.server.settings import ServerSettings
from docgraph.store.driver.client import DriverClient, build_client, close_client
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.mounts import find_paths
from docgraph.store.sections import MClient

__all__ = [
    "ConfigNode",
    "Docgraph",
    "ExplainedRequest",
    "LoadedConfiguration",
    "LocalServer",
    "find_definition_part",
    "find_namespaces",
    "find_own_places",
    "find_rest_paths",
    "find_row_filters",
    "find_service_uri",
    "has_stored_rules",
    "inspect_document",
    "open_application",
    "open_client",
    "prepare_variant",
    "read_definition",
    "read_file_rules",
    "read_yaml",
    "render_block",
    "run_at_database",
    "serve_locally",
    "to_plain",
    "work_on",
    "write_definition",
]

_LARGEST: Final = 1 << 26  # bytes of a line that a connection reads


def find_own_places(prepared: LoadedConfiguration) -> OwnPlaces:
    """Return where docgraph stores what it reads itself."""
    get = prepared.config.get
    return OwnPlaces.of(get(Graphql), get(DbRealmAuthenticator), get(DbAclAuthorizer))


def has_stored_rules(prepared: LoadedConfiguration) -> bool:
    """Return whether rules in the database are used."""
    return prepared.config.get(DbAclAuthorizer).enabled


def read_file_rules(prepared: LoadedConfiguration) -> list[Mapping[str, Any]]:
    """Return the rules of the configuration and of the file that it names, as written."""
    section = prepared.config.get(FileAclAuthorizer)
    if not section.enabled:
        return []
    if section.conf_file is None:
        return list(section.permissions)
    node = load_file(Path(section.conf_file), f"/{section.section_name}/conf-file")
    plain: list[Mapping[str, Any]] = to_plain(node)["permissions"]
    return plain


async def find_row_filters(bench: Docgraph, places: Iterable[CollectionName]) -> list[RowFilter]:
    """Return the row filters of rules on these collections."""
    values = bench.plugins.values
    mongo = values["configuration"].get(Mongo.section_name) or Mongo()
    return list(find_filters(await values["acl-rules"].find_all(), places, mongo))


def find_rest_paths(bench: Docgraph, place: CollectionName) -> list[str]:
    """Return the paths of a collection in the REST API; none if it is off."""
    mongo = bench.plugins.values["configuration"].get(Mongo.section_name)
    if not isinstance(mongo, Mongo) or not mongo.enabled:
        return []
    resource = Resource(ResourceType.COLLECTION, *place)
    return list(map(encode_path, find_paths(resource, mongo.mongo_mounts, mongo.uri)))


def find_service_uri(bench: Docgraph, name: str) -> str | None:
    """Return the path of a service of that name, if it is enabled."""
    section: Any = bench.plugins.values["configuration"].get(name)
    return section.uri if section is not None and section.enabled else None


@asynccontextmanager
async def open_client(prepared: LoadedConfiguration, address: str) -> AsyncIterator[DriverClient]:
    """Open a client of PyMongo that passes no guards and no interceptors."""
    client = build_client(prepared.config.get(MClient), address)
    try:
        yield client
    finally:
        await close_client(client)


def read_definition(directory: Path) -> Document | None:
    """Return the definition that the files of a directory have; None if there is none.

    Raises `StartupError` unless its schema and its mappings are in files of their own.
    """
    if not (directory / SCHEMA_FILE).is_file():
        parts = (directory / f"{part}{suffix}" for part in (APP, MAPPINGS) for suffix in SUFFIXES)
        if (alone := next((path for path in parts if path.exists()), None)) is not None:
            raise StartupError(
                f"{alone} is there without {SCHEMA_FILE}",
                hint="choose another directory; nothing was changed",
            )
        return None
    definition = read_directory(directory)
    if definition.flaw is not None:
        raise StartupError(f"{directory}: {definition.flaw}", hint="nothing was changed")
    is_apart = any((directory / f"{MAPPINGS}{suffix}").is_file() for suffix in SUFFIXES)
    if definition.document.get(MAPPINGS) and not is_apart:
        raise StartupError(
            f"{directory}: the mappings are in the file of the app",
            hint=f"move them to {MAPPINGS}.yml; nothing was changed",
        )
    return definition.document


def read_yaml(text: str, file: str) -> ConfigNode | None:
    """Return a text of YAML with the position of every value; None if it is invalid."""
    parsed = parse_yaml(text, lambda line, column: Origin(file, line + 1, column + 1))
    return None if parsed.problems else parsed.node


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running application."""

    app: Docgraph
    _state: ProcessState

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a private connection: it has no address."""
        loop = asyncio.get_running_loop()
        theirs, ours = socket.socketpair()
        await loop.connect_accepted_socket(partial(HttpProtocol, self._state, loop), sock=theirs)
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LARGEST)
        try:
            yield reader, writer
        finally:
            writer.close()


def prepare_variant(
    sources: ConfigSources, settings: Sequence[str], plugins: Sequence[type[Plugin]]
) -> LoadedConfiguration:
    """Return the configuration with further options (as of `--set`) and plugins."""
    tree = load_tree(replace(sources, settings=(*sources.settings, *settings)))
    return prepare(tree, (*BUILTIN, *plugins))


@asynccontextmanager
async def serve_locally(prepared: LoadedConfiguration, address: str) -> AsyncIterator[LocalServer]:
    """Start the application on the database at that address; it stops at the end of the block."""
    with create_instance() as instance:
        app = Docgraph(prepared, instance, address)
        try:
            await app.startup()
            await app.contact_database()
            settings = ServerSettings.from_sections(prepared.config.sections)
            yield LocalServer(app, build_state(app, settings))
        finally:
            await app.shutdown()
