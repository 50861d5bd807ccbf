"""Parse the headers of WebSocket frames (RFC 6455 5.2) before their payload arrives.

`wsproto` reports a frame with its payload. A peer that announces a message which is too long is
rejected by the header: nothing of the message has to be received for that.
"""

from __future__ import annotations

from typing import Final

_FIN, _OPCODE, _MASKED, _LENGTH = 0x80, 0x0F, 0x80, 0x7F
_CONTINUATION, _FIRST_CONTROL = 0x0, 0x8
_EXTENDED: Final = {126: 2, 127: 8}  # bytes of the length, by the value in its place
_MASK = 4


class FrameHeaders:
    """Follows the frames of one direction of a connection."""

    def __init__(self) -> None:
        self._header = bytearray()  # of the current frame, as far as it has arrived
        self._left = 0  # bytes of the payload that is arriving
        self._message = 0  # bytes of the message so far, its announced frames included

    def feed(self, data: bytes) -> int:
        """Return the bytes of the longest message that is announced up to here."""
        longest, position = 0, 0
        while position < len(data):
            if self._left:
                skipped = min(self._left, len(data) - position)
                self._left -= skipped
                position += skipped
                continue
            self._header.append(data[position])
            position += 1
            if (length := _find_length(self._header)) is not None:
                longest = max(longest, self._begin(self._header[0], length))
                self._header.clear()
        return longest

    def _begin(self, first: int, length: int) -> int:
        """Start a frame; returns the bytes of its message including it."""
        self._left = length
        opcode = first & _OPCODE
        if opcode >= _FIRST_CONTROL:
            return 0
        announced = length + (self._message if opcode == _CONTINUATION else 0)
        self._message = 0 if first & _FIN else announced
        return announced


def _find_length(header: bytearray) -> int | None:
    """Return the bytes of the payload, when the header is complete."""
    if len(header) < 2:  # noqa: PLR2004 - the flags, and the short length
        return None
    short = header[1] & _LENGTH
    extended = _EXTENDED.get(short, 0)
    if len(header) < 2 + extended + (_MASK if header[1] & _MASKED else 0):
        return None
    return int.from_bytes(header[2 : 2 + extended], "big") if extended else short
