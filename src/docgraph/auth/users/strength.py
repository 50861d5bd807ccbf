"""Password strength by zxcvbn: 0 weak, 1 fair, 2 good, 3 strong, 4 very strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.errors import RequestError
from docgraph.runtime import Blocking, run_blocking

_LONGEST: Final = 72  # characters; the time grows faster than the text
_QUEUE: Final = 32


@dataclass(frozen=True, slots=True)
class Rating:
    """The score of a password and how to improve it."""

    score: int
    warning: str = ""
    suggestions: tuple[str, ...] = ()


class Strength:
    """Rejects passwords below a score."""

    def __init__(self, blocking: Blocking, minimum: int) -> None:
        # One at a time: the library stores the words of the current call in a global variable.
        self._lane = blocking.lane("password-strength", 1, _QUEUE)
        self._minimum = minimum

    async def check(self, password: str, *, words: Sequence[str] = (), place: str = "") -> None:
        """Raise `RequestError` for a weak password; `words` are likely guesses."""
        rating = await run_blocking(self._lane, rate, password, words)
        if rating.score >= self._minimum:
            return
        advice: dict[str, Any] = {}
        if rating.warning:
            advice["warning"] = rating.warning
        if rating.suggestions:
            advice["suggestions"] = list(rating.suggestions)
        raise RequestError(
            f"Password is too weak{place}",  # the specification's own text
            hint=f"its strength is {rating.score} of 4 and has to be {self._minimum} at least",
            fields=advice,
        )


def rate(password: str, words: Sequence[str] = ()) -> Rating:
    """Rate a password; slow, for use in a thread."""
    from zxcvbn import zxcvbn  # its word lists are large, and most instances never need them

    result = zxcvbn(password[:_LONGEST], user_inputs=[word for word in words if word])
    feedback = result["feedback"]
    return Rating(result["score"], feedback["warning"] or "", tuple(feedback["suggestions"]))
