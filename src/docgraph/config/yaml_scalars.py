"""YAML 1.2 scalars (core schema) and sizes such as `64 KiB`.

YAML 1.1, which most libraries still use, reads `no` as false, `12:30` as 750 and `010` as 8; here
they are two texts and the number 10.
"""

from __future__ import annotations

import re

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_DECIMAL = re.compile(r"[-+]?[0-9]{1,4000}")
_OCTAL = re.compile(r"0o[0-7]{1,100}")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})

_SIZE = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "k": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mib": 1 << 20,
    "g": 1 << 30,
    "gib": 1 << 30,
}


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = _resolve_number(text)
    return text if number is None else number


def _resolve_number(text: str) -> int | float | None:
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return float("nan") if text in _NOT_A_NUMBER else None


def parse_size(text: str) -> int | None:
    """Return the bytes of a text such as `64 KiB` or `1 MB`; None if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2].lower()]
