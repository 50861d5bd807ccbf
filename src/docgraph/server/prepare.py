"""From a tree to a configuration that can be served: plugins found, every section decoded.

All mistakes come at once, wherever they were made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docgraph.access.registry import ACLRegistryAllower
from docgraph.config import Decoded, PluginConfig, Section, Sources, Tree, decode, load, peek
from docgraph.exchange import ConfigError, Problem
from docgraph.plugins import Found, discover, is_enabled
from docgraph.plugins.kinds import AuthorizerRole, Kind, Plugin
from docgraph.runtime.sections import Core
from docgraph.server.builtin import BUILTIN
from docgraph.server.builtin_sections import SECTIONS

__all__ = ["Prepared", "find_plugins", "load_tree", "prepare", "require_allower", "sections_of"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The configuration, decoded, and the plugins there are."""

    tree: Tree
    config: Decoded
    found: tuple[Found, ...]


def load_tree(sources: Sources) -> Tree:
    """What all sources say of our sections and of those of plugins."""
    return load(sources, SECTIONS)


def prepare(tree: Tree, builtin: Sequence[type[Plugin]] = BUILTIN) -> Prepared:
    """Find the plugins, which bring sections of their own, and decode every section strictly."""
    found = find_plugins(tree, builtin)
    unavailable = tuple(_find_unavailable(tree, {one.name for one in found}))
    tree = replace(tree, problems=(*tree.problems, *unavailable))
    return Prepared(tree, decode(tree, sections_of(found)), found)


def find_plugins(tree: Tree, builtin: Sequence[type[Plugin]] = BUILTIN) -> tuple[Found, ...]:
    """The built-in plugins, those of installed packages, and those of the plugins directory."""
    return discover(builtin, Path(peek(tree, Core).plugins_directory))


def sections_of(found: Sequence[Found]) -> dict[str, type[Section]]:
    """Every section there is: ours, and those that plugins bring along."""
    own = {one.name: one.section for one in found if one.name not in SECTIONS}
    return {**SECTIONS, **own}


def require_allower(prepared: Prepared) -> None:
    """A server without an allower would refuse every request, and is not started."""
    if any(_is_allower(one, prepared) for one in prepared.found):
        return
    raise ConfigError(
        [
            Problem(
                "configuration",
                "/",
                "no allower is enabled, so every request would be refused",
                "enable one, for example with --set /fullAuthorizer/enabled=true",
            )
        ]
    )


def _is_allower(one: Found, prepared: Prepared) -> bool:
    """The registry counts where a plugin from outside could register with it."""
    if one.plugin is ACLRegistryAllower and all(x.plugin in BUILTIN for x in prepared.found):
        return False
    return (
        one.plugin.kind is Kind.AUTHORIZER
        and getattr(one.plugin, "role", None) is AuthorizerRole.ALLOWER
        and is_enabled(one, prepared.config.sections)
    )


def _find_unavailable(tree: Tree, names: Collection[str]) -> Iterator[Problem]:
    """Asking for something that is not there must not pass for having it: fail closed."""
    for name, section in SECTIONS.items():
        if not issubclass(section, PluginConfig) or name in names:
            continue
        node = tree.find(f"/{name}/enabled")
        if node is not None and node.value is True:
            yield Problem(
                str(node.place),
                f"/{name}/enabled",
                "this version does not have that plugin",
                "leave it out, or set it to false",
            )
