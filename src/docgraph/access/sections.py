"""Configuration sections for authorization: authorizers and guards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import ConfigurationPath, Name, Operator, PluginConfig, Section, View
from docgraph.exchange.errors import Problem


class Acl(Section, frozen=True):
    """How the rule for a request is chosen, among those of the file and of the database."""

    section_name: ClassVar[str] = "acl"
    first_role_wins: Annotated[
        bool,
        "the first role of the caller that has a matching rule decides, and priorities are "
        "compared within a role only; for moved installations",
    ] = False
    order: Annotated[
        Literal["merged", "file-first"],
        "`merged`: the rules of file and database are one list; `file-first`: rules of the file "
        "for roles of the caller decide before all of the database and the root role; for moved "
        "installations",
    ] = "merged"


class DbAclAuthorizer(PluginConfig, frozen=True):
    """Allows by permission documents in the database."""

    section_name: ClassVar[str] = "dbAclAuthorizer"
    enabled: Annotated[bool, "whether the authorizer is on"] = True
    acl_db: Annotated[Name, "database of the permissions"] = "docgraph"
    acl_collection: Annotated[Name, "collection of the permissions"] = "acl"
    root_role: Annotated[Name | None, "role that may do everything; null for none"] = "admin"
    cache_enabled: Annotated[bool, "keep permissions in memory"] = True
    cache_size: Annotated[int, Meta(ge=1, le=1_000_000), "roles whose permissions are kept"] = 1000
    cache_ttl: Annotated[
        int, Meta(ge=1, le=86_400_000), "time that permissions are kept, in ms"
    ] = 5000
    cache_expire_policy: Annotated[
        Literal["AFTER_WRITE", "AFTER_READ"],
        "whether the time counts from the fetch or from the last use",
    ] = "AFTER_WRITE"


class FileAclAuthorizer(PluginConfig, frozen=True):
    """Allows by permissions in a file or in the configuration itself."""

    section_name: ClassVar[str] = "fileAclAuthorizer"
    enabled: Annotated[bool, "whether the authorizer is on"] = False
    conf_file: Annotated[
        ConfigurationPath | None, "YAML file with a list `permissions`; wins over `permissions`"
    ] = None
    permissions: Annotated[
        tuple[dict[str, Any], ...], "permissions with `predicate`, `roles`, `priority` and `mongo`"
    ] = ()

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Check that the permissions have one source."""
        if self.enabled and self.conf_file is None and not self.permissions:
            yield view.blame(
                "/fileAclAuthorizer/permissions",
                "fileAclAuthorizer is on and has no permissions",
                "set conf-file or permissions",
                "/fileAclAuthorizer/enabled",
            )


class FullAuthorizer(PluginConfig, frozen=True):
    """Allows everything."""

    section_name: ClassVar[str] = "fullAuthorizer"
    enabled: Annotated[bool, "whether the authorizer is on"] = False
    authentication_required: Annotated[bool, "whether callers have to be known"] = True


class OriginVetoer(PluginConfig, frozen=True):
    """Denies requests of pages that are not on a list."""

    section_name: ClassVar[str] = "originVetoer"
    enabled: Annotated[bool, "whether the vetoer is on"] = False
    whitelist: Annotated[tuple[str, ...], "origins that pass"] = ()
    whitelist_patterns: Annotated[tuple[str, ...], "the same; `*` matches any text"] = ()
    ignore_paths: Annotated[tuple[str, ...], "path templates that are not looked at"] = ()
    allow_missing_origin: Annotated[bool, "whether requests without `Origin` pass"] = True

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Check that each ignored path is a template."""
        from docgraph.access.language.path_functions import parse_template

        for number, path in enumerate(self.ignore_paths if self.enabled else (), 1):
            try:
                parse_template(path)
            except ValueError as error:
                yield view.blame(f"/originVetoer/ignore-paths[{number}]", str(error))


class FilterOperatorsBlacklist(PluginConfig, frozen=True):
    """Denies REST requests whose filter uses one of these operators."""

    section_name: ClassVar[str] = "filterOperatorsBlacklist"
    enabled: Annotated[bool, "whether the vetoer is on"] = True
    blacklist: Annotated[tuple[Operator, ...], "operators that are refused"] = ("$where",)


class RootRoleGuard(PluginConfig, frozen=True):
    """Rejects writes that would give a user the root role, or the writer new roles."""

    section_name: ClassVar[str] = "rootRoleGuard"
    enabled: Annotated[bool, "whether the guard is on"] = True
