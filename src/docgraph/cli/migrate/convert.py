"""Conversion of a RESTHeart configuration to one of docgraph, with a report."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from docgraph.cli.migrate.restheart_config import (
    OptionAction,
    RestheartConfig,
    load_actions,
    resolve_old_scalar,
)
from docgraph.config.config_node import to_plain
from docgraph.config.options import find_option
from docgraph.config.render import render_block
from docgraph.config.section import Section
from docgraph.config.sources import load_file

_KEY_BYTES: Final = 32
_LEVELS: Final = {"TRACE": "debug", "ALL": "debug", "WARN": "warning", "OFF": "error"}
_REALMS: Final = {"mongoRealmAuthenticator": "dbRealmAuthenticator"}
_REALM: Final = "RESTHeart Realm"  # of every challenge there
_NO_DEFAULT: Final = object()
_FIRST_PRIORITY: Final = 1000  # of the converted file rules; each next one has one less


# Options that keep the behavior of RESTHeart: their values, and what they do.
_COMPATIBLE: Final[Mapping[tuple[str, str], tuple[Any, str]]] = {
    ("acl", "first-role-wins"): (
        True,
        "the first role of a caller that has a matching rule decides",
    ),
    ("authentication", "anonymous-fallback"): (
        True,
        "wrong credentials count as none where anonymous callers may read",
    ),
    ("graphql", "serve-by-id"): (True, "apps with a uri are also served under their _id"),
    ("graphql", "json-mode"): ("rest", "Long is a bare number, Regex is $regularExpression"),
}
_OPENING: Final = (("authentication", "anonymous-fallback"), ("graphql", "serve-by-id"))


class Fate(Enum):
    """The outcome of converting an option or a stored document."""

    TAKEN = "taken over"
    CHANGED = "changed in meaning"
    MISSING = "not supported"


@dataclass(frozen=True, slots=True)
class Remark:
    """One line of the report; `shows_more`: callers would see more than before.

    `needs` is the option that keeps the behavior, such as `graphql.serve-by-id`.
    """

    fate: Fate
    where: str
    text: str
    shows_more: bool = False
    needs: str = ""


@dataclass(slots=True)
class Conversion:
    """Converts one configuration; `sections` and `remarks` are the results."""

    config: RestheartConfig
    directory: Path
    known: Mapping[str, type[Section]]  # the sections of docgraph
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)  # what each option was

    def run(self) -> None:
        """Convert all sections and options."""
        for (section, option), row in load_actions().items():
            self._convert(section, option, row)
        for section, options in self.config.sections.items():
            self._report_unknown(section, options)
        self._convert_tokens()
        self._convert_files()
        self._convert_rest()
        self._set_compatible()
        self._report_differences()
        self._drop_disabled()

    def _drop_disabled(self) -> None:
        """Drop sections that are off: their options would be reported as having no effect."""
        for name, options in list(self.sections.items()):
            if options.get("enabled", self._find_default(name, "enabled")) is False:
                self.sections[name] = {key: options[key] for key in options if key == "enabled"}
        self.sections = {name: options for name, options in self.sections.items() if options}

    def render(self) -> str:
        """Render the new file, with a comment for each option that had another name."""
        lines = ["# Converted from the configuration of RESTHeart by `docgraph migrate`.", ""]
        for section, options in self.sections.items():
            lines.append(f"{section}:")
            for option, value in options.items():
                origin = self.origins.get((section, option))
                if origin:
                    lines.append(f"  # was {origin}")
                block = render_block({option: value})
                lines.extend(f"  {line}" for line in block.splitlines())
            lines.append("")
        return "\n".join(lines)

    def _convert(self, section: str, option: str, row: OptionAction) -> None:
        value = self.config.get(section, option)
        is_chosen = self.config.is_set(section, option) and value != row.default
        kind, target = _read_action(row.action)
        path = f"{section}.{option}" if option else section
        if kind == "missing" and is_chosen and value not in (None, [], {}):
            self.add(Fate.MISSING, path, row.remark, shows_more=target == "more")
        elif kind == "adopt" or (kind in ("same", "ours") and is_chosen):
            if kind == "ours" and value in (-1, None):
                return  # no limit there: the bounds of docgraph stay
            new_section, _, new_option = (target or f"{section}/{option}").partition("/")
            self.put(new_section, new_option, value, was=path if target else "")
            if is_chosen:
                self.add(Fate.TAKEN, path, f"is {new_section}.{new_option}" if target else "")

    def _report_unknown(self, section: str, options: Any) -> None:
        known = [name for name, _ in load_actions() if name == section]
        if not known:
            text = "no option of RESTHeart that docgraph knows; a plugin of your own, perhaps"
            self.add(Fate.MISSING, section, text)
            return
        for option in options if isinstance(options, dict) else ():
            if (section, option) not in load_actions() and (section, "") not in load_actions():
                self.add(Fate.MISSING, f"{section}.{option}", "is not known")

    def _convert_tokens(self) -> None:
        """Convert the keys and the managers of tokens, which version 9 has in one section."""
        get = self.config.get
        source = "jwtConfigProvider" if self.config.is_latest else "jwtAuthenticationMechanism"
        key = get(source, "key")
        has_key = not self.config.is_latest or bool(get(source, "enabled"))
        has_tokens = has_key and get("jwtTokenManager", "enabled")
        can_check = has_key and (key or has_tokens)
        checks_tokens = can_check and get("jwtAuthenticationMechanism", "enabled")
        if not key and has_tokens:
            key = get("jwtTokenManager", "key") or secrets.token_urlsafe(_KEY_BYTES)
            text = "had a random key at each start; it has a new one now, which is in the file"
            self.add(Fate.CHANGED, f"{source}.key", text)
        shared = {"key": key, "issuer": get(source, "issuer"), "audience": get(source, "audience")}
        if has_tokens:
            self.put_all("jwtTokenManager", {"enabled": True, **shared})
            if isinstance(key, str) and len(key) < _KEY_BYTES:
                text = f"is shorter than {_KEY_BYTES} bytes: docgraph starts with a longer one only"
                self.add(Fate.CHANGED, "jwtConfigProvider.key", text)
        if checks_tokens:
            algorithm = get(source, "algorithm")
            mechanism = {"enabled": True, "algorithm": algorithm, **shared}
            self.put_all("jwtAuthenticationMechanism", mechanism)
        for section in ("basicAuthMechanism", "digestAuthMechanism"):
            if self.config.is_set(section, "authenticator"):
                name = get(section, "authenticator")
                self.put(section, "authenticator", _REALMS.get(name, name))
        if get("basicAuthMechanism", "enabled"):
            self.put("basicAuthMechanism", "realm", _REALM)
        self._convert_token_service()

    def _convert_token_service(self) -> None:
        """Keep the path of the token service, and the answers of version 9."""
        uri = self.config.get("authTokenService", "uri")
        if not self.config.get("authTokenService", "enabled"):
            return
        if uri != "/tokens":
            self.put("authTokenService", "uri", uri)
        if self.config.is_latest:
            self.put("authTokenService", "oauth-style", True)
            text = f"is set: {uri} and {uri}/cookie answer as before; a login needs the header "
            text += "Authorization, forms are not read"
            self.add(Fate.TAKEN, "authTokenService.oauth-style", text)

    def _convert_files(self) -> None:
        """Convert users and rules in files of their own, and the order of the rules."""
        users = self._load("fileRealmAuthenticator", "users")
        if users is not None:
            self.put("fileRealmAuthenticator", "users", users)
        rules = self._load("fileAclAuthorizer", "permissions")
        if rules is not None and self.config.get("fileAclAuthorizer", "enabled"):
            self.put("fileAclAuthorizer", "permissions", renumber(rules))
            text = "are renumbered: there the lowest priority is first, here the highest"
            self.add(Fate.TAKEN, "fileAclAuthorizer.permissions", text)

    def _load(self, section: str, option: str) -> list[Any] | None:
        name = self.config.get(section, "conf-file")
        found = self.config.get(section, option)
        if found is None and isinstance(name, str):
            file, where = self.directory / name, f"{section}.conf-file"
            content = to_plain(load_file(file, where, resolve_old_scalar))
            found = content.get(option) if isinstance(content, Mapping) else content
        return found if isinstance(found, list) else None

    def _convert_rest(self) -> None:
        get = self.config.get
        level = str(get("logging", "log-level")).upper()
        if level != "INFO":
            self.put("logging", "level", _LEVELS.get(level, level.lower()))
        if get("logging", "requests-log-mode") == 0:
            self.put("logging", "requests", False)
        if get("authCookieSetter", "enabled"):
            domain = get("authCookieSetter", "domain")
            if domain != "localhost":
                self.put("authCookieSetter", "domain", domain)
            is_secure = bool(get("authCookieSetter", "secure"))
            self.put("authCookieSetter", "secure", is_secure)
        if get("https-listener", "keystore-path"):
            text = "export certificate and key as PEM (openssl pkcs12) and set certificate and key"
            self.add(Fate.MISSING, "https-listener.keystore-path", text)
            self.sections.get("https-listener", {}).pop("enabled", None)
        if get("bruteForceAttackGuard", "trust-x-forwarded-for"):
            text = "name the proxies in core.trusted-proxies"
            self.add(Fate.MISSING, "bruteForceAttackGuard.trust-x-forwarded-for", text)
        if self.config.is_set("static-resources", ""):
            text = "serve the files with a web server or a CDN"
            self.add(Fate.MISSING, "static-resources", text)
        representation = get("mongo", "default-representation-format")
        if str(representation).upper() not in ("STANDARD", "S"):
            text = "answers are in the standard representation; see the table in the guide"
            self.add(Fate.MISSING, "mongo.default-representation-format", text)

    def _set_compatible(self) -> None:
        """Set the options that keep the behavior of RESTHeart; the guide names their risks."""
        for (section, option), (value, text) in _COMPATIBLE.items():
            self.put(section, option, value)
            self.add(Fate.TAKEN, f"{section}.{option}", f"is set: {text}")

    def drop_unneeded(self, needed: Collection[str]) -> None:
        """Drop the options that open something which nothing in the database relies on."""
        for section, option in _OPENING:
            name = f"{section}.{option}"
            if name in needed or (section == "authentication" and self._has_public_paths()):
                continue
            self.sections.get(section, {}).pop(option, None)
            self.remarks = [one for one in self.remarks if one.where != name]
        self.sections = {name: options for name, options in self.sections.items() if options}

    def _has_public_paths(self) -> bool:
        """Return whether the configuration itself admits anonymous callers."""
        is_full = self.config.get("fullAuthorizer", "enabled")
        return bool(is_full) and not self.config.get("fullAuthorizer", "authentication-required")

    def _report_differences(self) -> None:
        """Report defaults that differ and stay those of docgraph."""
        if not self.config.get("bruteForceAttackGuard", "enabled"):
            text = "is on: 10 failed logins of an address within 10 s are followed by 429"
            self.add(Fate.CHANGED, "bruteForceAttackGuard", text)
        text = "other origins may send no credentials until cors.allow-origins lists them"
        self.add(Fate.CHANGED, "CORS", text)

    def move_to(self, db: str) -> None:
        """Use another database for documents, apps, users and rules."""
        self.put("mongo", "mongo-mounts", [{"what": f"/{db}", "where": "/"}])
        self.put("graphql", "db", db)
        self.put("dbRealmAuthenticator", "users-db", db)
        self.put("dbAclAuthorizer", "acl-db", db)

    def put(self, section: str, option: str, value: Any, *, was: str = "") -> None:
        """Set an option of the new file."""
        if value is not None and value != self._find_default(section, option):
            self.sections.setdefault(section, {})[option] = value
            self.origins[section, option] = was

    def _find_default(self, section: str, option: str) -> Any:
        found = find_option(self.known, (section, option))
        return _NO_DEFAULT if found is None else msgspec.to_builtins(found.default)

    def put_all(self, section: str, options: Mapping[str, Any]) -> None:
        """Set several options of a section."""
        for option, value in options.items():
            self.put(section, option, value)

    def add(self, fate: Fate, where: str, text: str, *, shows_more: bool = False) -> None:
        """Add a line to the report."""
        self.remarks.append(Remark(fate, where, text, shows_more))


def _read_action(text: str) -> tuple[str, str]:
    """Return the action of a row of the table, and the option of docgraph that it names."""
    kind, _, target = text.partition(" ")
    return ("same", kind) if "/" in kind else (kind, target)


def renumber(rules: Sequence[Any]) -> list[Any]:
    """Return file rules with priorities that keep the order in which RESTHeart tries them.

    There the lowest number is first, and of equal ones the last in the list; rules without a
    number come last. Here the highest number is first.
    """
    numbered = [(number, rule) for number, rule in enumerate(rules) if isinstance(rule, dict)]
    numbered.sort(key=lambda one: (_read_priority(one[1]), -one[0]))
    renumbered = [
        {**rule, "priority": _FIRST_PRIORITY - place} for place, (_, rule) in enumerate(numbered)
    ]
    # What is no rule stays, so that `config check` reports it.
    return [*renumbered, *(rule for rule in rules if not isinstance(rule, dict))]


def _read_priority(rule: Mapping[str, Any]) -> float:
    priority = rule.get("priority")
    is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
    return float(priority) if is_number and priority is not None else float("inf")
