"""`docgraph users`: add, list, change and remove users, set passwords, print hashes.

Writes pass the same checks and the same hashing as any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.cli.completion import complete_roles, complete_users
from docgraph.cli.options import (
    configured,
    is_typed,
    password_file_option,
    prepare_sources,
    read_secret,
)
from docgraph.cli.terminal import make_printable, notice, print_table
from docgraph.cli.user_properties import check_names, property_option, read_properties
from docgraph.config import ConfigSources
from docgraph.exchange import (
    Deadline,
    DocgraphError,
    Document,
    Read,
    Resource,
    ResourceType,
    StartupError,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict

if TYPE_CHECKING:
    from docgraph.access.role_escalation import RootRoleGuard
    from docgraph.auth.authenticators.db_users import DatabaseRealm
    from docgraph.server.app import Docgraph

_T = TypeVar("_T")
_LIMIT_MS = 30_000
_MAX_USERS = 100_000


@click.group()
def users() -> None:
    """Add, list, change and remove the users of dbRealmAuthenticator."""


_weak_option = click.option(
    "--weak", is_flag=True, help="Accept a password that is guessed immediately."
)


@users.command()
@click.argument("user")
@click.option(
    "--role",
    "roles",
    multiple=True,
    shell_complete=complete_roles,
    help="A role of the user; repeatable.",
)
@property_option
@password_file_option
@_weak_option
@configured
def add(
    sources: ConfigSources,
    *,
    user: str,
    roles: tuple[str, ...],
    given: tuple[str, ...],
    password_file: Path | None,
    weak: bool,
) -> None:
    """Add a user.

    Warns about a weak password, and rejects the weakest ones unless --weak is given. The
    configuration can reject more (enforce-minimum-password-strength).
    """
    from docgraph.auth.authenticators.db_users import put_value
    from docgraph.auth.authenticators.first_user import build_user

    _check_name(user)

    async def reject_existing(bench: _Users) -> None:
        read_properties(given, bench.settings)
        if await bench.find(user):
            raise _exists(user)

    if is_typed(password_file):
        _run(sources, reject_existing)
    password = read_secret(password_file, is_new=True)

    async def insert(bench: _Users) -> None:
        await reject_existing(bench)
        properties = read_properties(given, bench.settings)
        bench.reject_root_role(Write(WriteKind.INSERT, (properties,)))
        document = build_user(bench.realm, user, password, roles)
        for path, value in properties.items():
            put_value(document, path, value)
        _reject_weakest(password, user, is_accepted=weak)
        try:
            await bench.write(Write(WriteKind.INSERT, (document,)))
        except Conflict:
            raise _exists(user) from None
        _warn_if_weak(password, user, bench.settings)
        notice(f"added {user!r} with {_describe(roles)}")

    _run(sources, insert)


@users.command()
@click.argument("user", shell_complete=complete_users)
@password_file_option
@_weak_option
@configured
def passwd(sources: ConfigSources, user: str, password_file: Path | None, weak: bool) -> None:
    """Set the password of a user, and end tokens that were issued with the old one."""

    async def require(bench: _Users) -> None:
        if not await bench.find(user):
            raise _missing(user)

    if is_typed(password_file):
        _run(sources, require)
    password = read_secret(password_file, is_new=True)

    async def update(bench: _Users) -> None:
        await require(bench)
        _reject_weakest(password, user, is_accepted=weak)
        change = {"$set": {bench.settings.prop_password: password}}
        result = await bench.write(
            Write(WriteKind.UPDATE, update=change, filter=bench.name_filter(user))
        )
        if not result.matched:
            raise _missing(user)
        _warn_if_weak(password, user, bench.settings)
        notice(f"{user!r} has a new password")

    _run(sources, update)


@users.command("set")
@click.argument("user", shell_complete=complete_users)
@property_option
@click.option("--without", multiple=True, metavar="NAME", help="Remove a property; repeatable.")
@configured
def set_(
    sources: ConfigSources, user: str, given: tuple[str, ...], without: tuple[str, ...]
) -> None:
    """Set and remove properties of a user, such as those that row filters compare.

    Roles are a property, too; the root role cannot be given this way. The id and the password
    cannot be set.
    """
    if not given and not without:
        raise click.UsageError("give --property or --without")

    async def update(bench: _Users) -> None:
        values = read_properties(given, bench.settings)
        check_names([*values, *without], bench.settings)
        parts = {"$set": values, "$unset": dict.fromkeys(without, "")}
        change = {operator: part for operator, part in parts.items() if part}
        write = Write(WriteKind.UPDATE, update=change, filter=bench.name_filter(user))
        bench.reject_root_role(write)
        result = await bench.write(write)
        if not result.matched:
            raise _missing(user)
        notice(f"changed {make_printable(', '.join([*values, *without]))} of {user!r}")

    _run(sources, update)


@users.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def list_(sources: ConfigSources, as_json: bool) -> None:
    """List the users and their roles."""

    async def read_all(bench: _Users) -> list[dict[str, Any]]:
        documents = await bench.read(Read(sort=[(bench.settings.prop_id, 1)], limit=_MAX_USERS))
        return [bench.summarise(document, as_json=as_json) for document in documents]

    print_table(_run(sources, read_all), as_json=as_json, if_empty="there are no users")


@users.command()
@click.argument("user", shell_complete=complete_users)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@configured
def remove(sources: ConfigSources, user: str, yes: bool) -> None:
    """Remove a user, and end the tokens of the user."""

    async def describe(bench: _Users) -> str:
        document = await bench.find(user)
        if not document:
            raise _missing(user)
        return _describe(bench.read_roles(document[0]))

    if not yes:
        roles = _run(sources, describe)
        click.confirm(f"Remove the user {user!r} with {roles}?", abort=True, err=True)

    async def delete(bench: _Users) -> None:
        result = await bench.write(Write(WriteKind.DELETE, filter=bench.name_filter(user)))
        if not result.deleted:
            raise _missing(user)
        notice(f"removed {user!r}")

    _run(sources, delete)


@users.command("hash")
@password_file_option
@configured
def hash_(sources: ConfigSources, password_file: Path | None) -> None:
    """Print the bcrypt hash of a password, for create-user-document."""
    from docgraph.auth.passwords import hash_password

    settings = prepare_sources(sources).config.get(DbRealmAuthenticator)
    password = read_secret(password_file, is_new=True)
    try:
        click.echo(hash_password(password, settings.bcrypt_complexity))
    except DocgraphError as error:
        raise StartupError(error.message, hint=error.hint) from error


class _Users:
    """The users collection, read and written through the interceptors."""

    def __init__(self, app: Docgraph, realm: DatabaseRealm) -> None:
        self.realm = realm
        self.settings = realm.config
        self._store = app.store
        self._guard: RootRoleGuard | None = app.plugins.find("rootRoleGuard")
        self._resource = Resource(
            ResourceType.COLLECTION, self.settings.users_db, self.settings.users_collection
        )

    async def find(self, user: str) -> list[Document]:
        """Return the users of that name: one or none, unless `prop-id` is not unique."""
        return await self.read(Read(filter=self.name_filter(user), limit=1))

    async def read(self, read: Read) -> list[Document]:
        return await self._store.reads.read(
            self._resource, read, deadline=Deadline.after_ms(_LIMIT_MS)
        )

    async def write(self, write: Write) -> WriteResult:
        return await self._store.writes.write(
            self._resource, write, deadline=Deadline.after_ms(_LIMIT_MS), majority=True
        )

    def reject_root_role(self, write: Write) -> None:
        """Raise if the write could give the root role: only `add --role` does that."""
        if self._guard is not None and self._guard.gives_root_role(write):
            raise StartupError(
                "the root role cannot be given with --property",
                hint="`docgraph users add --role` adds an administrator",
            )

    def name_filter(self, user: str) -> Document:
        return {self.settings.prop_id: user}

    def read_roles(self, document: Document) -> tuple[str, ...]:
        return tuple(self.realm.reader.roles.read(document) or ())

    def summarise(self, document: Document, *, as_json: bool) -> dict[str, Any]:
        from docgraph.auth.authenticators.db_users import find_value

        roles = self.read_roles(document)
        shown = list(roles) if as_json else ", ".join(roles)
        return {"user": str(find_value(document, self.settings.prop_id)), "roles": shown}


def _run(sources: ConfigSources, work: Callable[[_Users], Awaitable[_T]]) -> _T:
    from docgraph.auth.authenticators.db_users import REALM
    from docgraph.cli.application import work_on

    prepared = prepare_sources(sources)
    if not prepared.config.get(DbRealmAuthenticator).enabled:
        raise StartupError(
            f"{REALM} is off, and knows no users", hint=f"set /{REALM}/enabled to true"
        )
    return work_on(prepared, lambda app: work(_Users(app, app.plugins.find(REALM))))


def _check_name(user: str) -> None:
    if not user or ":" in user:
        raise click.BadParameter(
            "a user id is not empty and holds no ':', which ends it in Basic authentication",
            param_hint="USER",
        )


def _reject_weakest(password: str, user: str, *, is_accepted: bool) -> None:
    """Reject a password that is guessed immediately, whatever the configuration allows."""
    from docgraph.auth.passwords import MAX_BYTES, rate

    rating = rate(password, [user])
    if is_accepted or rating.score > 0 or len(password.encode()) > MAX_BYTES:
        return  # the write rejects one that is too long
    advice = [text for text in (rating.warning, *rating.suggestions) if text]
    raise StartupError(
        "the password is too weak: it is guessed immediately",
        hint="\n  ".join([*advice, "choose a longer one, or give --weak"]),
    )


def _warn_if_weak(password: str, user: str, settings: DbRealmAuthenticator) -> None:
    """Warn about a weak password that was accepted, by the check that would reject it."""
    from docgraph.auth.passwords import rate

    rating = rate(password, [user])
    least = settings.minimum_password_strength
    if settings.enforce_minimum_password_strength or rating.score >= least:
        return
    notice(f"the password is weak: its strength is {rating.score} of 4, {least} would be good")
    for advice in (rating.warning, *rating.suggestions):
        if advice:
            notice(f"  {advice}")


def _describe(roles: tuple[str, ...]) -> str:
    if not roles:
        return "no roles"
    return f"the role{'s' if len(roles) > 1 else ''} {make_printable(', '.join(roles))}"


def _exists(user: str) -> StartupError:
    return StartupError(
        f"there is a user {user!r} already", hint="`docgraph users passwd` sets another password"
    )


def _missing(user: str) -> StartupError:
    return StartupError(f"there is no user {user!r}", hint="`docgraph users list` lists them")
