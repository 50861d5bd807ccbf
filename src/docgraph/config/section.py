"""Base of all configuration sections: frozen structs with strict keys in kebab case.

Each package declares its sections in its module `sections`. The annotated types below are the
vocabulary of options: their `extra` defines how the decoder reads a value (a size as text, a path
relative to its file) and how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from docgraph.config.config_tree import ConfigTree
from docgraph.config.options import mask, options_of
from docgraph.exchange.errors import Problem

Name = Annotated[str, Meta(min_length=1, max_length=255)]
ByteSize = Annotated[int, Meta(extra={"size": True}, ge=1, le=1 << 40)]
Milliseconds = Annotated[int, Meta(ge=0, le=86_400_000, extra={"unit": "ms"})]
Port = Annotated[int, Meta(ge=0, le=65535)]
Host = Annotated[
    str, Meta(pattern=r"^[^\s/]+\Z", extra={"form": "a host name or an address to listen on"})
]
Uri = Annotated[str, Meta(pattern=r"^/\S*\Z", extra={"form": "a path that begins with '/'"})]
# Relative to the file that contains it, else to the working directory.
FilePath = Annotated[str, Meta(min_length=1, extra={"path": "source"})]
# Relative to the configuration file; without one, to the working directory.
PluginsDirectory = Annotated[str, Meta(min_length=1, extra={"path": "plugins"})]
# Relative to the configuration file; without one, to the plugins directory.
ConfigurationPath = Annotated[str, Meta(min_length=1, extra={"path": "configuration"})]
Operator = Annotated[
    str, Meta(pattern=r"^\$[A-Za-z]+\Z", extra={"form": "a name that begins with '$'"})
]
HeaderName = Annotated[
    str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", extra={"form": "the name of a header"})
]
Secret = Annotated[str, Meta(min_length=1, extra={"secret": True})]
ConnectionString = Annotated[
    str,
    Meta(
        pattern=r"^mongodb(\+srv)?://\S+\Z",
        extra={
            "connection-string": True,
            "form": "a connection string that begins with 'mongodb://' or 'mongodb+srv://'",
        },
    ),
]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """One named part of the configuration.

    An option is a field with a default; its documentation is the text in its annotation, such as
    `typing.Annotated[int, "most documents of a page"]`. The `description` of a `Meta` does, too.
    """

    section_name: ClassVar[str] = ""  # of built-in sections; others have the name of their plugin

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Return combinations of options, also of other sections, that prevent the start."""
        return iter(())

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Return combinations of options that work but deserve a warning."""
        return iter(())

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the options that differ from their defaults, with secrets masked."""
        options = options_of(type(self))
        shown: list[tuple[str, Any]] = []
        for field in msgspec.structs.fields(self):
            option, value = options[field.encode_name], getattr(self, field.name)
            if value != option.default:
                shown.append((field.name, mask(option.name, value, option.extra)))
        return shown

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({inner})"


class PluginConfig(Section, frozen=True):
    """Options of every plugin; without a value, the plugin has its own default."""

    enabled: Annotated[bool | None, "whether the plugin is on"] = None


class ServiceConfig(PluginConfig, frozen=True):
    """Options of every service; without a value, the service has its own default."""

    uri: Annotated[Uri | None, "base path of the service"] = None
    secured: Annotated[bool | None, "whether requests have to pass an authorizer"] = None


S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class View:
    """The decoded sections and the origins of their values, for checks.

    Checks consider only enabled sections, and report an option that was set.
    """

    tree: ConfigTree
    sections: Mapping[str, Section]
    types: Mapping[str, type[Section]]

    @property
    def plugins(self) -> list[str]:
        """The names of sections that are not built in."""
        return [name for name, struct in self.types.items() if struct.section_name != name]

    def get(self, section: type[S]) -> S | None:
        """Return the section, unless it is invalid."""
        value = self.sections.get(section.section_name)
        return value if isinstance(value, section) else None

    def on(self, section: type[S]) -> S | None:
        """Return the section if it is enabled."""
        value = self.get(section)
        return value if value is not None and getattr(value, "enabled", True) else None

    def knows(self, *sections: type[Section]) -> bool:
        """Return whether all of these sections were decoded, so that `on` is reliable for them."""
        return all(self.get(section) is not None for section in sections)

    def blame(self, path: str, message: str, hint: str | None = None, *others: str) -> Problem:
        """Return a problem at the first of the paths that is set, else at `path`."""
        for candidate in (path, *others):
            if self.tree.is_set(candidate):
                path = candidate
                break
        return Problem(str(self.tree.find_origin(path)), path, message, hint)

    def compare(self, section: Section, low: str, high: str) -> Iterator[Problem]:
        """Check that the default is within the limit; null is no limit."""
        small: int | None = getattr(section, low.replace("-", "_"))
        large: int = getattr(section, high.replace("-", "_"))
        if small is not None and small > large and getattr(section, "enabled", True):
            yield self.blame(
                f"/{section.section_name}/{low}",
                f"'{low}' ({small}) is greater than '{high}' ({large})",
                f"lower '{low}' or raise '{high}'",
                f"/{section.section_name}/{high}",
            )
