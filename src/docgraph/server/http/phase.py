"""Phases of a connection: what it is waiting for."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """Each phase has its own timeout, and its own end when that expires."""

    NEW = auto()  # the first byte
    HEAD = auto()  # the end of the head
    WORK = auto()  # nothing from the client: the application is running
    BODY = auto()  # the body, which the application reads
    DRAIN = auto()  # the rest of a short body that the service did not read
    IDLE = auto()  # the next request
    LINGER = auto()  # the client to read its last response, and to disconnect
