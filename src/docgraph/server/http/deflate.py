"""WebSocket frames: their headers (RFC 6455 5.2), and compression of messages (RFC 7692).

Every message is compressed on its own (no context takeover): an event for many peers is compressed
once, and an idle connection holds no compressor. What a peer sends is decompressed up to the limit
of a message, so that a few bytes cannot fill the memory (decompression bomb).
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

_NAME: Final = "permessage-deflate"
_HEADER: Final = b"sec-websocket-extensions"
_VALUES: Final = {  # of the parameters of an offer
    "client_max_window_bits": re.compile("|[89]|1[0-5]"),
    "client_no_context_takeover": re.compile(""),
    "server_max_window_bits": re.compile("9|1[0-5]"),  # zlib cannot write with 8
    "server_no_context_takeover": re.compile(""),
}
_SMALLEST, _LARGEST = 256, 64 * 1024  # bytes: what is compressed; more would block the event loop
_LEVEL: Final = 1
_TAIL: Final = b"\x00\x00\xff\xff"  # of each message, and not sent (7.2.1)
_FIRST: Final = (Opcode.TEXT, Opcode.BINARY)


class MessageDeflate(Extension):
    """The compression of one connection; a message of the peer has at most `most` bytes."""

    name = _NAME

    def __init__(self, bits: int, most: int, *, is_asked: bool = False) -> None:
        self.bits = bits
        self._is_asked = is_asked  # whether the peer asked for that window
        self._most = most
        self._is_data = False  # the current frame, not a ping among fragments
        self._inflating: zlib._Decompress | None = None  # a compressed message
        self._size = 0

    @property
    def response(self) -> bytes:
        """The value of the header that accepts it."""
        window = f"; server_max_window_bits={self.bits}" if self._is_asked else ""
        return f"{_NAME}; server_no_context_takeover; client_no_context_takeover{window}".encode()

    def enabled(self) -> bool:
        """Return True: the compression is negotiated before it is created."""
        return True

    def offer(self) -> bool:
        """Return False: a server accepts offers, and makes none."""
        return False

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """Begin a message, if the frame is its first."""
        self._is_data = not opcode.iscontrol()
        if rsv.rsv1 and opcode not in _FIRST:
            return CloseReason.PROTOCOL_ERROR
        if opcode in _FIRST:
            self._inflating = zlib.decompressobj(-zlib.MAX_WBITS) if rsv.rsv1 else None
            self._size = 0
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(
        self, proto: FrameDecoder | FrameProtocol, data: bytes
    ) -> bytes | CloseReason:
        if self._inflating is None or not self._is_data:
            return data
        return self._inflate(self._inflating, data)

    def frame_inbound_complete(
        self, proto: FrameDecoder | FrameProtocol, fin: bool
    ) -> bytes | CloseReason | None:
        if self._inflating is None or not self._is_data or not fin:
            return None
        inflating, self._inflating = self._inflating, None
        return self._inflate(inflating, _TAIL)

    def _inflate(self, inflating: zlib._Decompress, data: bytes) -> bytes | CloseReason:
        try:
            part = inflating.decompress(data, self._most - self._size + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._size += len(part)
        return part if self._size <= self._most else CloseReason.MESSAGE_TOO_BIG

    def frame_outbound(
        self,
        proto: FrameDecoder | FrameProtocol,
        opcode: Opcode,
        rsv: RsvBits,
        data: bytes,
        fin: bool,
    ) -> tuple[RsvBits, bytes]:
        compressed = deflate(data, self.bits) if fin and opcode in _FIRST else None
        return (rsv, data) if compressed is None else (RsvBits(True, False, False), compressed)


def deflate(content: bytes, bits: int) -> bytes | None:
    """Return the compressed message; None if it is better sent as it is."""
    if not _SMALLEST <= len(content) <= _LARGEST:
        return None
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -bits)
    parts = compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)
    compressed = parts.removesuffix(_TAIL)
    return compressed if len(compressed) < len(content) else None


def negotiate(headers: list[tuple[bytes, bytes]], most: int) -> MessageDeflate | None:
    """Return the first offer of a handshake that can be accepted, if there is one."""
    text = b",".join(value for name, value in headers if name == _HEADER).decode("latin-1")
    for offer in text.split(",") if text else ():
        name, *parameters = (part.strip() for part in offer.split(";"))
        if name.lower() == _NAME and (found := _read_offer(parameters, most)):
            return found
    return None


def _read_offer(parameters: list[str], most: int) -> MessageDeflate | None:
    """Return the compression with these parameters; None if one of them is invalid (7.1)."""
    values = dict(map(_split, parameters))
    is_valid = all(
        name in _VALUES and _VALUES[name].fullmatch(value) for name, value in values.items()
    )
    if not is_valid or len(values) < len(parameters):  # one of them is given twice
        return None
    asked = values.get("server_max_window_bits")
    return MessageDeflate(int(asked or zlib.MAX_WBITS), most, is_asked=asked is not None)


def _split(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip().lower(), value.strip().strip('"')


_FIN, _OPCODE, _MASKED, _LENGTH = 0x80, 0x0F, 0x80, 0x7F
_CONTINUATION, _FIRST_CONTROL = 0x0, 0x8
_EXTENDED: Final = {126: 2, 127: 8}  # bytes of the length, by the value in its place
_MASK = 4


class FrameHeaders:
    """Follows the frames of one direction of a connection.

    Headers (RFC 6455 5.2) are parsed before their payload arrives. `wsproto` reports a frame with
    its payload. A peer that announces a message which is too long is rejected by the header:
    nothing of the message has to be received for that.
    """

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
