"""Database login: whether the database accepts our login, as which user, with which privileges.

The driver's monitors do not log in: to them a server that rejects us is as good as any. So docgraph
requests its own privileges. Every user may do that, and one response has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pymongo.errors import ConfigurationError, OperationFailure

from docgraph.exchange.data import Document
from docgraph.store.driver.client import DriverClient
from docgraph.store.driver.connection_status import GUIDE, ConnectionStatus, Fault, Lacking, Refused
from docgraph.store.driver.driver_internals import forget_connections
from docgraph.store.driver.errors import AUTHENTICATION_FAILED, UNAUTHORIZED
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.rights import Privileges, Right, merge_rights

_REFUSALS: Final = frozenset(
    {
        11,  # UserNotFound
        AUTHENTICATION_FAILED,
        334,  # MechanismUnavailable
        8000,  # AtlasError: the code of MongoDB Atlas
    }
)
# The sections of `serverStatus` that cost something.
_ONLY_CONNECTIONS: Final = dict.fromkeys(
    ("metrics", "wiredTiger", "locks", "repl", "tcmalloc", "opLatencies"), 0
)
_RIGHT_LOGIN: Final = (
    "correct user and password in mclient.connection-string (with ':', '/', '@' and '%' in them "
    "percent-encoded), or name the database of the user with authSource=…"
)
_ANY_LOGIN: Final = (  # the log would mistake an example for a secret
    "write user and password, followed by '@', before the host in mclient.connection-string; "
    f"an administrator of the database makes a user with db.createUser: {GUIDE}"
)


async def log_in(
    client: DriverClient, contact: ConnectionStatus, more: Iterable[Right] = ()
) -> Fault | None:
    """Check our login and privileges; return the fault that prevents our work, or None.

    `more` has privileges beyond those of the contact. Raises the driver's errors if no server
    answers.
    """
    try:
        hello = await _read_hello(client)
        if not hello["authenticatedUsers"] and contact.user:
            await forget_connections(client)
            hello = await _read_hello(client)
        if not hello["authenticatedUsers"]:
            await client.admin.command({"listDatabases": 1, "nameOnly": True})
            return None  # it requires no login
    except ConfigurationError:  # a mechanism that one side does not support
        return Refused(contact, "the way of logging in is not supported", _RIGHT_LOGIN)
    except OperationFailure as error:
        if error.code in _REFUSALS:
            return Refused(contact, "wrong user, password or authSource", _advise(contact))
        if error.code == UNAUTHORIZED:
            return Refused(contact, "it wants a login, and none is configured", _ANY_LOGIN)
        return None  # it accepted our login, and cannot report our privileges
    rights = merge_rights(contact.rights, more)
    with reading_reply():
        missing = Privileges(hello["authenticatedUserPrivileges"]).find_missing(rights)
    if not missing:
        return None
    user = hello["authenticatedUsers"][0]
    return Lacking.build(contact, user["user"], user["db"], missing)


def _advise(contact: ConnectionStatus) -> str:
    if not contact.implied_db:
        return _RIGHT_LOGIN
    return (
        f"add authSource=admin if the user was created in admin: MongoDB now searches it in "
        f"{contact.implied_db!r}, the database after the host; or {_RIGHT_LOGIN}"
    )


async def read_version(client: DriverClient) -> str:
    """Return the version of MongoDB, which needs no privilege."""
    reply = await client.admin.command("buildInfo")
    with reading_reply():
        return str(reply["version"])


async def count_free_connections(client: DriverClient) -> int | None:
    """Return how many more connections the database accepts; None if our user may not know."""
    try:
        reply = await client.admin.command({"serverStatus": 1, **_ONLY_CONNECTIONS})
    except OperationFailure:
        return None
    with reading_reply():
        available = reply.get("connections", {}).get("available")
        return int(available) if available is not None else None


async def _read_hello(client: DriverClient) -> Document:
    reply = await client.admin.command({"connectionStatus": 1, "showPrivileges": True})
    with reading_reply():
        hello: Document = reply["authInfo"]
        for user in hello["authenticatedUsers"]:
            str(user["user"] + user["db"])
    return hello
