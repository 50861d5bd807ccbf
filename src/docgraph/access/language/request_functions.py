"""Predicates on other parts of a request: method, compared values, parameters, sizes."""

from __future__ import annotations

from collections.abc import Callable, Set
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from operator import ge, gt, le, lt
from typing import Any, Final

from docgraph.access.language.function import (
    AccessFunction,
    FunctionArguments,
    Reach,
    Test,
    are_equal,
    find_address,
    is_any_equal,
    items_of,
    number_of,
    path_of,
    text_of,
)
from docgraph.access.language.view import AbsentValue, NoValue, Repeated, RequestView, Text
from docgraph.codec.patterns import BadPattern, Pattern, Untriable
from docgraph.predicates import Parameter
from docgraph.predicates import PredicateArguments as Texts

_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_OPERANDS: Final = 2
_PATH: Final = "%R"
_MAX_SUBJECT: Final = 8192  # characters that a regular expression is tested on
_REWRITES: Final = {
    "(?!": "instead of (?!…) write `not regex(…)` beside it",
    "(?<!": "instead of (?<!…) write `not regex(…)` beside it",
    "(?=": "instead of (?=…) write `and regex(…)` beside it",
    "(?<=": "instead of (?<=…) write `and regex(…)` beside it",
}


def _build_method(arguments: FunctionArguments) -> Test:
    methods = _read_methods(arguments.texts)
    return lambda view: view.request.method in methods


def _read_methods(texts: Texts) -> frozenset[str]:
    methods = frozenset(text.upper() for text in texts["value"])
    return methods | {"HEAD"} if "GET" in methods else methods  # a GET without its body


def _build_equals(arguments: FunctionArguments) -> Test:
    values = arguments.values["value"]
    if len(values) < _OPERANDS:
        raise ValueError("needs two values or more")
    first, rest = values[0], values[1:]

    def test(view: RequestView) -> bool:
        expected = first(view)
        return all(are_equal(expected, value(view)) for value in rest)

    return test


def _build_in(arguments: FunctionArguments) -> Test:
    (value,), array = arguments.values["value"], arguments.values.get("array", ())

    def test(view: RequestView) -> bool:
        wanted = value(view)
        return is_any_equal([wanted], [item for entry in array for item in items_of(entry(view))])

    return test


def _build_contains(arguments: FunctionArguments) -> Test:
    (value,), wanted = arguments.values["value"], arguments.values["search"]

    def test(view: RequestView) -> bool:
        container = value(view)
        searched = [item for sought in wanted for item in items_of(sought(view))]
        if isinstance(container, list):
            return is_any_equal(container, searched)
        return any([_is_part(item, container) for item in searched])

    return test


def _is_part(part: Any, whole: Any) -> bool:
    """Return whether a text is in another one; non-texts count as texts next to a `Text` only."""
    for left, other in ((part, whole), (whole, part)):
        if not isinstance(left, str) and not isinstance(other, Text):
            raise NoValue("no text")
    return text_of(part) in text_of(whole)


def _build_exists(arguments: FunctionArguments) -> Test:
    values = arguments.values["value"]

    def test(view: RequestView) -> bool:
        return all(_is_there(value, view) for value in values)

    return test


def _is_there(value: Callable[[RequestView], Any], view: RequestView) -> bool:
    try:
        return value(view) is not None
    except Repeated:
        return True
    except AbsentValue:
        return False  # this function tests for absence


def _build_regex(arguments: FunctionArguments) -> Test:
    pattern = _read_pattern(arguments)
    whole = _read_flag(arguments, "full-match", default=False)
    find = pattern.fullmatch if whole else pattern.search
    values, text = arguments.values.get("value"), arguments.text("value", _PATH)
    value = path_of if values is None or text == _PATH else values[0]
    arguments.scope.bound.update(str(number) for number in range(pattern.groups + 1))

    def test(view: RequestView) -> bool:
        subject = value(view)
        if subject is None or len(text := text_of(subject)) > _MAX_SUBJECT:
            raise NoValue("nothing to try the pattern on")
        try:
            groups = find(text)
        except Untriable as error:
            raise NoValue(str(error)) from None
        if groups is None:
            return False
        view.bind({str(n): group for n, group in enumerate(groups) if group is not None})
        return True

    return test


def _read_pattern(arguments: FunctionArguments) -> Pattern:
    ignore_case = not _read_flag(arguments, "case-sensitive", default=True)
    try:
        return Pattern(arguments.text("pattern") or "", ignore_case=ignore_case)
    except BadPattern as error:
        rewrite = _REWRITES.get(error.construct)
        advice = f"; {rewrite}" if rewrite else ""
        raise ValueError(f"the pattern cannot be read by RE2: {error}{advice}") from None


def _read_flag(arguments: FunctionArguments, name: str, *, default: bool) -> bool:
    text = arguments.text(name)
    if text not in (None, "true", "false"):
        raise ValueError(f"{name} is true or false")
    return default if text is None else text == "true"


def _build_comparison(
    compare: Callable[[Decimal, Decimal], bool],
) -> Callable[[FunctionArguments], Test]:
    def build(arguments: FunctionArguments) -> Test:
        values = arguments.values["value"]
        if len(values) != _OPERANDS:
            raise ValueError("needs exactly two values")
        left, right = values
        return lambda view: compare(number_of(left(view)), number_of(right(view)))

    return build


def _build_names(
    test: Callable[[frozenset[str], Set[str]], bool],
) -> Callable[[FunctionArguments], Test]:
    """Build a test of the names in the rule against those of the query parameters."""

    def build(arguments: FunctionArguments) -> Test:
        names = frozenset(arguments.texts.get("params", ()))
        return lambda view: test(names, view.request.query.names())

    return build


def _build_size(arguments: FunctionArguments) -> Test:
    size = _read_number(arguments.text("size"))
    return lambda view: len(view.request.query.names()) == size


def _build_length(compare: Callable[[int, int], bool]) -> Callable[[FunctionArguments], Test]:
    def build(arguments: FunctionArguments) -> Test:
        bound = _read_number(arguments.text("value"))
        return lambda view: compare(view.get_length(), bound)

    return build


def _read_number(text: str | None) -> int:
    if text is None or not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def _build_address_list(arguments: FunctionArguments) -> Test:
    """Build `ip-access-control`: the first entry with the caller's address decides."""
    entries = [_read_address_entry(text) for text in arguments.texts["acl"]]
    default = _read_flag(arguments, "default-allow", default=False)

    def test(view: RequestView) -> bool:
        try:
            address = ip_address((find_address(view) or "").partition("%")[0])
        except ValueError:
            raise NoValue("no address") from None
        address = getattr(address, "ipv4_mapped", None) or address
        return next((allows for network, allows in entries if address in network), default)

    return test


def _read_address_entry(text: str) -> tuple[IPv4Network | IPv6Network, bool]:
    network, _, verb = text.strip().partition(" ")
    if verb.strip() not in ("allow", "deny"):
        raise ValueError(f"{text!r} is not an address or network with allow or deny")
    try:
        return ip_network(network, strict=False), verb.strip() == "allow"
    except ValueError:
        raise ValueError(f"{network!r} is not an address or network") from None


def _flag(test: Test) -> AccessFunction:
    return AccessFunction((), lambda arguments: test)


_VALUES = (Parameter("value", is_list=True),)
_NAMES = (Parameter("params", is_list=True, is_fixed=True),)
_NUMBER = (Parameter("value", is_fixed=True),)

REQUEST_WORDS: dict[str, AccessFunction] = {
    "method": AccessFunction(
        (Parameter("value", is_list=True, is_fixed=True),),
        _build_method,
        lambda texts: Reach(methods=_read_methods(texts)),
    ),
    "equals": AccessFunction(_VALUES, _build_equals),
    "in": AccessFunction(
        (Parameter("value"), Parameter("array", is_list=True, is_required=False)), _build_in
    ),
    "contains": AccessFunction(
        (Parameter("value"), Parameter("search", is_list=True)), _build_contains
    ),
    "exists": AccessFunction(_VALUES, _build_exists),
    "regex": AccessFunction(
        (
            Parameter("pattern", is_fixed=True),
            Parameter("value", is_required=False),
            Parameter("full-match", is_required=False, is_fixed=True),
            Parameter("case-sensitive", is_required=False, is_fixed=True),
        ),
        _build_regex,
    ),
    "gte": AccessFunction(_VALUES, _build_comparison(ge)),
    "lte": AccessFunction(_VALUES, _build_comparison(le)),
    "qparams-contain": AccessFunction(_NAMES, _build_names(frozenset.issubset)),
    "qparams-blacklist": AccessFunction(_NAMES, _build_names(frozenset.isdisjoint)),
    "qparams-whitelist": AccessFunction(
        (Parameter("params", is_list=True, is_fixed=True, is_required=False),),
        _build_names(frozenset.issuperset),
    ),
    "qparams-size": AccessFunction((Parameter("size", is_fixed=True),), _build_size),
    "ip-access-control": AccessFunction(
        (
            Parameter("acl", is_list=True, is_fixed=True),
            Parameter("default-allow", is_required=False, is_fixed=True),
        ),
        _build_address_list,
    ),
    "auth-required": _flag(lambda view: view.exchange.account is not None),
    "secure": _flag(lambda view: view.request.connection.scheme in ("https", "wss")),
    "idempotent": _flag(lambda view: view.request.method in _IDEMPOTENT),
    "request-larger-than": AccessFunction(_NUMBER, _build_length(gt)),
    "request-smaller-than": AccessFunction(_NUMBER, _build_length(lt)),
    "min-content-size": AccessFunction(_NUMBER, _build_length(ge)),
    "max-content-size": AccessFunction(_NUMBER, _build_length(le)),
}
