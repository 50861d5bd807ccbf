"""What a connection can be waiting for."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Phase"]


class Phase(Enum):
    """Each has its own time, and its own end when that is up."""

    NEW = auto()  # the first byte
    HEAD = auto()  # the end of the head
    WORK = auto()  # nothing of the client: the application is at work
    BODY = auto()  # the body, which the application has asked for
    DRAIN = auto()  # the rest of a short body that the service did not read
    IDLE = auto()  # the next request
    LINGER = auto()  # the client to read its last answer, and to leave
