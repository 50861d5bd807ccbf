"""Conversion of a RESTHeart configuration to one of docgraph, with a report.

The value that RESTHeart has in effect is written wherever docgraph has another default. A default
of docgraph that protects more stays, and the report names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from docgraph.tools.configuration import (
    ConfigError,
    Problem,
    Section,
    find_option,
    load_file,
    render_block,
    to_plain,
)
from docgraph_migrate.report import Remark, ReportList
from docgraph_migrate.restheart_config import (
    OptionAction,
    RestheartConfig,
    load_actions,
    resolve_old_scalar,
)

_LEVELS: Final = {"TRACE": "debug", "ALL": "debug", "WARN": "warning", "OFF": "error"}
_SECRET: Final = re.compile(r"key$|password|document|users")  # options that examples leave out
_NO_DEFAULT: Final = object()
_NO_LIMIT: Final = (-1, None)
_FIRST_PRIORITY: Final = 1000  # of the converted file rules; each next one has one less
# Options whose value null turns something off; elsewhere null sets nothing.
_NULLABLE: Final = {("dbAclAuthorizer", "root-role"), ("jwtAuthenticationMechanism", "rolesClaim")}

# Options that keep the behavior of RESTHeart.
_COMPATIBLE: Final[Mapping[tuple[str, str], Any]] = {
    ("acl", "first-role-wins"): True,
    ("authentication", "anonymous-fallback"): True,
    ("graphql", "serve-by-id"): True,
    ("graphql", "json-mode"): "rest",
}
# Sections that decide about logins and permissions: an unknown option of them may restrict.
_PROTECTING: Final = frozenset(
    {
        *("basicAuthMechanism", "tokenBasicAuthMechanism", "digestAuthMechanism"),
        *("jwtConfigProvider", "jwtAuthenticationMechanism", "jwtTokenManager", "rndTokenManager"),
        *("identityAuthMechanism", "mongoRealmAuthenticator", "fileRealmAuthenticator"),
        *("authCookieSetter", "authCookieHandler", "authTokenService"),
        *("mongoAclAuthorizer", "fileAclAuthorizer", "fullAuthorizer", "originVetoer"),
        *("filterOperatorsBlacklist", "aggregationSecurity", "bruteForceAttackGuard"),
    }
)
_OPENING: Final = (("authentication", "anonymous-fallback"), ("graphql", "serve-by-id"))


@dataclass(slots=True)
class Conversion:
    """Converts one configuration; `sections` and `remarks` are the results."""

    config: RestheartConfig
    directory: Path
    known: Mapping[str, type[Section]]  # the sections of docgraph
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    origins: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def convert_options(self) -> None:
        """Convert what the table of options names, and report what it does not know."""
        for (section, option), row in load_actions().items():
            self._convert(section, option, row)
        for section, options in self.config.sections.items():
            self._report_unknown(section, options)

    def convert_services(self) -> None:
        """Convert guards, rules and REST, and set the options for those who move."""
        self._convert_guards()
        self._convert_rules()
        self._convert_rest()
        for (section, option), value in _COMPATIBLE.items():
            self.put(section, option, value)

    def drop_disabled(self) -> None:
        """Drop options of sections that are off: they would be reported as having no effect."""
        for name, options in list(self.sections.items()):
            if options.get("enabled", self.find_default(name, "enabled")) is False:
                self.sections[name] = {key: options[key] for key in options if key == "enabled"}
        self.sections = {name: options for name, options in self.sections.items() if options}

    def render(self) -> str:
        """Render the new file, with a comment for each option that had another name."""
        lines = ["# Converted from the configuration of RESTHeart by `docgraph migrate`.", ""]
        for section, options in self.sections.items():
            lines.append(f"{section}:")
            for option, value in options.items():
                origin = self.origins.get((section, option), (section, option))
                if origin != (section, option):
                    lines.append(f"  # was {'.'.join(origin)}")
                block = render_block({option: value})
                lines.extend(f"  {line}" for line in block.splitlines())
            lines.append("")
        return "\n".join(lines)

    def report_version(self) -> None:
        """Report that the version, and so the defaults, had to be guessed."""
        if self.config.is_guessed:
            what = (
                "nothing in it tells version 8 from 9; the defaults of 8 are used, which permit "
                "more: stored aggregations with $lookup, and cookies of a day"
            )
            example = "version 9 forbids $lookup unless aggregationSecurity is off"
            remedy = "add --from-version 8 or --from-version 9"
            self.add(ReportList.LESS, "version", "CONFIG", what, remedy, example)

    def _convert(self, section: str, option: str, row: OptionAction) -> None:
        value = self.config.get(section, option)
        kind, target = _read_action(row.action)
        path = f"{section}.{option}" if option else section
        new = tuple((target or f"{section}/{option}").split("/", 1))
        if kind == "missing":
            is_used = value != row.default and value not in (None, [], {})
            if is_used and (option == "enabled" or self.config.on(section)):
                effect = ReportList.LESS if target == "more" else ReportList.ANSWERS
                self.add(effect, "not-supported", path, "docgraph does not have it", row.remark)
        elif kind == "same" or (kind == "ours" and self.config.is_set(section, option)):
            self.put(new[0], new[1], value, was=(section, option))
        elif kind in ("bound", "guard"):
            self._keep_lower(new, value, (section, option))

    def _keep_lower(self, new: Sequence[str], value: Any, old: tuple[str, str]) -> None:
        """Write a limit if it is lower than that of docgraph; a protection stays on."""
        ours = self.find_default(new[0], new[1])
        is_limit = not isinstance(ours, bool)
        if is_limit and value not in _NO_LIMIT and value <= ours:
            self.put(new[0], new[1], value, was=old)
        elif value != ours and (not is_limit or self.config.is_set(*old)):
            what = f"is {_show(value)} there; docgraph keeps {new[0]}.{new[1]} at {_show(ours)}"
            remedy = f"set {new[0]}.{new[1]} in the new file if your clients need more"
            self.add(ReportList.MORE, "stricter-default", ".".join(old), what, remedy)

    def _report_unknown(self, section: str, options: Any) -> None:
        actions = load_actions()
        if not any(name == section for name, _ in actions):
            if self.config.on(section):
                what = "is not known to docgraph: a plugin of your own, perhaps"
                remedy = "check what it does; if it denies requests, write a plugin that does so"
                self.add(ReportList.LESS, "unknown-section", section, what, remedy)
            return
        for option in options if isinstance(options, dict) else ():
            is_known = (section, option) in actions or (section, "") in actions
            if not is_known and self.config.on(section):
                what, remedy = "is not known to docgraph", "remove it if it has no effect"
                effect = ReportList.LESS if section in _PROTECTING else ReportList.ANSWERS
                self.add(effect, "unknown-option", f"{section}.{option}", what, remedy)

    def _convert_guards(self) -> None:
        """Keep what protects more: the guard against brute force, and the forbidden operators."""
        config = self.config
        is_guarded = config.on("bruteForceAttackGuard")
        if is_guarded:
            old = ("bruteForceAttackGuard", "max-failed-attempts")
            self._keep_lower(old, config.get(*old), old)
        else:
            what = "is on: 10 failed logins of an address within 10 s are followed by 429"
            remedy = "set bruteForceAttackGuard.max-failed-attempts"
            self.add(ReportList.MORE, "stricter-default", "bruteForceAttackGuard", what, remedy)
        if is_guarded and config.get("bruteForceAttackGuard", "trust-x-forwarded-for"):
            where = "bruteForceAttackGuard.trust-x-forwarded-for"
            what = "docgraph counts failures by the address of the connection"
            remedy = "name your proxies in core.trusted-proxies"
            self.add(ReportList.MORE, "proxies", where, what, remedy)
        self._report_missing_origins()
        self._join("filterOperatorsBlacklist", ("blacklist",))
        self._join("aggregationSecurity", ("stageBlacklist", "operatorBlacklist"))

    def _report_missing_origins(self) -> None:
        """Report what depends on the release: without the option, older ones had no exception."""
        vetoer, option = "originVetoer", "allow-missing-origin"
        is_listed = self.config.on(vetoer) and self.config.get(vetoer, "whitelist")
        if is_listed and self.config.get(vetoer, option) and not self.config.is_set(vetoer, option):
            what = "is not set: older releases refuse requests without Origin, docgraph does not"
            remedy = f"set {vetoer}.{option} to false in the new file if your release refuses them"
            where, example = f"{vetoer}.{option}", "a GET of a program, which sends no Origin"
            self.add(ReportList.LESS, "missing-origin", where, what, remedy, example)

    def _join(self, section: str, options: Iterable[str]) -> None:
        """Forbid what either of the two forbids."""
        is_on = self.config.on(section)
        if not is_on:
            what = f"is off there; docgraph keeps it on with {self._show_lists(section, options)}"
            remedy = f"set {section}.enabled to false if your clients need it"
            self.add(ReportList.MORE, "stricter-default", section, what, remedy)
        for option in options:
            ours = self.find_default(section, option)
            theirs = self.config.get(section, option) if is_on else ()
            added = [name for name in ours if name not in (theirs or ())]
            if is_on and added:
                what = f"docgraph also forbids {', '.join(added)}"
                remedy = f"set {section}.{option} if your clients need it"
                self.add(ReportList.MORE, "stricter-default", f"{section}.{option}", what, remedy)
            self.put(section, option, [*(theirs or ()), *added])

    def _show_lists(self, section: str, options: Iterable[str]) -> str:
        return ", ".join(name for option in options for name in self.find_default(section, option))

    def _convert_rules(self) -> None:
        """Convert the rules of the file, and keep their order."""
        rules = self.list_file_rules()
        self.put("fileAclAuthorizer", "permissions", renumber(rules))
        if rules and self.config.on("mongoAclAuthorizer"):
            self.put("acl", "order", "file-first")

    def list_file_rules(self) -> list[Any]:
        """Return the rules of the old file that are in use, in its order."""
        is_on = self.config.on("fileAclAuthorizer")
        return (self.load_list("fileAclAuthorizer", "permissions") or []) if is_on else []

    def drop_rules(self, numbers: Collection[int]) -> None:
        """Drop the file rules with these positions: docgraph does not start with them."""
        if not numbers:
            return
        kept = [rule for number, rule in enumerate(self.list_file_rules()) if number not in numbers]
        self.put("fileAclAuthorizer", "permissions", renumber(kept))
        if not kept:
            self.put("fileAclAuthorizer", "enabled", False)

    def load_list(self, section: str, option: str) -> list[Any] | None:
        """Return a list of the section or of its `conf-file`."""
        name = self.config.get(section, "conf-file")
        values = self.config.get(section, option)
        if isinstance(name, str) and self.config.get(section, "enabled"):
            file, where = self.directory / name, f"{section}.conf-file"
            content = to_plain(load_file(file, where, resolve_old_scalar))
            values = content.get(option) if isinstance(content, Mapping) else content
        return values if isinstance(values, list) else None

    def _convert_rest(self) -> None:
        get = self.config.get
        level = str(get("logging", "log-level")).upper()
        if level != "INFO":
            self.put("logging", "level", _LEVELS.get(level, level.lower()))
        if get("logging", "requests-log-mode") == 0:
            self.put("logging", "requests", False)
        mounts = get("mongo", "mongo-mounts")
        if isinstance(mounts, list):
            self.put("mongo", "mongo-mounts", list(map(_read_mount, mounts)))
        self._convert_https()
        if self.config.sections.get("static-resources"):
            what, remedy = "docgraph serves no files", "serve them with a web server or a CDN"
            self.add(ReportList.ANSWERS, "not-supported", "static-resources", what, remedy)
        representation = get("mongo", "default-representation-format")
        if str(representation).upper() not in ("STANDARD", "S"):
            where, what = "mongo.default-representation-format", f"is {representation} there"
            remedy = "let clients read the standard representation: an array of documents"
            self.add(ReportList.ANSWERS, "not-supported", where, what, remedy)

    def _convert_https(self) -> None:
        """Turn the https listener off: its certificate is in a Java keystore."""
        if not self.config.get("https-listener", "enabled"):
            return
        where = ("https-listener", "keystore-path")
        what = "docgraph reads no Java keystore"
        remedy = "export certificate and key as PEM (openssl pkcs12)"
        if not self.config.get("http-listener", "enabled"):
            hint = f"{remedy}; convert with /http-listener/enabled: true in an override (-o), then"
            hint += " set https-listener.certificate and key in the new file, and http off again"
            place = self.config.locate(*where)
            raise ConfigError([Problem(place, f"/{'/'.join(where)}", what, hint)])
        remedy += ", set https-listener.enabled, certificate and key"
        what += ": the https listener is off"
        self.add(ReportList.MORE, "keystore", ".".join(where), what, remedy, "https://… is refused")
        self.put("https-listener", "enabled", False)

    def drop_unneeded(self, needed: Collection[str]) -> None:
        """Drop the options that open something which nothing in the database relies on."""
        for section, option in _OPENING:
            name = f"{section}.{option}"
            if name in needed or (section == "authentication" and self._has_public_paths()):
                continue
            self.sections.get(section, {}).pop(option, None)
        self.sections = {name: options for name, options in self.sections.items() if options}

    def _has_public_paths(self) -> bool:
        """Return whether the configuration itself admits anonymous callers."""
        is_full = self.config.get("fullAuthorizer", "enabled")
        return bool(is_full) and not self.config.get("fullAuthorizer", "authentication-required")

    def move_to(self, db: str) -> None:
        """Use another database for documents, apps, users and rules."""
        self.put("mongo", "mongo-mounts", [{"what": f"/{db}", "where": "/"}])
        self.put("graphql", "db", db)
        self.put("dbRealmAuthenticator", "users-db", db)
        self.put("dbAclAuthorizer", "acl-db", db)

    def put(
        self, section: str, option: str, value: Any, *, was: tuple[str, str] | None = None
    ) -> None:
        """Set an option of the new file, unless it is the default of docgraph."""
        if was is not None:
            self.origins[section, option] = was
        is_null = value is None and (section, option) not in _NULLABLE
        if is_null or value == self.find_default(section, option):
            self.sections.get(section, {}).pop(option, None)
        else:
            self.sections.setdefault(section, {})[option] = value

    def get(self, section: str, option: str) -> Any:
        """Return the value that docgraph would have."""
        return self.sections.get(section, {}).get(option, self.find_default(section, option))

    def find_default(self, section: str, option: str) -> Any:
        """Return the default of docgraph, with lists as lists."""
        setting = find_option(self.known, (section, option))
        if setting is None:
            return _NO_DEFAULT
        plain = msgspec.to_builtins(setting.default)
        return list(plain) if isinstance(plain, tuple) else plain

    def put_all(self, section: str, options: Mapping[str, Any]) -> None:
        """Set several options of a section."""
        for option, value in options.items():
            self.put(section, option, value)

    def add(
        self, effect: ReportList, code: str, where: str, what: str, remedy: str, example: str = ""
    ) -> None:
        """Add a line to the report; without an example, it shows what the old file sets."""
        example = example or self._show_setting(*where.partition(".")[::2])
        self.remarks.append(Remark(effect, code, where, what, remedy, example))

    def _show_setting(self, section: str, option: str) -> str:
        if _SECRET.search(option):
            return f"{option}: …"
        if not option:
            return f"{section}.enabled: {_show_value(self.config.on(section))}"
        return f"{option}: {_show_value(self.config.get(section, option))}"


def _read_action(text: str) -> tuple[str, str]:
    """Return the action of a row of the table, and the option of docgraph that it names."""
    kind, _, target = text.partition(" ")
    return ("same", kind) if "/" in kind else (kind, target)


def _show_value(value: Any) -> str:
    if isinstance(value, list | dict):
        return "…"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _show(value: Any) -> str:
    return "unlimited" if value in _NO_LIMIT else str(value).lower()


def _read_mount(mount: Any) -> Any:
    """Return a mount whose paths begin with a slash; RESTHeart adds it."""
    if not isinstance(mount, Mapping):
        return mount
    return {
        key: f"/{value}" if isinstance(value, str) and value[:1] not in ("/", "*") else value
        for key, value in mount.items()
    }


def renumber(rules: Sequence[Any]) -> list[Any]:
    """Return file rules with priorities that keep the order in which RESTHeart tries them.

    There the lowest number is first, and of equal ones the last in the list; rules without a
    number come last. Here the highest number is first.
    """
    numbered = [(number, rule) for number, rule in enumerate(rules) if isinstance(rule, dict)]
    numbered.sort(key=lambda pair: (_read_priority(pair[1]), -pair[0]))
    renumbered = [
        {**rule, "priority": _FIRST_PRIORITY - place} for place, (_, rule) in enumerate(numbered)
    ]
    # What is no rule stays, so that the check of the new file reports it.
    return [*renumbered, *(rule for rule in rules if not isinstance(rule, dict))]


def _read_priority(rule: Mapping[str, Any]) -> float:
    priority = rule.get("priority")
    is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
    return float(priority) if is_number and priority is not None else float("inf")
