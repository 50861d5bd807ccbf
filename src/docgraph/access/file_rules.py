"""`fileAclAuthorizer`: permission rules in the configuration or in a separate YAML file.

They are read once, at start. Every mistake is reported with its location, and prevents the start.
Operators that docgraph does not know cause a warning: a newer database may support them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from docgraph.access.parse_rule import Flaw, Knowledge, read_rule, warn_of_unknown
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rulebook import RuleBook, RuleSet
from docgraph.access.sections import FileAclAuthorizer as FileAclAuthorizerConfig
from docgraph.config.config_node import ConfigNode, Origin, from_plain, to_plain
from docgraph.config.sources import CONFIGURATION, load_file
from docgraph.exchange import ConfigError, Exchange, Problem
from docgraph.observe import emit
from docgraph.observe.events import ConfigWarning
from docgraph.plugins.kinds import Authorizer, Decision
from docgraph.runtime import Blocking, run_blocking

_SECTION: Final = "/fileAclAuthorizer"


class FileRules(NamedTuple):
    """The rules of a list, and the warnings about them."""

    rules: list[Rule]
    warnings: list[Problem]


class FileAclAuthorizer(Authorizer):
    """Approves by the rules of a list."""

    name: ClassVar[str] = "fileAclAuthorizer"
    description: ClassVar[str] = "approves by permission rules in the configuration or a file"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 21
    Config = FileAclAuthorizerConfig

    def __init__(
        self, config: FileAclAuthorizerConfig, acl_rules: RuleBook, blocking: Blocking
    ) -> None:
        self.config: FileAclAuthorizerConfig = config
        self._book = acl_rules
        self._lane = blocking.lane("files", 1)
        self._rules = RuleSet()

    async def provision(self) -> None:
        """Read the rules; raises one `ConfigError` with all mistakes."""
        found = await run_blocking(self._lane, load_rules, self.config, self._book.knowledge)
        for one in found.warnings:
            emit(ConfigWarning(one.origin, one.path, one.message, one.hint or ""))
        self._rules = RuleSet(found.rules)
        self._book.add(self)

    def find(self) -> RuleSet:
        """Return the rules of the file."""
        return self._rules

    async def load(self) -> RuleSet:
        """Return the rules of the file: they never have to be read again."""
        return self._rules

    async def decide(self, exchange: Exchange) -> Decision:
        """Approve when the deciding rule is one of the file."""
        return await self._book.decide(exchange, RuleOrigin.FILE, self.name)

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return False: rules for every caller state that themselves."""
        return False


def load_rules(config: FileAclAuthorizerConfig, knowledge: Knowledge) -> FileRules:
    """Return the rules of the section or its file; raises one `ConfigError` with all mistakes."""
    if config.conf_file is not None:
        file = Path(config.conf_file)
        node, path = _find_list(load_file(file, f"{_SECTION}/conf-file"), file), "/permissions"
    else:
        node = from_plain(list(config.permissions), Origin(CONFIGURATION))
        path = f"{_SECTION}/permissions"
    if not node.value:
        raise ConfigError([_nothing_given()])
    return read_rules(node, path, knowledge)


def read_rules(node: ConfigNode, path: str, knowledge: Knowledge) -> FileRules:
    """Parse the rules of a list; raises one `ConfigError` with all mistakes."""
    if not isinstance(node.value, tuple):
        raise ConfigError([Problem(str(node.origin), path, "expected a list of permissions")])
    rules: list[Rule] = []
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for position, entry in enumerate(node.value):
        place = f"{path}[{position + 1}]"
        if not isinstance(entry.value, Mapping):
            problems.append(Problem(str(entry.origin), place, "expected a permission"))
            continue
        read = read_rule(to_plain(entry), RuleOrigin.FILE, knowledge, position=position)
        if isinstance(read, Rule):
            rules.append(read)
            warnings += (_locate(flaw, entry, place) for flaw in warn_of_unknown(read))
        else:
            problems += (_locate(flaw, entry, place) for flaw in read)
    if problems:
        raise ConfigError(problems)
    return FileRules(rules, warnings)


def _locate(flaw: Flaw, entry: ConfigNode, place: str) -> Problem:
    """Return the flaw with the line of the innermost key that can be found."""
    node = entry
    for step in flaw.where.split("."):
        child = node.value.get(step) if isinstance(node.value, Mapping) else None
        if child is None:
            break
        node = child
    where = flaw.where.replace(".", "/")
    return Problem(str(node.place), f"{place}/{where}", flaw.what, flaw.hint)


def _find_list(root: ConfigNode, file: Path) -> ConfigNode:
    keys = root.value if isinstance(root.value, Mapping) else {}
    problems = list(_find_strangers(keys))
    if "permissions" not in keys:
        hint = "write 'permissions:' and a list of permissions below it"
        message = "there is no list 'permissions'"
        problems.append(Problem(str(file), "/permissions", message, hint))
    if problems:
        raise ConfigError(problems)
    return keys["permissions"]


def _find_strangers(keys: Mapping[str, ConfigNode]) -> Iterator[Problem]:
    hint = "the file has one key, 'permissions'"
    for name, child in keys.items():
        if name != "permissions":
            yield Problem(str(child.place), f"/{name}", "unknown key", hint)


def _nothing_given() -> Problem:
    return Problem(
        CONFIGURATION,
        _SECTION,
        "the configuration requires either 'conf-file' or 'permissions' parameter",
        "write a list of permissions, or disable the authorizer",
    )
