"""Connection status for operators: where the database is, and what is wrong with it.

A `Fault` describes what is wrong. Its `summary` is for everyone, callers included, and contains no
names. The rest names the address, the user and the origin of the connection string, for the log and
the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote

from pymongo.topology_description import TopologyDescription

from docgraph.observe import Event
from docgraph.observe.events import DatabaseLost, DatabaseRefused, RightsMissing
from docgraph.store.driver.rights import Missing, Right, render_grant, render_missing

_PARTS: Final = re.compile(
    r"mongodb(?P<srv>\+srv)?://(?:(?P<login>.*)@)?(?P<hosts>[^/?@]*)"
    r"(?:/(?P<db>[^?]*))?(?:\?(?P<options>.*))?",
    re.S,
)
GUIDE: Final = "docs/how-to/use-your-own-mongodb.md"
ELECTING: Final = "the replica set elects a primary; requests wait for it"
_DEFAULT_PORT: Final = "27017"


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The address of the database, our user, and the privileges that docgraph needs.

    `implied_db`: our user is searched there only because the connection string names that database.
    """

    address: str = ""
    user: str = ""
    origin: str = ""
    rights: tuple[Right, ...] = ()
    implied_db: str = ""
    is_embedded: bool = False

    @classmethod
    def read(
        cls, connection_string: str, origin: str, rights: Sequence[Right] = ()
    ) -> ConnectionStatus:
        """Parse a connection string, without the password."""
        match = _PARTS.match(connection_string)
        if match is None:
            return cls(origin=origin, rights=tuple(rights))
        login = (match["login"] or "").partition(":")[0]
        address = f"{match['hosts']} (SRV)" if match["srv"] else match["hosts"]
        is_chosen = "authsource=" in (match["options"] or "").lower()
        implied = "" if is_chosen else unquote(match["db"] or "")
        return cls(address, unquote(login), origin, tuple(rights), implied)


@dataclass(frozen=True, slots=True)
class _Absence:
    """Why no database is available."""

    summary: ClassVar[str]
    symptom: ClassVar[str]
    contact: ConnectionStatus
    reason: str
    hint: str

    @property
    def message(self) -> str:
        """One line for the operator."""
        return f"the database at {self.contact.address} {self.symptom}: {self.reason}"


class Lost(_Absence):
    """No server can be reached, or none that accepts writes."""

    __slots__ = ()
    summary: ClassVar[str] = "the database cannot be reached"
    symptom: ClassVar[str] = "does not answer"

    @property
    def event(self) -> Event:
        contact = self.contact
        return DatabaseLost(self.reason, contact.address, contact.origin, self.hint)


class Refused(_Absence):
    """A server is reachable and rejects our login."""

    __slots__ = ()
    summary: ClassVar[str] = "the database refuses the login of docgraph"
    symptom: ClassVar[str] = "refuses the login"

    @property
    def event(self) -> Event:
        contact = self.contact
        return DatabaseRefused(
            self.reason, contact.user, contact.address, contact.origin, self.hint
        )


@dataclass(frozen=True, slots=True)
class Lacking:
    """We are logged in, and lack privileges."""

    summary: ClassVar[str] = "docgraph lacks rights at the database"
    contact: ConnectionStatus
    hint: str
    user: str
    missing: tuple[Missing, ...]

    @classmethod
    def build(
        cls, contact: ConnectionStatus, user: str, db: str, missing: tuple[Missing, ...]
    ) -> Lacking:
        """Return the fault with the command that grants what is missing."""
        grant = render_grant(user, db, missing)
        hint = f"let an administrator of the database run: {grant} (less may do: {GUIDE})"
        return cls(contact, hint, user, missing)

    @property
    def places(self) -> tuple[str, ...]:
        """The missing privileges, an entry for each collection or database."""
        return tuple(render_missing(self.missing))

    @property
    def is_serious(self) -> bool:
        """Whether hardly any request can be answered without them."""
        return any(lacking.right.required for lacking in self.missing)

    @property
    def message(self) -> str:
        return f"the database user {self.user!r} lacks rights: {'; '.join(self.places)}"

    @property
    def event(self) -> Event:
        contact = self.contact
        return RightsMissing(self.places, self.user, contact.address, contact.origin, self.hint)


Fault = Lost | Refused | Lacking


_SETTINGS: Final = re.compile(r"\(configured timeouts:[^)]*\)")  # part of each message
_CORRECT: Final = "correct host and port of mclient.connection-string"
# A part of the driver's message, its meaning, and what to do.
_REASONS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        r"certificate verify failed",
        "the TLS handshake fails",
        "name the file of the certificate authority by tlsCAFile=… in mclient.connection-string",
    ),
    (r"SSL|TLS|certificate", "the TLS handshake fails", "compare tls=… with what it expects"),
    (
        r"refused|Connect call failed",
        "no server listens there",
        f"start MongoDB there, or {_CORRECT}",
    ),
    (
        r"Errno -\d|getaddrinfo|nodename|resolution|DNS|Unknown host|does not exist",
        "the host name is not found",
        _CORRECT,
    ),
    (
        r"Errno 13\b|Errno 1\b|Permission denied|Operation not permitted",
        "the operating system does not permit the connection",
        "let the user of this process open the socket or use the network (file permissions, "
        "SELinux, sandbox)",
    ),
    (
        r"not authorized|requires authentication|Unauthorized",
        "the database user lacks a permission",
        "name a user with its permissions in mclient.connection-string; `docgraph doctor` lists "
        "them",
    ),
    (r"timed out|timeout", "no answer in time", f"look for a firewall in between, or {_CORRECT}"),
    (
        r"connection (is )?closed|reset|response id|Message length|Unsupported|Protocol",
        "what listens there does not speak as MongoDB does",
        f"{_CORRECT}; a server that wants TLS needs tls=true",
    ),
)
# The reason of OpenSSL in such a message.
_TLS_REASON: Final = re.compile(r"\[SSL[^\]]*\] ([^(\[]{1,200}?) \(_ssl")
# For a server that answered before: the address is right, and needs no correction.
_AGAIN: Final = "docgraph finds it again by itself"
_RESTARTED: Final = "docgraph starts it again by itself; mongod.log, beside its data, says more"
_LATER_REASONS: Final[tuple[tuple[str, str, str], ...]] = (
    (r"shut ?down|shutting down|quiesce", "it was shut down", f"start MongoDB there; {_AGAIN}"),
    (r"refused|Connect call failed", "no server listens there", f"start MongoDB there; {_AGAIN}"),
    (
        r"connection (is )?closed|reset",
        "it has closed the connections",
        f"see whether MongoDB still runs there; {_AGAIN}",
    ),
    (
        r"timed out|timeout",
        "no answer in time",
        f"see whether MongoDB still runs there, and can be reached from here; {_AGAIN}",
    ),
)


def find_reason(
    topology: TopologyDescription, contact: ConnectionStatus, *, was_there: bool = False
) -> tuple[str, str] | None:
    """Return why no server accepts writes, and what to do; None during the first check."""
    servers = topology.server_descriptions()
    errors = {str(server.error) for server in servers.values() if server.error is not None}
    if errors:
        asked = [f"{host}:{port}" for host, port in servers]
        return explain_errors(errors, contact, asked, was_there=was_there)
    if any(server.is_server_type_known for server in servers.values()):
        return (
            "no server is primary",
            "wait for the election, or check the replica set with rs.status()",
        )
    if not servers:
        return (
            "no server there belongs to that replica set",
            "correct replicaSet=… in mclient.connection-string",
        )
    return None


def explain_errors(
    errors: set[str],
    contact: ConnectionStatus,
    asked: Sequence[str] = (),
    *,
    was_there: bool = False,
) -> tuple[str, str]:
    """Return the reason and what to do; a server that `was_there` has answered before."""
    text = "; ".join(_SETTINGS.sub("", error) for error in sorted(errors))
    reasons = (*_LATER_REASONS, *_REASONS) if was_there else _REASONS
    otherwise = f"see whether MongoDB still runs there; {_AGAIN}" if was_there else _CORRECT
    reason, hint = next(
        (advice for pattern, *advice in reasons if re.search(pattern, text, re.I)),
        ("no server answers", otherwise),
    )
    if (tls := _TLS_REASON.search(text)) is not None:
        reason = f"{reason}: {tls[1]}"
    if was_there:
        return reason, _RESTARTED if contact.is_embedded else hint
    strange = [host for host in asked if contact.address and not _is_named(host, contact.address)]
    if strange and not contact.address.endswith("(SRV)"):
        names = ", ".join(sorted(strange))
        return (
            f"the replica set calls its members {names}: {reason}",
            "let these names lead to them from here, or add directConnection=true to the "
            "connection string",
        )
    return reason, hint


def _is_named(server: str, address: str) -> bool:
    hosts = [
        host if ":" in host else f"{host}:{_DEFAULT_PORT}" for host in address.lower().split(",")
    ]
    return server.lower() in hosts
