"""Plugin validation at startup: one clear message per mistake in a plugin class.

Otherwise such a plugin would fail in the middle of a request, or inside another plugin that gets
the blame, or would never be called at all. A data interceptor runs at the points whose methods it
has: one without any is rejected before it is constructed.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from docgraph.exchange import DataPoint, StartupError
from docgraph.plugins import kinds
from docgraph.plugins.discover import FoundPlugin
from docgraph.plugins.kinds import AuthorizerRole, DataInterceptor, Kind, Plugin, Point

_METHODS: Final[Mapping[DataPoint, str]] = MappingProxyType(
    {
        DataPoint.BEFORE_WRITE: "before_write",
        DataPoint.AFTER_WRITE: "after_write",
        DataPoint.BEFORE_READ: "before_read",
        DataPoint.AFTER_READ: "after_read",
    }
)


def has_method_for(interceptor: type[object], point: DataPoint) -> bool:
    """Return whether the class has its own method for that point."""
    method = getattr(interceptor, _METHODS[point], None)
    return method is not None and method is not getattr(DataInterceptor, _METHODS[point])


def check_points(found: FoundPlugin) -> None:
    """Raise `StartupError` for a data interceptor that would never be called."""
    plugin = found.plugin
    if plugin.kind is not Kind.DATA_INTERCEPTOR:
        return
    title = f"the data interceptor {found.name!r} from {found.origin}"
    if hasattr(plugin, "intercept"):
        point = getattr(plugin, "point", None)
        points = [point] if isinstance(point, DataPoint) else list(DataPoint)
        raise StartupError(
            f"{title} has a method `intercept`, which is no longer called",
            hint=f"write {' or '.join(map(_describe, points))} in its place, and take out `point`",
        )
    if not any(has_method_for(plugin, point) for point in DataPoint):
        raise StartupError(
            f"{title} has none of the methods of a data interceptor",
            hint=f"write one or more of {', '.join(map(_describe, DataPoint))}",
        )


def _describe(point: DataPoint) -> str:
    _, *parameters = inspect.signature(getattr(DataInterceptor, _METHODS[point])).parameters
    return f"`{_METHODS[point]}({', '.join(parameters)})`"


# The commands of `docgraph.cli`, which would run instead of a plugin's.
BUILT_IN_COMMANDS: Final = frozenset(
    (
        "serve demo apps explain top mcp streams users keys acl access export import migrate "
        "config doctor plugins mongod completion examples version"
    ).split()
)

# The protocol of each kind, and the methods that the protocol does not enforce.
_KINDS: Final[Mapping[Kind, tuple[type[Any], tuple[str, ...]]]] = MappingProxyType(
    {
        Kind.SERVICE: (kinds.Service, ("handle",)),
        Kind.INTERCEPTOR: (kinds.Interceptor, ("handle",)),
        Kind.DATA_INTERCEPTOR: (kinds.DataInterceptor, ("resolve",)),
        Kind.AUTH_MECHANISM: (kinds.AuthMechanism, ("authenticate",)),
        Kind.AUTHENTICATOR: (kinds.Authenticator, ("verify",)),
        Kind.TOKEN_MANAGER: (kinds.TokenManager, ("issue", "verify", "revoke")),
        Kind.AUTHORIZER: (kinds.Authorizer, ("decide",)),
        Kind.INITIALIZER: (kinds.Initializer, ("initialize",)),
        Kind.PROVIDER: (kinds.Provider, ("get",)),
        Kind.VARIABLE_RESOLVER: (kinds.VariableResolver, ("resolve_variable",)),
        Kind.COMMAND: (kinds.Command, ("run",)),
    }
)
_Flaw = tuple[str, str]  # the mistake and the hint


def check_plugin(found: FoundPlugin, plugin: Plugin, section: object) -> None:
    """Raise `StartupError` for the first mistake."""
    for message, hint in _find_flaws(found, plugin, section):
        raise StartupError(f"{found.title} {message}", hint=hint)


@cache
def methods_of(kind: Kind) -> dict[str, Callable[..., Any]]:
    """Return the methods that are called on a plugin of that kind, as the kind declares them."""
    return {**_list_methods(Plugin), **_list_methods(_KINDS[kind][0])}


def is_async(method: Callable[..., Any]) -> bool:
    """Return whether a call of the method must be awaited, also when it is decorated."""
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(
        inspect.unwrap(method)
    )


# Methods that a plugin of the kind may have and need not have.
_OPTIONAL: Final[Mapping[Kind, tuple[type[Any], ...]]] = MappingProxyType(
    {
        Kind.AUTHENTICATOR: (kinds.KeyOwners, kinds.DigestAuthenticator),
        Kind.AUTHORIZER: (kinds.LoginDemander,),
    }
)
_ALIKE: Final = 0.85  # of two names, one of which is probably a misspelling of the other


def _find_misspelled(plugin: Plugin) -> Iterator[_Flaw]:
    """Yield methods of the plugin that are probably meant for one that it does not have."""
    declared = methods_of(plugin.kind)
    for optional in _OPTIONAL.get(plugin.kind, ()):
        declared = {**declared, **_list_methods(optional)}
    missing = [
        name
        for name, method in declared.items()
        if getattr(type(plugin), name, None) in (None, method)
    ]
    owners = [owner for owner in type(plugin).__mro__ if owner.__module__ != kinds.__name__]
    for name in {name for owner in owners for name in _list_methods(owner)} - declared.keys():
        for meant in difflib.get_close_matches(name, missing, 1, _ALIKE):
            yield (
                f"has a method `{name}`, which is never called",
                f"rename it to `{meant}` if that is meant, else to `_{name}`",
            )


def _list_methods(owner: type[Any]) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in vars(owner).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def _find_flaws(found: FoundPlugin, plugin: Plugin, section: object) -> Iterator[_Flaw]:
    # Methods of built-in plugins are checked by tests; startup need not wait for it.
    for name, declared in () if found.is_builtin else methods_of(plugin.kind).items():
        yield from _check_method(plugin, name, declared)
    if not found.is_builtin:
        yield from _find_misspelled(plugin)
    if plugin.kind is Kind.SERVICE:
        uri = getattr(section, "uri", None) or getattr(plugin, "uri", None)
        if not isinstance(uri, str):
            yield "has no `uri`", f'give the class `uri = "/…"`, or set /{plugin.name}/uri'
        elif not uri.startswith("/"):
            yield f"has the `uri` {uri!r}", "begin it with a slash"
        methods = getattr(plugin, "methods", None)
        if not _is_list_of_text(methods):
            yield f"has the `methods` {methods!r}", 'write `methods = ("GET", …)`'
    yield from _check_attributes(plugin)


def _check_method(plugin: Plugin, name: str, declared: Callable[..., Any]) -> Iterator[_Flaw]:
    method = getattr(plugin, name, None)
    function = getattr(method, "__func__", method)
    if function is declared and name not in _KINDS[plugin.kind][1]:
        return
    if function is declared or not callable(function) or not callable(method):
        title = _KINDS[plugin.kind][0].__name__
        hint = "" if function is declared else f", or subclass `docgraph.{title}`"
        yield f"has no method `{name}`", f"{_advise(name, declared)}{hint}"
        return
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield f"has a `{name}` that is a generator", "return a value in place of `yield`"
    elif is_async(function) and not is_async(declared):
        yield f"has an `async def {name}`, which is never awaited", _advise(name, declared)
    if not _takes(method, declared):
        shown = f"`{name}({_parameters(function)})`"
        yield f"has a {shown} that cannot be called", _advise(name, declared)


def _advise(name: str, declared: Callable[..., Any]) -> str:
    colour = "async " if is_async(declared) else ""
    return f"write `{colour}def {name}({_parameters(declared)})`"


def _parameters(function: Callable[..., Any]) -> str:
    return ", ".join(inspect.signature(function).parameters)


def _takes(method: Callable[..., Any], declared: Callable[..., Any]) -> bool:
    """Return whether the method accepts the arguments that the kind declares."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # not written in Python
        return True
    positional, by_name = _arguments_of(declared)
    try:
        signature.bind(*positional, **by_name)
    except TypeError:
        return False
    return True


@cache
def _arguments_of(declared: Callable[..., Any]) -> tuple[tuple[None, ...], dict[str, None]]:
    """Return placeholders for the arguments of a call, without the plugin itself."""
    parameters = list(inspect.signature(declared).parameters.values())[1:]
    by_name = {
        parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    return (None,) * (len(parameters) - len(by_name)), by_name


def _is_list_of_text(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(text, str) for text in value)
    )


def _check_attributes(plugin: Any) -> Iterator[_Flaw]:
    if plugin.kind is Kind.INTERCEPTOR and plugin.point not in set(Point):
        yield (
            f"has the `point` {plugin.point!r}",
            f"one of {', '.join(f'Point.{point.name}' for point in Point)}",
        )
    if plugin.kind is Kind.AUTHORIZER and not isinstance(plugin.role, AuthorizerRole):
        # A text would compare as equal and yet be neither a vetoer nor an allower.
        yield f"has the `role` {plugin.role!r}", "AuthorizerRole.VETOER or AuthorizerRole.ALLOWER"
    if plugin.kind is Kind.VARIABLE_RESOLVER:
        variable = getattr(plugin, "variable", None)
        if not isinstance(variable, str) or not variable or variable.startswith("@"):
            yield f"has the `variable` {variable!r}", "give it the name without the `@`"
    if plugin.kind is Kind.COMMAND and plugin.name in BUILT_IN_COMMANDS:
        yield f"can never be run: `docgraph {plugin.name}` is a command of docgraph", "rename it"
    priority = getattr(plugin, "priority", 0)
    if not isinstance(priority, int | float):
        yield f"has the `priority` {priority!r}", "a number; lower ones come first"
