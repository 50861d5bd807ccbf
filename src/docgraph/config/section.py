"""The shape of every configuration section: a frozen struct with strict keys in kebab case.

The annotated types below are the vocabulary of options: what stands in their `extra` tells the
decoder how to read a value (a size as text, a path relative to its file) and how to show it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from docgraph.config.options import options_of
from docgraph.config.secrets import mask

__all__ = [
    "ConfigurationPath",
    "ConnectionString",
    "FilePath",
    "Milliseconds",
    "PluginConfig",
    "Port",
    "Secret",
    "Section",
    "ServiceConfig",
    "Size",
    "Uri",
]

Size = Annotated[int, Meta(extra={"size": True}, ge=1, le=1 << 40)]
Milliseconds = Annotated[int, Meta(ge=0, le=86_400_000, extra={"unit": "ms"})]
Port = Annotated[int, Meta(ge=0, le=65535)]
Uri = Annotated[str, Meta(pattern=r"^/\S*\Z", extra={"form": "a path that begins with '/'"})]
# Relative to the file that it is written in, else to the working directory.
FilePath = Annotated[str, Meta(min_length=1, extra={"path": "source"})]
# Relative to the configuration file; without one, to the plugins directory.
ConfigurationPath = Annotated[str, Meta(min_length=1, extra={"path": "configuration"})]
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

    An option is a field with a default; its documentation is the `description` of a
    `typing.Annotated[..., msgspec.Meta(description=...)]`.
    """

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The options that differ from their defaults; secrets are masked, also in tracebacks."""
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
    """What every plugin has; `None` means the plugin's own default."""

    enabled: Annotated[bool | None, Meta(description="whether the plugin is on")] = None


class ServiceConfig(PluginConfig, frozen=True):
    """What every service has beside it; `None` means the service's own default."""

    uri: Annotated[Uri | None, Meta(description="base path of the service")] = None
    secured: Annotated[
        bool | None, Meta(description="whether requests have to pass an authorizer")
    ] = None
