"""`docgraph completion`: the script for shell completion, and the names that it completes.

Names of apps, users and roles come from the database of the configuration, if it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from docgraph.exchange import Deadline, DocgraphError, Document, StartupError

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_VARIABLE = "_DOCGRAPH_COMPLETE"  # the script sets it to request completions
# click's script for fish cuts the description of a command at its first comma.
_CUT_SHORT, _WHOLE = 'string split ","', 'string split --max 1 ","'
_MAX_NAMES = 1_000
_SECONDS = 3.0  # a shell waits for the names


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for shell completion of commands, options and names.

    \b
    bash:  eval "$(docgraph completion bash)"          in ~/.bashrc
    zsh:   eval "$(docgraph completion zsh)"           in ~/.zshrc, after compinit
    fish:  docgraph completion fish | source           in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise StartupError(f"this version of click does not know the shell {shell!r}")
    script = kind(ctx.find_root().command, {}, "docgraph", _VARIABLE).source()
    click.echo(script.replace(_CUT_SHORT, _WHOLE))


def _completer(read: Callable[[Docgraph], Awaitable[Iterable[str]]]) -> Completer:
    """Return the completion of names that `read` finds; none if they cannot be read in time."""

    @wraps(read)
    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        from docgraph.cli.application import work_on
        from docgraph.cli.options import prepare_sources, read_sources
        from docgraph.embedded import EmbeddedMongo
        from docgraph.runtime.sections import Core
        from docgraph.store.sections import MClient

        async def read_in_time(app: Docgraph) -> Iterable[str]:
            async with asyncio.timeout(_SECONDS):
                return await read(app)

        given: dict[str, Any] = {"config": None, "overrides": None, "settings": (), "data": None}
        given |= {name: value for name, value in ctx.params.items() if name in given and value}
        try:
            prepared = prepare_sources(read_sources(**given))
            directory = prepared.config.get(Core).data_directory
            is_own = prepared.config.get(MClient).connection_string is not None
            if not is_own and EmbeddedMongo.find_running(directory) is None:
                return []  # completing a name starts no database
            names = work_on(prepared, read_in_time)
        except (DocgraphError, StartupError, TimeoutError):
            return []  # a shell has no place for a message
        return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(typed)]

    return complete


@_completer
async def complete_apps(app: Docgraph) -> Iterable[str]:
    """Complete the ids of stored apps."""
    settings = app.plugins.values["configuration"]["graphql"]
    return [
        str(document["_id"])
        for document in await _find(app, settings.db, settings.collection, "_id")
    ]


@_completer
async def complete_users(app: Docgraph) -> Iterable[str]:
    """Complete the names of users in the database."""
    from docgraph.auth.authenticators.db_users import REALM

    settings = app.plugins.find(REALM).config
    documents = await _find(app, settings.users_db, settings.users_collection, settings.prop_id)
    return [str(document.get(settings.prop_id, "")) for document in documents]


@_completer
async def complete_roles(app: Docgraph) -> Iterable[str]:
    """Complete the roles that users in the database have."""
    from docgraph.auth.authenticators.db_users import REALM

    realm = app.plugins.find(REALM)
    documents = await _find(app, realm.config.users_db, realm.config.users_collection)
    return [role for document in documents for role in realm.reader.roles.read(document) or ()]


async def _find(app: Docgraph, db: str, collection: str, *fields: str) -> list[Document]:
    return await app.store.reads.find(
        db,
        collection,
        {},
        projection=dict.fromkeys(fields, 1) or None,
        limit=_MAX_NAMES,
        deadline=Deadline.after_ms(int(_SECONDS * 1000)),
    )
