"""Whether the database lets us in, as whom, and what it then lets us do.

The driver's monitors do not log in: to them a server that refuses us is as good as any. So we ask
for our own rights, which every user may, and which tells all of it in one answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pymongo.errors import ConfigurationError, OperationFailure

from docgraph.exchange.data import Document
from docgraph.store.driver.client import Client
from docgraph.store.driver.contact import GUIDE, Contact, Fault, Lacking, Refused
from docgraph.store.driver.errors import AUTHENTICATION_FAILED, UNAUTHORIZED
from docgraph.store.driver.rights import Privileges, Right, merge_rights

__all__ = ["forget_connections", "log_in", "read_version"]

_REFUSALS: Final = frozenset(
    {
        11,  # UserNotFound
        AUTHENTICATION_FAILED,
        334,  # MechanismUnavailable
        8000,  # AtlasError: the way MongoDB Atlas says it
    }
)
_RIGHT_LOGIN: Final = (
    "correct user and password in mclient.connection-string (with ':', '/', '@' and '%' in them "
    "percent-encoded), or name the database of the user with authSource=…"
)
_ANY_LOGIN: Final = (  # the log would take an example for a secret
    "write user and password, followed by '@', before the host in mclient.connection-string; "
    f"an administrator of the database makes a user with db.createUser: {GUIDE}"
)


async def log_in(client: Client, contact: Contact, more: Iterable[Right] = ()) -> Fault | None:
    """What keeps us from working there, though there is a server; None if nothing does.

    `more` are rights beyond those of the contact. Raises the driver's errors where nobody answers.
    """
    try:
        known = await _look(client)
        if not known["authenticatedUsers"] and contact.user:
            await forget_connections(client)
            known = await _look(client)
        if not known["authenticatedUsers"]:
            await client.admin.command({"listDatabases": 1, "nameOnly": True})
            return None  # it asks nobody who they are
    except ConfigurationError:  # a mechanism that one of the two does not have
        return Refused(contact, "the way of logging in is not supported", _RIGHT_LOGIN)
    except OperationFailure as error:
        if error.code in _REFUSALS:
            return Refused(contact, "wrong user, password or authSource", _advise(contact))
        if error.code == UNAUTHORIZED:
            return Refused(contact, "it wants a login, and none is configured", _ANY_LOGIN)
        return None  # it has let us in, and does not know how to tell our rights
    rights = merge_rights(contact.rights, more)
    missing = Privileges(known["authenticatedUserPrivileges"]).find_missing(rights)
    if not missing:
        return None
    user = known["authenticatedUsers"][0]
    return Lacking.build(contact, user["user"], user["db"], missing)


def _advise(contact: Contact) -> str:
    if not contact.implied_db:
        return _RIGHT_LOGIN
    return (
        f"add authSource=admin if the user was made in admin: now it is looked for in "
        f"{contact.implied_db!r}, which stands behind the host; or {_RIGHT_LOGIN}"
    )


async def read_version(client: Client) -> str:
    """Which MongoDB it is, which everybody may ask."""
    reply = await client.admin.command("buildInfo")
    return str(reply["version"])


async def _look(client: Client) -> Document:
    reply = await client.admin.command({"connectionStatus": 1, "showPrivileges": True})
    known: Document = reply["authInfo"]
    return known


async def forget_connections(client: Client) -> None:
    """Let new ones log in: those that we have lost their login when their user was dropped.

    The driver takes them for good as long as they are open, whoever is made under that name again.
    """
    for server in list(client._topology._servers.values()):
        await server.pool.reset_without_pause()
