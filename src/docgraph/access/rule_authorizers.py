"""`dbAclAuthorizer` and `fileAclAuthorizer`: approve by permission rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from docgraph.access.parse_rule import Knowledge, describe_flaws, read_rule, warn_of_unknown
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rulebook import Ignored, RuleBook, RuleSet
from docgraph.access.sections import DbAclAuthorizer as DbAclAuthorizerConfig
from docgraph.access.sections import FileAclAuthorizer as FileAclAuthorizerConfig
from docgraph.codec import name_id
from docgraph.config.config_node import ConfigNode, Origin, from_plain, to_plain
from docgraph.config.section import PluginConfig
from docgraph.config.sources import CONFIGURATION, load_list
from docgraph.exchange import (
    ConfigError,
    Deadline,
    Document,
    Exchange,
    Problem,
    Resource,
    ResourceType,
    Write,
    WriteKind,
)
from docgraph.exchange.errors import DefinitionError, StoreError, StoreUnavailable
from docgraph.observe import emit
from docgraph.observe.events import ConfigWarning, PluginFailed
from docgraph.plugins.kinds import Authorizer, Decision, Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance, LoadingCache, Tasks, run_blocking
from docgraph.runtime.cache import AFTER_READ, AFTER_WRITE
from docgraph.store import Store
from docgraph.store.change_stream import ChangeEvents, Follower, ResumeToken
from docgraph.store.versions import VersionFollower, Versions
from docgraph.variables import Flaw

AUTHORIZER: Final = "dbAclAuthorizer"

_MAX_RULES: Final = 10_000
_READ_MS: Final = 10_000
_ONLY_KEYS: Final = ({"$project": {"documentKey": 1, "operationType": 1}},)
_ALL: Final = "all"


class DbAclAuthorizer(Authorizer):
    """Approves by the rules of a collection; users with the root role may do everything.

    The rules are read in one query and cached for `cache-ttl`. A write of this instance applies
    immediately on all its workers (a generation counter). A write of another instance applies when
    the change stream reports it, within two seconds by its version number, or when the cache
    expires. An invalid rule grants nothing and is reported once.
    """

    name: ClassVar[str] = AUTHORIZER
    description: ClassVar[str] = "approves by permission rules in the database"
    priority: ClassVar[int] = 20
    takes_anonymous: ClassVar[bool] = True
    Config = DbAclAuthorizerConfig

    def __init__(
        self,
        config: DbAclAuthorizerConfig,
        store: Store,
        generations: Generations,
        acl_rules: RuleBook,
        blocking: Blocking,
    ) -> None:
        self.config: DbAclAuthorizerConfig = config
        self._store = store
        self._lane = blocking.lane("rules", concurrency=1)
        self._read_generation = generations.reader("rules")
        self._book = acl_rules
        policy = AFTER_READ if config.cache_expire_policy == "AFTER_READ" else AFTER_WRITE
        size = 1 if config.cache_enabled else 0
        self._cache: LoadingCache[str, RuleSet] = LoadingCache(
            size, config.cache_ttl / 1000, policy
        )
        self._seen = -1  # the generation that the cache reflects
        self._latest: tuple[list[Document], RuleSet] | None = None
        self._reported: dict[Any, str] = {}
        acl_rules.lists.size = config.cache_size

    async def provision(self) -> None:
        self._book.add(self)

    async def close(self) -> None:
        await self._cache.close()

    async def decide(self, exchange: Exchange) -> Decision:
        """Approve for the root role, or when the deciding rule is one of the database."""
        account, root = exchange.account, self.config.root_role
        is_root = account is not None and root is not None and root in account.roles
        if is_root and not await self._book.is_file_decisive(exchange):
            return Decision(True, f"the role {root} may do everything", self.name)
        return await self._book.decide(exchange, RuleOrigin.DATABASE, self.name)

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return False: rules for every caller state that themselves."""
        return False

    def find(self) -> RuleSet | None:
        """Return the cached rules of the collection; None when they must be read again."""
        generation = self._read_generation()
        if generation != self._seen:
            self.forget()
            self._seen = generation
        return self._cache.find(_ALL)

    async def load(self) -> RuleSet:
        """Return the rules, reading them if necessary; raises `StoreError` when that fails."""
        return self.find() or await self._cache.get(_ALL, self._read)

    def forget(self) -> None:
        """Discard the cache: the next request reads the rules again."""
        self._cache.clear()

    async def _read(self, _: str) -> RuleSet:
        documents = await self._store.reads.find(
            self.config.acl_db,
            self.config.acl_collection,
            {},
            sort=[("priority", -1), ("_id", -1)],
            limit=_MAX_RULES + 1,
            deadline=Deadline.after_ms(_READ_MS),
        )
        if len(documents) > _MAX_RULES:
            # Drop the lowest: the remaining rules can permit less than all of them, never more.
            self._report(None, f"more than {_MAX_RULES} permissions; the lowest are ignored")
            documents = documents[:_MAX_RULES]
        if self._latest is None or self._latest[0] != documents:
            compiled = await run_blocking(self._lane, self._compile, documents)
            # Each invalid rule once, until it is valid again.
            for rule in compiled.rules:
                self._reported.pop(name_id(rule.id), None)
            for ignored in compiled.ignored:
                self._report(name_id(ignored.document.get("_id")), describe_flaws(ignored.flaws))
            self._latest = (documents, compiled)
        return self._latest[1]

    def _compile(self, documents: list[Document]) -> RuleSet:
        knowledge = self._book.knowledge
        rules: list[Rule] = []
        ignored: list[Ignored] = []
        for document in documents:
            read = read_rule(document, RuleOrigin.DATABASE, knowledge)
            if isinstance(read, Rule):
                rules.append(read)
            else:
                ignored.append(Ignored(document, read))
        return RuleSet(rules, ignored)

    def _report(self, id: str | None, problem: str) -> None:
        if self._reported.get(id) != problem:
            self._reported[id] = problem
            stage = "read the rules" if id is None else f"read the rule {id}"
            emit(PluginFailed(self.name, stage, DefinitionError(problem)))


class AclCollection(Initializer):
    """Creates the collection of the rules, so that the first rule can be posted to it."""

    name: ClassVar[str] = "createAclCollection"
    description: ClassVar[str] = "creates the collection of the permission rules"
    priority: ClassVar[int] = 5

    def __init__(self, config: PluginConfig, store: Store, acl: DbAclAuthorizerConfig) -> None:
        self._store = store
        self._settings = acl

    async def initialize(self) -> None:
        """Create it if it is missing; without the privilege, another database user must do it."""
        db, collection = self._settings.acl_db, self._settings.acl_collection
        if not self._settings.enabled or await self._store.stats.exists(db, collection):
            return
        resource = Resource(ResourceType.COLLECTION, db, collection)
        try:
            await self._store.writes.write(
                resource, Write(WriteKind.CREATE), deadline=Deadline.after_ms(_READ_MS)
            )
        except StoreUnavailable:
            raise  # it is retried
        except StoreError as error:
            self._store.waits.forget_denial(str(error.__cause__))  # else it is reported twice
            emit(PluginFailed(self.name, "create the collection of the rules", error))


class AclWatcher(Initializer):
    """Notices changes to the rules by other instances or directly in the database."""

    name: ClassVar[str] = "dbAclUpdater"
    description: ClassVar[str] = "keeps the permission rules up to date"

    def __init__(
        self,
        config: PluginConfig,
        store: Store,
        tasks: Tasks,
        instance: Instance,
        generations: Generations,
        registry: PluginRegistry,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._instance = instance
        self._generations = generations
        self._registry = registry
        self.follower: Follower | None = None  # None when rules are not stored
        self.versions: VersionFollower | None = None

    async def provision(self) -> None:
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer) and authorizer.config.cache_enabled:
            config = authorizer.config
            versions = Versions(self._store, config.acl_db, config.acl_collection)
            self.follower = self._build_follower(config)
            self.versions = VersionFollower(
                self.name, self._store, versions, self._instance, take=self._forget
            )

    async def initialize(self) -> None:
        if self.follower is not None and self.versions is not None:
            self._tasks.start(self.name, self.follower.run)
            self._tasks.start(f"{self.name}-version", self.versions.run)

    async def close(self) -> None:
        if self.versions is not None:
            await self.versions.close()

    def _build_follower(self, config: DbAclAuthorizerConfig) -> Follower:
        def open_stream(_: ResumeToken | None) -> ChangeEvents:
            return self._store.streams.watch(
                config.acl_db, config.acl_collection, _ONLY_KEYS, full_document=None
            )

        return Follower(open_stream, catch_up=self._forget, take=self._forget)

    async def _forget(self, _: Document | None = None) -> None:
        """Let all workers read the rules again, and authorize open streams and live queries."""
        self._generations.bump("rules")


_SECTION: Final = "/fileAclAuthorizer"


class FileRules(NamedTuple):
    """The rules of a list, and the warnings about them."""

    rules: list[Rule]
    warnings: list[Problem]


class FileAclAuthorizer(Authorizer):
    """Approves by the rules of the configuration or of a YAML file, which are read once, at start.

    Every mistake is reported with its location, and prevents the start. Operators that docgraph
    does not know cause a warning: a newer database may support them.
    """

    name: ClassVar[str] = "fileAclAuthorizer"
    description: ClassVar[str] = "approves by permission rules in the configuration or a file"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 21
    takes_anonymous: ClassVar[bool] = True
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
        rules = await run_blocking(self._lane, load_rules, self.config, self._book.knowledge)
        for warning in rules.warnings:
            emit(ConfigWarning(warning.origin, warning.path, warning.message, warning.hint or ""))
        self._rules = RuleSet(rules.rules)
        self._book.add(self)

    def find(self) -> RuleSet:
        return self._rules

    async def load(self) -> RuleSet:
        """Return the rules of the file: they never have to be read again."""
        return self._rules

    async def decide(self, exchange: Exchange) -> Decision:
        return await self._book.decide(exchange, RuleOrigin.FILE, self.name)

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return False: rules for every caller state that themselves."""
        return False


def load_rules(config: FileAclAuthorizerConfig, knowledge: Knowledge) -> FileRules:
    """Return the rules of the section or its file; raises one `ConfigError` with all mistakes."""
    if config.conf_file is not None:
        node = load_list(Path(config.conf_file), f"{_SECTION}/conf-file", "permissions")
        path = "/permissions"
    else:
        node = from_plain(list(config.permissions), Origin(CONFIGURATION))
        path = f"{_SECTION}/permissions"
    if not node.value:
        message = "the configuration requires either 'conf-file' or 'permissions' parameter"
        hint = "write a list of permissions, or disable the authorizer"
        raise ConfigError([Problem(CONFIGURATION, _SECTION, message, hint)])
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
