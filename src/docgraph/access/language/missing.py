"""Missing values and untyped texts in comparisons of predicates."""

from __future__ import annotations


class NoValue(Exception):
    """A value is missing, so that a condition on it is neither true nor false."""


class AbsentValue(NoValue):
    """A value certainly does not exist, as `exists` tests; other values cannot be read."""


class Repeated(NoValue):
    """A value is given more than once, with different contents.

    The service decides which one counts; a rule that checked another one would let the caller
    choose between them.
    """


class Text(str):
    """A text that can represent another type: from a rule, a path, a header, a parameter.

    A value with its own type, such as a property of the caller, is compared with that type.
    """

    __slots__ = ()
