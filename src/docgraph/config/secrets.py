"""Secrets in the configuration: which options are secret, and how values are masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

MASK: Final = "********"

_SECRET_NAME: Final = re.compile(
    r"password|passwd|passphrase|pwd|secret|(?:^|[-_ .a-z])key\Z", re.I
)
_USER_INFO: Final = re.compile(r"(?P<scheme>[a-z+]*://[^:@/?]*):.*@", re.DOTALL | re.I)
_PARAMETER: Final = re.compile(
    r"(?P<name>[?&][^=&]*(?:password|secret|token|authMechanismProperties)[^=&]*)=[^&]*", re.I
)


def is_secret(name: str, extra: Mapping[str, Any]) -> bool:
    """Return whether an option is a secret, by its type or else by its name."""
    declared = extra.get("secret")
    return bool(declared) if declared is not None else _SECRET_NAME.search(name) is not None


def mask(name: str, value: Any, extra: Mapping[str, Any]) -> Any:
    """Return the value with secrets masked, also inside lists and mappings without types."""
    if isinstance(value, Mapping):
        below = extra if extra.get("secret") else {}  # in a secret mapping, every value is a secret
        return {key: mask(key, child, below) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [mask(name, child, extra) for child in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_secret(name, extra):
        return MASK
    if isinstance(value, str) and "://" in value:
        return mask_connection_string(value)
    return value


def mask_connection_string(text: str) -> str:
    """Mask the password and secret parameters of a connection string."""
    # Greedy up to the last '@': a password with an unescaped '@' or '/' is hidden in full.
    text = _USER_INFO.sub(rf"\g<scheme>:{MASK}@", text)
    return _PARAMETER.sub(rf"\g<name>={MASK}", text)
