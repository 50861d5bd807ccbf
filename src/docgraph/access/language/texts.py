"""What predicates compare with when nothing has a type, and when nothing is there."""

from __future__ import annotations

__all__ = ["Absent", "NoValue", "Repeated", "Text"]


class NoValue(Exception):
    """Something has no value, so that a condition on it neither holds nor fails."""


class Absent(NoValue):
    """Something is certainly not there, which is what `exists` asks; others cannot be read."""


class Repeated(NoValue):
    """Something is there more than once, with different values.

    Which one counts is up to whoever serves the request; a rule that looked at another one would
    let the caller choose between them.
    """


class Text(str):
    """A text that can stand for a value of another type: of a rule, a path, a header, a parameter.

    What has a type of its own, such as a property of the caller, is compared as that.
    """

    __slots__ = ()
