"""Provider `registry`: finds plugins by name; and the section and path of each plugin.

It is filled after all plugins are constructed, so use it from `provision` on. A service whose
`Config` lacks `uri` and `secured` gets a struct that adds both.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, cast, get_type_hints

import msgspec

from docgraph.config.section import PluginConfig, Section, ServiceConfig
from docgraph.exchange.errors import StartupError
from docgraph.exchange.request import parse_path
from docgraph.plugins.kinds import Kind, Plugin, Service


class PluginRegistry:
    """The enabled plugins."""

    def __init__(self) -> None:
        self._plugins: list[Plugin] = []

    def fill(self, plugins: Sequence[Plugin]) -> None:
        """Store the plugins; called once, after construction."""
        self._plugins = list(plugins)

    def find(self, name: str) -> Any | None:
        """Return the enabled plugin of that name."""
        return next((plugin for plugin in self._plugins if plugin.name == name), None)

    def require(self, names: Iterable[str], user: str) -> None:
        """Raise `StartupError` if a plugin that `user` needs is disabled."""
        for name in names:
            if self.find(name) is None:
                raise StartupError(
                    f"{user} needs the plugin {name!r}, which is disabled",
                    hint=f"remove /{name}/enabled, or turn off {user}",
                )

    def of_kind(self, kind: Kind) -> list[Any]:
        """Return the enabled plugins of a kind, by their `priority` if they have one."""
        chosen = [plugin for plugin in self._plugins if plugin.kind is kind]
        return sorted(chosen, key=lambda plugin: getattr(plugin, "priority", 0))


_HINTS: Final = get_type_hints(ServiceConfig, include_extras=True)
_SHARED: Final = ("uri", "secured")
_extended: dict[type[Section], type[Section]] = {}  # the struct built here → its `Config`


def find_flaw_of_config(plugin: type[Plugin]) -> str | None:
    """Return why the `Config` of a plugin cannot be a section, or None."""
    config = getattr(plugin, "Config", None)
    if inspect.isclass(config) and issubclass(config, PluginConfig):
        return None
    base = "ServiceConfig" if plugin.kind is Kind.SERVICE else "PluginConfig"
    return f"has no `Config` that is a subclass of `docgraph.{base}`"


def section_struct(plugin: type[Plugin]) -> type[PluginConfig]:
    """Return the struct that the section of a plugin is decoded into."""
    return plugin.Config if plugin.kind is not Kind.SERVICE else _extend(plugin.Config)


def find_struct(section: Section) -> type[Section]:
    """Return the struct of a section; for one that was extended here, the original `Config`."""
    return _extended.get(type(section), type(section))


@cache
def _extend(struct: type[PluginConfig]) -> type[PluginConfig]:
    missing = [name for name in _SHARED if name not in struct.__struct_fields__]
    if not missing:
        return struct
    made = msgspec.defstruct(
        struct.__name__,
        [(name, _HINTS[name], None) for name in missing],
        bases=(struct,),
        module=struct.__module__,
        frozen=True,
    )
    extended = cast("type[PluginConfig]", made)
    _extended[extended] = struct
    return extended


def bound_path(service: Service, section: object) -> tuple[str, ...]:
    """Return the path at and below which a service answers, as decoded segments."""
    uri: str | None = getattr(section, "uri", None)
    return parse_path((uri or service.uri).encode())


def is_secured(service: Service, section: object) -> bool:
    """Return whether requests to a service must pass an authorizer."""
    secured: bool | None = getattr(section, "secured", None)
    return service.secured if secured is None else secured
