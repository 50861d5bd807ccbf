"""Plugin discovery: the built-in list, entry points, and a directory of Python files.

All three end in the same list of `FoundPlugin`; later steps do not distinguish them.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from docgraph.config.section import PluginConfig
from docgraph.exchange import StartupError
from docgraph.plugins.kinds import Kind, Plugin
from docgraph.plugins.packages import find_entry_points
from docgraph.plugins.registry import find_flaw_of_config, section_struct

ENTRY_POINT_GROUP = "docgraph.plugins"
_BUILTIN = "built-in"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A plugin class and where it was found."""

    plugin: type[Plugin]
    origin: str

    @property
    def name(self) -> str:
        """The name of the plugin, which is also its section."""
        return self.plugin.name

    @property
    def section(self) -> type[PluginConfig]:
        return section_struct(self.plugin)

    @property
    def title(self) -> str:
        """The plugin as messages name it."""
        return f"the {self.plugin.kind} {self.name!r} from {self.origin}"

    @property
    def is_builtin(self) -> bool:
        return self.origin == _BUILTIN


def discover(builtin: Iterable[type[Plugin]], directory: Path | None) -> tuple[FoundPlugin, ...]:
    """Return all plugins; raise an error if two of them have the same name."""
    plugins = [FoundPlugin(plugin, _BUILTIN) for plugin in builtin]
    plugins += _from_entry_points()
    if directory is not None:
        plugins += _from_directory(directory)
    by_name: dict[str, FoundPlugin] = {}
    for plugin in plugins:
        flaw = find_flaw_of_config(plugin.plugin)
        if flaw is not None:
            raise StartupError(f"{plugin.title} {flaw}")
        other = by_name.setdefault(plugin.name, plugin)
        if other is not plugin:
            raise StartupError(
                f"two plugins are called {plugin.name!r}: one from {other.origin}, "
                f"one from {plugin.origin}",
                hint="give one of them another `name`",
            )
    return tuple(plugins)


def is_plugin(value: Any) -> bool:
    """Return whether the value is a concrete class with its own kind and name."""
    return (
        inspect.isclass(value)
        and isinstance(getattr(value, "kind", None), Kind)
        and isinstance(value.__dict__.get("name"), str)
        and value.__dict__["name"] != ""
    )


def _find_flaw(value: Any, origin: str) -> StartupError | None:
    """Return why a class cannot be a plugin although it is meant to be one."""
    if not inspect.isclass(value):
        return None
    kind = getattr(value, "kind", None)
    if isinstance(kind, Kind):
        return StartupError(
            f"the class {value.__qualname__} from {origin} is a plugin ({kind}) without a `name`",
            hint='give it one of its own (`name = "…"`, also the name of its section), or begin '
            "the name of the class with `_` if it is only there for others to build on",
        )
    if Plugin in value.__mro__ or (isinstance(kind, str) and kind in set(Kind)):
        return StartupError(
            f"the class {value.__qualname__} from {origin} is a plugin without a `kind`",
            hint="subclass one of the kinds in `docgraph` (Service, Interceptor, …), or set `kind` "
            "to a value of `docgraph.Kind`",
        )
    return None


def _from_entry_points() -> Iterator[FoundPlugin]:
    for point in find_entry_points(ENTRY_POINT_GROUP):
        origin = f"the entry point {point.name!r}"
        try:
            loaded = point.load()
        except Exception as error:
            raise _cannot_load(origin, error) from error
        if not is_plugin(loaded):
            raise _find_flaw(loaded, origin) or StartupError(
                f"{origin} does not name a plugin class",
                hint="a plugin subclasses one of the kinds in `docgraph` and has a `name`",
            )
        yield FoundPlugin(loaded, origin)


def _from_directory(directory: Path) -> Iterator[FoundPlugin]:
    """Load `*.py` files and packages of the directory; names that begin with `_` are skipped."""
    if not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if path.name.startswith(("_", ".")) or file.suffix != ".py" or not file.is_file():
            continue
        module = _import(path.stem, file)
        classes: list[type[Any]] = [
            value
            for value in dict.fromkeys(filter(inspect.isclass, vars(module).values()))
            if value.__module__.split(".")[0] == module.__name__
        ]
        for value in classes:
            if is_plugin(value):
                yield FoundPlugin(value, str(file))
            elif not _is_base(value, classes) and (flaw := _find_flaw(value, str(file))):
                raise flaw


def _is_base(value: type[Any], others: Iterable[type[Any]]) -> bool:
    """Return whether a class is a base of others, and need not be complete."""
    return (
        value.__name__.startswith("_")
        or inspect.isabstract(value)
        or value.__dict__.get("_is_protocol", False)
        or any(value in other.__mro__[1:] for other in others)
    )


def _import(stem: str, file: Path) -> ModuleType:
    name = f"docgraph_plugin_{stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise StartupError(f"the plugin file {file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _cannot_load(str(file), error) from error
    return module


def _cannot_load(origin: str, error: Exception) -> StartupError:
    return StartupError(
        f"the plugin from {origin} cannot be loaded: {type(error).__name__}: {error}",
        hint="fix it, or remove it from the plugins directory or environment",
    )
