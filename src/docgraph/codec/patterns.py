"""Regular expressions from outside (rules, role paths), matched by RE2 in linear time (ReDoS).

They run on the event loop: the time grows with the text and the pattern, and never with the number
of ways to match. Syntax that RE2 does not support (lookaround, backreferences, …) is rejected when
the pattern is compiled.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from docgraph.runtime.allocations import ensure_if_guarded

MAX_PATTERN: Final = 4096  # characters
_MAX_MEMORY: Final = 1 << 20  # bytes of one compiled pattern, including its matching state
# In the worst case, RE2 runs every instruction of the pattern on every byte of the text. Four
# million such steps take less than a tenth of a second; the pattern `a{1000}` has 1005
# instructions.
_MAX_STEPS: Final = 4_000_000
# A class such as \p{L} has a thousand instructions, of which few are ever active together.
_ALWAYS_TRIED: Final = 1024  # bytes

_LOOKAROUND: Final = "lookaround is not known"
_ADVICE: Final = {
    "(?=": _LOOKAROUND,
    "(?!": _LOOKAROUND,
    "(?<=": _LOOKAROUND,
    "(?<!": _LOOKAROUND,
    "(?>": "atomic groups are not known; write (?:…)",
    "(?P": "backreferences are not known",
    "(?(": "conditional groups are not known",
    "(?#": "comments are not known",
    "(?x": "the flags are i, m, s and U",
    "(?a": "the flags are i, m, s and U; \\w, \\d, \\s and \\b are ASCII anyhow",
    "(?u": "the flags are i, m, s and U",
    "\\Z": "write \\z for the end of the text",
    "\\u": "write \\x{20ac} for a character by its number",
    "\\U": "write \\x{1f600} for a character by its number",
    "++": "possessive repetitions are not known; write one sign",
    "*+": "possessive repetitions are not known; write one sign",
    "?+": "possessive repetitions are not known; write one sign",
}
# Skips escapes, quotations and classes, so that the last two groups match real syntax only.
_SCAN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|(\\C)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\{,[0-9]+\})", re.DOTALL
)


class BadPattern(ValueError):
    """A pattern that cannot be used; `construct` is the invalid part of it, if known."""

    def __init__(self, reason: str, construct: str = "") -> None:
        super().__init__(reason)
        self.construct = construct


class Untriable(ValueError):
    """A text that is not matched: too long for the pattern, or not encodable."""


class Pattern:
    """A compiled pattern; raises `BadPattern`."""

    __slots__ = ("_compiled", "groups", "longest")

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        if len(text) > MAX_PATTERN:
            raise BadPattern(f"longer than {MAX_PATTERN} characters")
        _check_differences(text)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY
        options.case_sensitive = not ignore_case
        ensure_if_guarded(_MAX_MEMORY)  # it ends the process if an allocation fails
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            raise _explain(error) from None
        except UnicodeEncodeError:
            raise BadPattern("it holds half of a surrogate pair") from None
        self.groups: int = self._compiled.groups
        steps = max(1, self._compiled.programsize)
        self.longest = max(_ALWAYS_TRIED, _MAX_STEPS // steps)  # bytes of a text

    def search(self, text: str) -> tuple[str | None, ...] | None:
        """Return the first match and its groups, or None. Raise `Untriable`."""
        return self._match(self._compiled.search, text)

    def fullmatch(self, text: str) -> tuple[str | None, ...] | None:
        """Return the match of the whole text and its groups, or None. Raise `Untriable`."""
        return self._match(self._compiled.fullmatch, text)

    def _match(self, find: Any, text: str) -> tuple[str | None, ...] | None:
        try:
            length = len(text.encode())
        except UnicodeEncodeError:
            raise Untriable("it holds half of a surrogate pair") from None
        if length > self.longest:
            raise Untriable(f"it is longer than {self.longest} bytes")
        ensure_if_guarded(_MAX_MEMORY)
        match = find(text)
        return None if match is None else (match[0], *match.groups())


def _check_differences(text: str) -> None:
    """Reject syntax that RE2 interprets differently from other engines."""
    for match in _SCAN.finditer(text):
        if match[1]:
            raise BadPattern("\\C is not known", "\\C")
        if match[2]:
            raise BadPattern(f"{match[2]} has no lower bound; write {{0{match[2][1:]}", match[2])


def _explain(error: Exception) -> BadPattern:
    raw = error.args[0]
    reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    _, separator, construct = reason.rpartition(": ")
    construct = construct if separator else ""
    advice = _ADVICE.get(construct)
    if advice is None and re.fullmatch(r"\\[1-9]", construct):
        advice = "backreferences are not known"
    if advice is None and reason.startswith("invalid repetition size"):
        advice = "a count is 1000 at most, also that of nested ones together"
    return BadPattern(f"{reason} ({advice})" if advice else reason, construct)
