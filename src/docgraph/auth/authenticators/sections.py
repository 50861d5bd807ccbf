"""Configuration sections for users: those of the database and those of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta

from docgraph.config.section import ConfigurationPath, Name, PluginConfig, View
from docgraph.exchange.errors import Problem

BCRYPT_HASH: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
MAX_COST: Final = 14  # every failed login takes as long as the most expensive hash: one second here


class DbRealmAuthenticator(PluginConfig, frozen=True):
    """Users in a collection of the database."""

    section_name: ClassVar[str] = "dbRealmAuthenticator"
    enabled: Annotated[bool, "whether the authenticator is on"] = True
    users_db: Annotated[Name, "database of the users"] = "docgraph"
    users_collection: Annotated[Name, "collection of the users"] = "users"
    prop_id: Annotated[
        str,
        Meta(
            pattern=r"^[^$\s][^\s]*\Z",
            extra={"form": "the name of a property, which does not begin with '$'"},
        ),
        "property that holds the user id",
    ] = "_id"
    prop_password: Annotated[
        str,
        Meta(
            pattern=r"^[^$.\s][^.\s]*\Z",
            extra={"secret": False, "form": "the name of a top-level property"},
        ),
        "property that holds the password",
    ] = "password"  # noqa: S105 - the name of a property
    prop_ha1: Annotated[
        Name | None,
        Meta(extra={"secret": False}),
        "property that holds HA1 values, for digest beside hashed passwords",
    ] = None
    json_path_roles: Annotated[
        str,
        Meta(pattern=r"^\$", extra={"form": "a JSON path that begins with '$'"}),
        "JSON path of the roles",
    ] = "$.roles"
    bcrypt_hashed_password: Annotated[
        bool, Meta(extra={"secret": False}), "whether passwords are hashed"
    ] = True
    bcrypt_complexity: Annotated[int, Meta(ge=4, le=MAX_COST), "cost of the hash"] = 12
    create_user: Annotated[bool, "create the collection and a first user when there is none"] = True
    create_user_document: Annotated[
        str | None,
        Meta(extra={"secret": True}),
        "the first user as JSON text, the password hashed; without it, `admin` with a random "
        "password that is printed once",
    ] = None
    cache_enabled: Annotated[bool, "keep users in memory"] = False
    cache_size: Annotated[int, Meta(ge=1, le=1_000_000), "users kept in memory"] = 1000
    cache_ttl: Annotated[int, Meta(ge=1, le=86_400_000), "time that a user is kept, in ms"] = 60_000
    cache_expire_policy: Annotated[
        Literal["AFTER_WRITE", "AFTER_READ"],
        "whether the time counts from the fetch or from the last use",
    ] = "AFTER_WRITE"
    enforce_minimum_password_strength: Annotated[
        bool, Meta(extra={"secret": False}), "refuse weak passwords"
    ] = False
    minimum_password_strength: Annotated[
        int,
        Meta(ge=0, le=4, extra={"secret": False}),
        "0 weak, 1 fair, 2 good, 3 strong, 4 very strong",
    ] = 3

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Decision 35: no plaintext password in create-user-document while hashing is on."""
        if not self.enabled or not self.create_user or self.create_user_document is None:
            return
        path = "/dbRealmAuthenticator/create-user-document"
        document = _parse_object(self.create_user_document)
        if document is None:
            yield view.blame(path, "not the JSON text of an object", "write it in single quotes")
            return
        password = document.get(self.prop_password)
        if not isinstance(password, str):
            yield view.blame(path, f"the user has no text '{self.prop_password}'")
        elif self.bcrypt_hashed_password and not BCRYPT_HASH.fullmatch(password):
            yield view.blame(
                path,
                "the password is plain text while bcrypt-hashed-password is on",
                "make a hash with 'docgraph users hash'",
            )


class FileRealmAuthenticator(PluginConfig, frozen=True):
    """Users in a file or in the configuration itself."""

    section_name: ClassVar[str] = "fileRealmAuthenticator"
    enabled: Annotated[bool, "whether the authenticator is on"] = False
    conf_file: Annotated[
        ConfigurationPath | None, "YAML file with a list `users`; wins over `users`"
    ] = None
    users: Annotated[
        tuple[dict[str, Any], ...],
        "users with `userid`, `password`, `roles` and any other property",
    ] = ()

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Check that the users have one source."""
        if self.enabled and self.conf_file is None and not self.users:
            yield view.blame(
                "/fileRealmAuthenticator/users",
                "fileRealmAuthenticator is on and has no users",
                "set conf-file or users",
                "/fileRealmAuthenticator/enabled",
            )


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
