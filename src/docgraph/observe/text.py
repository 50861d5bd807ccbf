"""Log sanitizing: text bounded, on one line, without control characters and secrets.

Much of the logged text comes from strangers. Escaping prevents line breaks, terminal sequences and
text direction marks from forging or hiding lines. The bound prevents one request from filling the
disk. Masking is a second safety net: no code of docgraph puts a secret into an event, but the
messages of libraries may quote a connection string or a header.
"""

from __future__ import annotations

import re

LIMIT = 1024  # bytes of a field
_MAX_BYTES = 4  # of a character

# Nearly every field of nearly every line: nothing to escape, and no room for a secret.
_is_plain = re.compile(r"[\w./@%~+,()-]*").fullmatch

_may_hold_secret = re.compile(
    r"://|bearer|basic|digest|authorization|cookie|passw|pwd|secret|token|api.?key|eyJ", re.I
).search
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    # The driver takes everything up to the last @ as credentials, even unescaped.
    (re.compile(r"(mongodb(?:\+srv)?://)[^\s\"']{0,512}@", re.I), r"\1***@"),
    (re.compile(r"(://)[^\s/@:\"']{0,256}:[^\s/@\"']{0,256}@"), r"\1***@"),
    (
        re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\W{1,4})[^\r\n]*", re.I),
        r"\1\2***",
    ),
    (re.compile(r"\b(bearer|basic|digest)\s{1,4}[\w.~+/=-]{8,}", re.I), r"\1 ***"),
    (
        re.compile(
            r"\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key)[\"']?\s{0,4}[:=]\s{0,4})"
            r"(?:\"[^\"]*\"?|'[^']*'?|[^\s\"',;&]+)",
            re.I,
        ),
        r"\1***",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]*\.[\w-]*"), "***"),  # a JWT
)


def are_plain(*texts: str, limit: int = LIMIT) -> bool:
    """Return whether `clean_text` would leave all of them unchanged; one check for all."""
    text = "".join(texts)
    return len(text) * _MAX_BYTES <= limit and bool(_is_plain(text)) and "eyJ" not in text


def clean_text(text: str, limit: int = LIMIT) -> str:
    """Return the text with secrets masked, control characters escaped, cut to `limit` bytes."""
    if are_plain(text, limit=limit):
        return text
    text = text[: 2 * limit]  # the rest is cut anyway, and would slow down the patterns
    if _may_hold_secret(text):
        for pattern, replacement in _MASKS:
            text = pattern.sub(replacement, text)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    return _cut(text, limit)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _cut(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    ellipsis = "…"
    return data[: limit - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
