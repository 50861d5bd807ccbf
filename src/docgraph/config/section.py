"""The shape of every configuration section: a frozen struct with strict keys in kebab case."""

from __future__ import annotations

import msgspec

__all__ = ["PluginConfig", "Section", "ServiceConfig"]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """One named part of the configuration.

    An option is a field with a default; its documentation is the `description` of a
    `typing.Annotated[..., msgspec.Meta(description=...)]`.
    """


class PluginConfig(Section, frozen=True):
    """What every plugin has; `None` means the plugin's own default."""

    enabled: bool | None = None


class ServiceConfig(PluginConfig, frozen=True):
    """What every service has beside it; `None` means the service's own default."""

    uri: str | None = None
    secured: bool | None = None
