"""`docgraph demo`: a sample blog on an embedded MongoDB."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click
import orjson

from docgraph.cli.options import configured, listening
from docgraph.cli.terminal import make_printable, notice, progress
from docgraph.config import ConfigSources, ConfigTree
from docgraph.config.sources import locating
from docgraph.exchange import (
    Deadline,
    DocgraphError,
    Document,
    Resource,
    ResourceType,
    StartupError,
    Write,
    WriteKind,
)

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration
    from docgraph.store import Store

DB, DEFINITIONS = "docgraph", "gql-apps"
_QUERY = "{ posts(limit: 2) { title published author { name city } } }"
INDEXES: dict[str, tuple[dict[str, int], ...]] = {
    "posts": (
        {"authorId": 1, "published": -1, "_id": -1},
        {"published": 1, "_id": 1},
        {"number": 1},
    ),
    "comments": ({"postId": 1},),
}
_CONNECTION = "/mclient/connection-string"
_SECONDS = 60


class _OwnDatabaseError(StartupError):
    """The demo was started with the configuration of another database."""

    exit_code: ClassVar[int] = 2


@click.command()
@configured
@listening
def demo(sources: ConfigSources) -> None:
    """Serve a sample blog on an embedded MongoDB.

    The API of the blog is open to everyone on this machine, the rest to the administrator only.
    """
    from docgraph.runtime.sections import Core
    from docgraph.server.prepare import load_tree, prepare
    from docgraph.server.process.host import announce, host

    tree = load_tree(sources)
    if tree.is_set(_CONNECTION):
        raise _OwnDatabaseError(
            "the demo writes sample data, and never into a database of yours: "
            f"mclient.connection-string is set ({tree.origin(_CONNECTION)})",
            hint="take it away for the demo, or serve that database with `docgraph serve`",
        )
    directory = Path(prepare(tree).config.get(Core).data_directory)

    def on_ready(urls: Sequence[str], missing: str) -> None:
        _greet(urls[0], directory.resolve(), is_chosen=tree.is_set("/core/data-directory"))
        announce(urls, missing)

    def on_address(address: str) -> None:
        with progress("loading the sample blog"):
            try:
                asyncio.run(_load_blog(tree, address))
            except DocgraphError as error:
                raise StartupError(
                    f"the sample blog could not be loaded: {error.message}",
                    hint=error.hint or "start it again: what is already stored stays",
                ) from error

    with locating(tree):
        sys.exit(
            host(
                tree,
                say=notice,
                on_address=on_address,
                on_ready=on_ready,
                load_again=lambda: load_tree(sources),
            )
        )


async def _load_blog(tree: ConfigTree, address: str) -> None:
    """Insert what is missing; existing documents stay, changed or not."""
    from docgraph.cli.application import open_application
    from docgraph.server.prepare import prepare

    prepared = prepare(tree)
    async with open_application(prepared, address) as app:
        await load_blog_data(app.store)
        if await _is_empty(app.store, DEFINITIONS, {"_id": "blog"}):
            await _insert(app.store, DEFINITIONS, [_read_definition()])
        await _open_blog(prepared, app)


async def load_blog_data(store: Store) -> None:
    """Insert the documents of the blog, with their indexes, unless there are some already."""
    from docgraph.cli.demo.data import build_blog

    if not all([await _is_empty(store, name) for name in ("authors", "posts")]):
        return
    for name, documents in build_blog().items():
        await _insert(store, name, documents)
        for keys in INDEXES.get(name, ()):
            deadline = Deadline.after_ms(_SECONDS * 1000)
            await store.writes.ensure_index(DB, name, keys, deadline=deadline)


async def load_documents(store: Store, collection: str, documents: Sequence[Document]) -> bool:
    """Insert documents into an empty collection; return whether it was empty."""
    if not await _is_empty(store, collection):
        return False
    await _insert(store, collection, documents)
    return True


async def _open_blog(prepared: LoadedConfiguration, app: Docgraph) -> None:
    """Open the blog to everyone, by a rule that `acl list` and `access explain` show, too."""
    from docgraph.access.rule import UNAUTHENTICATED
    from docgraph.access.sections import DbAclAuthorizer
    from docgraph.cli.acl.opening import build_rule
    from docgraph.cli.acl.rules import RuleCollection
    from docgraph.graphql.sections import Graphql

    settings = prepared.config.get(DbAclAuthorizer)
    rules, base = RuleCollection(app, settings), prepared.config.get(Graphql).uri
    rule = build_rule(_read_definition(), base, [UNAUTHENTICATED])
    if settings.enabled and await rules.find(rule["_id"]) is None:
        await rules.add([rule], replace=False)


async def _is_empty(store: Store, collection: str, filter: Document | None = None) -> bool:
    deadline = Deadline.after_ms(_SECONDS * 1000)
    return await store.reads.count(DB, collection, filter or {}, limit=1, deadline=deadline) == 0


async def _insert(store: Store, collection: str, documents: Sequence[Document]) -> None:
    await store.writes.write(
        Resource(ResourceType.COLLECTION, DB, collection),
        Write(WriteKind.INSERT, tuple(documents)),
        deadline=Deadline.after_ms(_SECONDS * 1000),
    )


def _read_definition() -> Document:
    text = files("docgraph.cli.demo").joinpath("blog.json").read_bytes()
    definition: Document = orjson.loads(text)
    return definition


def _invite_to_console(url: str) -> tuple[str, ...]:
    """Return the lines about the console, which a checkout has only after `make console`."""
    from docgraph.console.service import STATIC, Site

    if Site(STATIC).find_manifest() is None:
        return ("  `make console` builds the console, which needs Node.js.", "")
    return (f"  or open {url}/console/ask/blog in a browser.", "")


def _greet(url: str, directory: Path, *, is_chosen: bool) -> None:
    body = orjson.dumps({"query": _QUERY}).decode()
    where = make_printable(f" --data {shlex.quote(str(directory))}") if is_chosen else ""
    for line in (
        "",
        f"  docgraph is at {url} with a sample blog. Try this in another terminal:",
        "",
        f"    curl -s {url}/graphql/blog -H 'Content-Type: application/json' \\",
        f"      -d '{body}'",
        "",
        *_invite_to_console(url),
        f"  `docgraph apps show blog{where}` prints the document that defines this API;",
        f"  `docgraph apps apply FILE{where}` adds one of your own.",
        f"  The data lies in {directory} and stays there. Ctrl-C stops everything.",
        "",
    ):
        notice(line)
