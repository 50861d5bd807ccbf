"""The check of the new file: correct what can be corrected, else name the lines of the old file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from docgraph.tools.configuration import ConfigError, Problem, check_file
from docgraph_migrate.authentication import turn_cookies_off
from docgraph_migrate.convert import Conversion
from docgraph_migrate.report import ReportList

_MAX_ROUNDS: Final = 5  # a correction may bring another one to light


class NumberLimit(NamedTuple):
    """A limit of docgraph for a number; `effect` is that of using the limit."""

    limit: int
    is_least: bool
    effect: ReportList


_DIGEST: Final = ("digestAuthMechanism", "enabled")
_BOUNDS: Final = {
    ("graphql", "app-cache-ttr"): NumberLimit(100, True, ReportList.ANSWERS),
    ("dbRealmAuthenticator", "bcrypt-complexity"): NumberLimit(14, False, ReportList.LESS),
}


def check_new_file(conversion: Conversion) -> None:
    """Check as `config check` does, and correct; raise `ConfigError` with lines of the old file."""
    _apply_bounds(conversion)
    for _ in range(_MAX_ROUNDS):
        problems = find_problems(conversion)
        if not problems:
            return
        if not any([_correct(conversion, problem) for problem in problems]):
            raise ConfigError([_locate(conversion, problem) for problem in problems])
    raise ConfigError([_locate(conversion, problem) for problem in problems])


def find_problems(conversion: Conversion) -> list[Problem]:
    """Return what `config check` finds in the new file."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "docgraph.yml")
        with open(file, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as new:
            new.write(conversion.render())
        try:
            check_file(file)
        except ConfigError as error:
            return list(error.problems)
    return []


def _apply_bounds(conversion: Conversion) -> None:
    for (section, option), bound in _BOUNDS.items():
        value: Any = conversion.sections.get(section, {}).get(option)
        if not isinstance(value, int) or (
            value >= bound.limit if bound.is_least else value <= bound.limit
        ):
            continue
        conversion.put(section, option, bound.limit)
        where = ".".join(conversion.origins.get((section, option), (section, option)))
        word = "least" if bound.is_least else "most"
        what = f"is {value} there; docgraph allows at {word} {bound.limit}, which is written"
        remedy = f"accept it, or set another {section}.{option} in the new file"
        conversion.add(bound.effect, "bound", where, what, remedy)


def _correct(conversion: Conversion, problem: Problem) -> bool:
    """Correct what caused the problem if that is possible."""
    is_about_cookies = "cookies" in problem.message or problem.path.startswith("/authCookie")
    if is_about_cookies and conversion.get("authCookieSetter", "enabled"):
        turn_cookies_off(conversion)
        what = f"docgraph turns cookies off: {problem.message}"
        remedy = f"to keep them: {problem.hint or 'correct the option, and turn all three on'}"
        where = ".".join(_find_old(conversion, problem))
        conversion.add(ReportList.MORE, "cookies-off", where, what, remedy)
        return True
    if problem.path.startswith("/digestAuthMechanism") and conversion.get(*_DIGEST):
        conversion.put(*_DIGEST, False)
        what = f"docgraph turns digest off: {problem.message}"
        remedy = problem.hint or "use basicAuthMechanism"
        conversion.add(ReportList.MORE, "digest-off", ".".join(_DIGEST), what, remedy)
        return True
    if problem.path in {"/mongo/max-pagesize", "/mongo/default-pagesize"}:
        most = conversion.get("mongo", "max-pagesize")
        if isinstance(most, int) and most < conversion.get("mongo", "default-pagesize"):
            conversion.put("mongo", "default-pagesize", most)
            what = f"is greater than max-pagesize there; docgraph writes {most} for both"
            remedy = "let clients ask for a pagesize"
            conversion.add(ReportList.ANSWERS, "pagesize", "mongo.default-pagesize", what, remedy)
            return True
    return False


def _find_old(conversion: Conversion, problem: Problem) -> tuple[str, str]:
    section, _, option = problem.path.strip("/").partition("/")
    option = option.split("/")[0].split("[")[0]
    return conversion.origins.get((section, option), (section, option))


def _locate(conversion: Conversion, problem: Problem) -> Problem:
    """Return the problem with the line of the old file that causes it."""
    if problem.path == "/":  # no authorizer
        hint = "enable mongoAclAuthorizer or fileAclAuthorizer, and write the rules of your plugin"
        problem = Problem("", "/mongoAclAuthorizer/enabled", problem.message, hint)
    section, option = _find_old(conversion, problem)
    origin = conversion.config.locate(section, option)
    path = f"/{section}/{option}" if option else f"/{section}"
    message = f"docgraph cannot start with it: {problem.message}"
    hint = problem.hint or "change it in the old file, or convert a copy without it"
    return Problem(origin, path, message, hint)
