"""Plugin construction (dependency injection) and lifecycle: which are enabled, start and close.

Construction has no side effects and follows the order of the providers. Then all plugins are
provisioned and validated. Provisioned plugins are closed in the opposite order, whatever happens.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

from docgraph.config.section import PluginConfig, Section
from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.check import check_plugin, check_points
from docgraph.plugins.discover import FoundPlugin
from docgraph.plugins.kinds import Kind, Plugin, Provider
from docgraph.plugins.registry import PluginRegistry, find_struct


def is_enabled(found: FoundPlugin, sections: Mapping[str, Section]) -> bool:
    """Return the option `enabled` of the plugin's section, else the plugin's default."""
    enabled, whole = _read_enabled(found.name, sections), None
    part_of = getattr(found.plugin, "part_of", "")
    if part_of:
        whole = _read_enabled(part_of, sections)
    if whole is False:
        return False
    return found.plugin.enabled_by_default if enabled is None else enabled


def _read_enabled(name: str, sections: Mapping[str, Section]) -> bool | None:
    section = sections.get(name)
    return section.enabled if isinstance(section, PluginConfig) else None


@dataclass(slots=True)
class PluginSet:
    """The enabled, constructed plugins; `start` and `close` control their lifecycle."""

    plugins: list[Plugin]
    values: dict[str, Any] = field(default_factory=dict)
    _started: list[Plugin] = field(default_factory=list)

    def find(self, name: str) -> Any:
        """Return the plugin of that name; raise `StartupError` if it is not enabled."""
        for plugin in self.plugins:
            if plugin.name == name:
                return plugin
        raise StartupError(f"the plugin {name!r} is not enabled")

    def of_kind(self, kind: Kind) -> list[Any]:
        """Return the plugins of one kind, by their `priority` if they have one."""
        chosen = [plugin for plugin in self.plugins if plugin.kind is kind]
        return sorted(chosen, key=lambda plugin: getattr(plugin, "priority", 0))

    async def start(self) -> None:
        """Provision and validate all plugins.

        `StartupError` always stops the start; any other failure does so for a security plugin (fail
        closed). Another plugin that fails is reported and removed.
        """
        for plugin in list(self.plugins):
            self._started.append(plugin)  # closed even when `provision` fails
            try:
                await plugin.provision()
                plugin.validate()
            except StartupError:
                raise
            except Exception as error:
                emit(PluginFailed(plugin.name, "start", error))
                if plugin.security:
                    raise StartupError(
                        f"the security plugin {plugin.name!r} cannot start",
                        hint="the log has the reason; a server without it would be open",
                    ) from error
                self.plugins.remove(plugin)

    async def close(self) -> None:
        """Close the started plugins, last first; continue after a failure."""
        while self._started:
            plugin = self._started.pop()
            try:
                await plugin.close()
            except Exception as error:
                emit(PluginFailed(plugin.name, "close", error))


def assemble(
    found: Iterable[FoundPlugin], sections: Mapping[str, Section], values: Mapping[str, Any]
) -> PluginSet:
    """Construct every enabled plugin with its section and the providers it names.

    `values` are existing providers (`store`, `instance`, …) in addition to provider plugins.
    """
    registry = PluginRegistry()
    assembled = _Assembly(tuple(found), sections, {**values, "registry": registry}).build()
    registry.fill(assembled.plugins)
    return assembled


class _Assembly:
    """The state of one construction: constructed plugins, and those in progress."""

    def __init__(
        self, found: Sequence[FoundPlugin], sections: Mapping[str, Section], values: dict[str, Any]
    ) -> None:
        self.enabled = [plugin for plugin in found if is_enabled(plugin, sections)]
        self.sections = sections
        self.values = values
        self.outside = {plugin.name for plugin in found if not plugin.is_builtin}
        self.providers = _providers(self.enabled, values)
        self.disabled_providers = {
            getattr(plugin.plugin, "provides", None): plugin.name
            for plugin in found
            if plugin.plugin.kind is Kind.PROVIDER and plugin not in self.enabled
        }
        self.built: dict[str, Plugin] = {}
        self._by_struct: dict[type[Section], dict[str, Section]] = {}
        for name, section in sections.items():
            self._by_struct.setdefault(find_struct(section), {})[name] = section

    def build(self) -> PluginSet:
        for plugin in self.enabled:
            check_points(plugin)
        for plugin in self.enabled:
            self._construct(plugin, ())
        return PluginSet(list(self.built.values()), self.values)

    def _construct(self, one: FoundPlugin, chain: tuple[str, ...]) -> Plugin:
        if one.name in self.built:
            return self.built[one.name]
        if one.name in chain:
            cycle = " → ".join((*chain[chain.index(one.name) :], one.name))
            raise StartupError(f"these plugins need each other: {cycle}")
        arguments = {
            need.parameter: (
                self._provide(one, need.provider, (*chain, one.name))
                if need.section is None
                else self._find_section(one, need.section)
            )
            for need in _needs(one.plugin)
            if not need.optional or self._is_available(need)
        }
        section = self.sections.get(one.name) or one.section()
        constructor = cast("Any", one.plugin)
        try:
            plugin = cast("Plugin", constructor(section, **arguments))
        except StartupError:
            raise
        except Exception as error:
            raise StartupError(
                f"the plugin {one.name!r} from {one.origin} cannot be constructed: "
                f"{type(error).__name__}: {error}"
            ) from error
        check_plugin(one, plugin, section)
        self.built[one.name] = plugin
        return plugin

    def _is_available(self, need: _Need) -> bool:
        if need.section is not None:
            return bool(self._sections_of(need.section))
        return need.provider in self.values or need.provider in self.providers

    def _sections_of(self, struct: type[Section]) -> dict[str, Section]:
        """Return the sections of that struct; built-in ones precede plugins that reuse it."""
        sections = self._by_struct.get(struct, {})
        inside = {name: section for name, section in sections.items() if name not in self.outside}
        return inside or sections

    def _find_section(self, user: FoundPlugin, struct: type[Section]) -> Section:
        sections = self._sections_of(struct)
        if len(sections) == 1:
            (section,) = sections.values()
            return section
        names = ", ".join(sorted(sections)) or "none"
        raise StartupError(
            f"the plugin {user.name!r} from {user.origin} needs the one section that is a "
            f"{struct.__name__}; there is: {names}",
            hint="the parameter `configuration` gives all sections by name",
        )

    def _provide(self, user: FoundPlugin, provider: str, chain: tuple[str, ...]) -> Any:
        if provider not in self.values:
            source = self.providers.get(provider)
            if source is None:
                raise self._missing(user, provider)
            self.values[provider] = cast("Provider", self._construct(source, chain)).get()
        return self.values[provider]

    def _missing(self, user: FoundPlugin, provider: str) -> StartupError:
        if provider in self.disabled_providers:
            hint = f"the plugin {self.disabled_providers[provider]!r} gives it, and is disabled"
        else:
            available = ", ".join(sorted({*self.values, *self.providers}))
            hint = f"known providers: {available}"
        return StartupError(
            f"the plugin {user.name!r} from {user.origin} needs the provider {provider!r}",
            hint=hint,
        )


def _providers(enabled: Sequence[FoundPlugin], values: Mapping[str, Any]) -> dict[str, FoundPlugin]:
    providers: dict[str, FoundPlugin] = {}
    for plugin in enabled:
        if plugin.plugin.kind is not Kind.PROVIDER:
            continue
        provided = getattr(plugin.plugin, "provides", None)
        if not isinstance(provided, str):
            raise StartupError(
                f"{plugin.title} does not say what it `provides`",
                hint='give the class `provides = "…"`, the name that other plugins ask for',
            )
        other = providers.setdefault(provided, plugin)
        if other is not plugin or provided in values:
            giver = other.name if other is not plugin else "docgraph itself"
            raise StartupError(
                f"the provider {provided!r} is given by {giver} and by {plugin.name!r}",
                hint="disable one of them",
            )
    return providers


@dataclass(frozen=True, slots=True)
class _Need:
    """A constructor parameter: a section, by its struct, or else a provider, by its name."""

    parameter: str
    section: type[Section] | None
    optional: bool

    @property
    def provider(self) -> str:
        return self.parameter.replace("_", "-")


@lru_cache(maxsize=512)
def _needs(plugin: type[Plugin]) -> Sequence[_Need]:
    """Return the constructor parameters after the plugin's own section."""
    constructor = plugin.__init__
    names = getattr(constructor, "__globals__", {})
    return [
        _Need(
            parameter.name,
            _section_type(parameter.annotation, names),
            parameter.default is not parameter.empty,
        )
        for parameter in list(inspect.signature(constructor).parameters.values())[2:]
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def _section_type(annotation: Any, names: Mapping[str, Any]) -> type[Section] | None:
    """Return the struct of `Struct` or `Struct | None`, also for annotations that are text."""
    if isinstance(annotation, str):
        annotation = names.get(annotation.removesuffix(" | None"))
    elif get_origin(annotation) in (Union, UnionType):
        options = [kind for kind in get_args(annotation) if kind is not NoneType]
        annotation = options[0] if len(options) == 1 else annotation
    is_section = inspect.isclass(annotation) and issubclass(annotation, Section)
    return annotation if is_section else None
