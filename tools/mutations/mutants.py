"""The mutants of a source file: each is the file with one small change.

A change replaces the text of one node of the syntax tree, so that all else stays as it is. Each
mutant has a stable key (file, function, text before and after), which does not depend on lines.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_RENAMED = {"any": "all", "all": "any", "min": "max", "max": "min"}
_UNWRAPPED = {"reversed", "sorted", "asyncio.shield", "frozenset", "deepcopy", "copy.deepcopy"}
# Conditions that have mutants of their own; others are negated.
_CHANGED = ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
_TUNED = 20  # from here on numbers are sizes and times, of which one more is as good
_SHORT = 100  # characters of a change in a report


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str  # from the root of the repository
    function: str  # its qualified name; empty at the level of the module
    line: int
    last_line: int
    before: str
    after: str
    start: int  # offsets of the replaced text in the file, in bytes
    end: int
    is_inside: bool  # in the body of a function, not in what is evaluated when it is defined

    @property
    def key(self) -> str:
        """Names the change in the list of accepted survivors."""
        return f"{self.file} {self.function or '(module)'}: {self.change}"

    @property
    def change(self) -> str:
        """What is replaced by what, on one line."""
        return f"`{_shorten(self.before)}` → `{_shorten(self.after)}`"

    def apply(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def rank(self, seed: int) -> str:
        """The position in the sample of a seed; a change elsewhere in the source moves nothing."""
        return hashlib.sha256(f"{seed} {self.key}".encode()).hexdigest()


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHORT else f"{words[:_SHORT]}…"


def find_mutants(root: Path, path: Path) -> list[Mutant]:
    """Every mutant of a file."""
    source = path.read_bytes()
    finder = _Finder(path.relative_to(root).as_posix(), source)
    finder.visit(ast.parse(source))
    return finder.found


def is_valid(root: Path, mutant: Mutant) -> bool:
    """Whether the file still compiles with the change; few do not, so only a sample is tried."""
    try:
        source = mutant.apply((root / mutant.file).read_bytes())
        compile(source, mutant.file, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Walks over the code that runs: no docstrings, annotations, decorators or messages."""

    def __init__(self, file: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._file, self._source = file, source
        self._names: list[str] = []
        self._functions = 0
        lines = source.splitlines(keepends=True)
        self._offsets = [0]
        for line in lines:
            self._offsets.append(self._offsets[-1] + len(line))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and ast.unparse(node) == "await asyncio.sleep(0)":
            return  # only lets others run
        if isinstance(node, ast.expr | ast.stmt):
            for after in _change(node):
                self._add(node, after)
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, _CHANGED):
            self._add(node.test, f"not ({ast.unparse(node.test)})")
        super().visit(node)

    def _add(self, node: ast.expr | ast.stmt, after: str) -> None:
        start = self._offsets[node.lineno - 1] + node.col_offset
        last = node.end_lineno or node.lineno
        end = self._offsets[last - 1] + (node.end_col_offset or 0)
        before = self._source[start:end].decode()
        if isinstance(node, ast.expr):
            after = f"({after})"
        name, inside = ".".join(self._names), self._functions > 0
        mutant = Mutant(self._file, name, node.lineno, last, before, after, start, end, inside)
        self.found.append(mutant)

    def _visit_function(self, node: _Function) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._names.append(node.name)
        self._functions += 1
        self._visit_body(node.body)
        self._functions -= 1
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        functions, self._functions = self._functions, 0
        self._visit_body(node.body)
        self._functions = functions
        self._names.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._visit_body(node.body)

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for number, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not (number == 0 and is_text):
                self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {one.id for one in node.targets if isinstance(one, ast.Name)}
        if not any(name == "__all__" or name[:1].isupper() for name in names):  # no type aliases
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ("repr", "strict"):  # for developers; a check of what holds anyway
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is no behavior that a mutant should change."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion states what holds anyway."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts for people."""

    def visit_Import(self, node: ast.Import) -> None:
        """Names, not behavior."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Names, not behavior."""


def _change(node: ast.expr | ast.stmt) -> Iterator[str]:
    """The texts that may stand in place of a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            yield _with(node, ops=[_COMPARED[type(operator)]()])
        case ast.BoolOp(op=operator, values=[*values]):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
            yield _join(node, values[1:])
            yield _join(node, values[:-1])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BinOp(op=operator) if type(operator) in _COMPUTED:
            yield _with(node, op=_COMPUTED[type(operator)]())
        case ast.Constant(value=value):
            yield from _change_constant(value)
        case ast.IfExp(test=test):
            yield _with(node, test=_negate(test))
        case ast.Call():
            yield from _change_call(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _drop_conditions(node)
        case ast.stmt():
            yield from _change_statement(node)


def _change_constant(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int) and value < _TUNED:
        yield str(value + 1)
    elif isinstance(value, str) and value and " " not in value:
        yield repr(f"{value}_")


def _join(node: ast.BoolOp, values: list[ast.expr]) -> str:
    return _with(node, values=values) if len(values) > 1 else ast.unparse(values[0])


def _change_call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    if name in _RENAMED:
        yield _with(node, func=ast.Name(_RENAMED[name]))
    elif name in _UNWRAPPED and len(node.args) == 1 and not isinstance(node.args[0], ast.Set):
        yield ast.unparse(node.args[0])


def _drop_conditions(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
) -> Iterator[str]:
    for number, generator in enumerate(node.generators):
        if generator.ifs:
            changed = copy.deepcopy(node)
            changed.generators[number].ifs = []
            yield (
                ast.unparse(changed).strip("()")
                if isinstance(node, ast.GeneratorExp)
                else ast.unparse(changed)
            )


def _change_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Return(value=value) if not _is_empty(value):
            yield "return None"
        case ast.Raise(exc=error) if error and "AssertionError" in ast.unparse(error):
            return  # never reached, as an assertion
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
            yield "pass"
        case ast.Delete() | ast.Assign(targets=[ast.Subscript()]):
            yield "pass"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"


def _is_empty(value: ast.expr | None) -> bool:
    """Whether None would mean the same to those who ask whether it is so."""
    return value is None or (isinstance(value, ast.Constant) and value.value in (None, False))


def _negate(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), node)


def _with(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return ast.unparse(changed)
