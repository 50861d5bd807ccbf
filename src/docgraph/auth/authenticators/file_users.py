"""`fileRealmAuthenticator`: users in the configuration or in a separate YAML file.

Passwords are plain text here, so that digest authentication works with them; restrict read access
to the file. It is read once, at start; every mistake is reported with its location.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import scrypt
from pathlib import Path
from typing import Any, ClassVar, Final

from docgraph.auth.authenticators.sections import FileRealmAuthenticator
from docgraph.auth.passwords import are_equal, build_ha1
from docgraph.config.config_node import ConfigNode, Origin, from_plain, to_plain
from docgraph.config.sources import CONFIGURATION, load_list
from docgraph.exchange import Account, ConfigError, Problem
from docgraph.observe import emit
from docgraph.observe.events import ConfigWarning
from docgraph.plugins.kinds import Authenticator
from docgraph.runtime import Blocking, run_blocking

_SECTION: Final = "/fileRealmAuthenticator"


@dataclass(frozen=True, slots=True)
class FileUser:
    """A user and the password; None: this user cannot log in."""

    account: Account
    password: str | None = field(repr=False)
    origin: str = ""


class FileRealm(Authenticator):
    """Looks up the users of a list."""

    name: ClassVar[str] = "fileRealmAuthenticator"
    description: ClassVar[str] = "users in the configuration or in a file"
    enabled_by_default: ClassVar[bool] = False
    Config = FileRealmAuthenticator

    def __init__(self, config: FileRealmAuthenticator, blocking: Blocking) -> None:
        self.config: FileRealmAuthenticator = config
        self._lane = blocking.lane("files", 1)
        self._users: Mapping[str, FileUser] = {}

    async def provision(self) -> None:
        """Read the users; raises one `ConfigError` with all mistakes."""
        self._users = await run_blocking(self._lane, load_users, self.config)
        for user in self._users.values():
            if user.password is None:
                emit(
                    ConfigWarning(
                        user.origin,
                        f"{_SECTION}/users",
                        f"the user {user.account.name!r} has no password and cannot log in",
                        "give the user a password, or remove the entry",
                    )
                )

    async def verify(self, user: str, password: str) -> Account | None:
        """Return the account, or None; an unknown user and a wrong password take the same time."""
        entry = self._users.get(user)
        is_right = are_equal(password, entry.password if entry is not None else None)
        return entry.account if is_right and entry is not None else None

    async def find(self, user: str) -> Account | None:
        """Return the account without checking a password, for renewing a token."""
        entry = self._users.get(user)
        return entry.account if entry is not None else None

    async def find_owner(self, user: str) -> tuple[Account, str] | None:
        """Return the account and a slow hash of its password, for API keys.

        A fast one in the database would help those who read it to guess the password of the file.
        """
        entry = self._users.get(user)
        if entry is None:
            return None
        return entry.account, await run_blocking(self._lane, _stretch, user, entry.password or "")

    async def digest_secret(self, user: str, realm: str, algorithm: str) -> str | None:
        """Return HA1 in hex."""
        entry = self._users.get(user)
        if entry is None or not entry.password:
            return None
        return build_ha1(algorithm, user, realm, entry.password)


@lru_cache(maxsize=10_000)
def _stretch(user: str, password: str) -> str:
    secret, salt = (text.encode(errors="surrogatepass") for text in (password, user))
    return scrypt(secret, salt=salt, n=1 << 14, r=8, p=1).hex()


def load_users(config: FileRealmAuthenticator) -> dict[str, FileUser]:
    """Return the users of the section or its file; raises one `ConfigError` with all mistakes."""
    if config.conf_file is not None:
        node = load_list(Path(config.conf_file), f"{_SECTION}/conf-file", "users")
        return read_users(node, "/users")
    node = from_plain(list(config.users), Origin(CONFIGURATION))
    return read_users(node, f"{_SECTION}/users")


def read_users(node: ConfigNode, path: str) -> dict[str, FileUser]:
    """Parse the users of a list by their ids; raises one `ConfigError` with all mistakes."""
    if not isinstance(node.value, tuple):
        raise ConfigError([Problem(str(node.origin), path, "expected a list of users")])
    users: dict[str, FileUser] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(node.value, 1):
        place = f"{path}[{number}]"
        mistakes = list(_find_mistakes(entry, place))
        if mistakes:
            problems += mistakes
            continue
        plain: dict[str, Any] = to_plain(entry)
        password = plain.pop("password")
        roles: Sequence[str] = plain.setdefault("roles", [])
        account = Account(plain["userid"], tuple(dict.fromkeys(roles)), plain, "file")
        user = FileUser(account, password, str(entry.origin))
        first = users.setdefault(user.account.name, user)
        if first is not user:
            message = f"a second user with the id {user.account.name!r}"
            hint = f"the first one is at {first.origin}" if first.origin != user.origin else None
            problems.append(Problem(user.origin, f"{place}/userid", message, hint))
    if problems:
        raise ConfigError(problems)
    return users


def _find_mistakes(entry: ConfigNode, path: str) -> Iterator[Problem]:
    """Yield the mistakes in one entry; a password is never shown."""
    if not isinstance(entry.value, Mapping):
        yield Problem(str(entry.origin), path, "expected a user with 'userid' and 'password'")
        return
    name = entry.value.get("userid")
    if name is None or not isinstance(name.value, str) or not name.value:
        place = entry if name is None else name
        hint = "write it in quotes" if name is not None and name.value else None
        yield Problem(str(place.place), f"{path}/userid", "expected the user's id as text", hint)
    password = entry.value.get("password")
    if password is None:
        hint = "write 'password: null' for a user who cannot log in"
        yield Problem(str(entry.origin), path, "the user has no password", hint)
    elif password.value is not None and (not isinstance(password.value, str) or not password.value):
        hint = "write it in quotes"
        yield Problem(str(password.place), f"{path}/password", "expected text", hint)
    roles = entry.value.get("roles")
    if roles is not None and not (
        isinstance(roles.value, tuple) and all(isinstance(role.value, str) for role in roles.value)
    ):
        hint = "write them like [admin, user]"
        yield Problem(str(roles.place), f"{path}/roles", "expected a list of texts", hint)
