"""One-line faults of a Python source, made mechanically from its syntax tree.

A mutant is one small change inside a function or a class: a comparison one off, a condition that always or never
holds, a term, an element, a field of a `replace` or a statement that is gone. Texts, annotations, assertions and
imports are left alone: what they say is not behaviour.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["Mutant", "mutants", "mutated"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LEFT_ALONE = ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr
_NOT_BEHAVIOUR = ("annotation", "returns", "ctx", "decorator_list", "pattern", "slice")  # fields


class Mutant(NamedTuple):
    file: str  # from the root of the project
    scope: str  # qualified name of the function or class
    line: int
    change: str  # "before → after", told apart by "#2" where a scope has the same change twice

    @property
    def key(self) -> str:
        """What it is called in the record of survivors: lines may move, the name stays."""
        return f"{self.file}::{self.scope}::{self.change}"


class _Change(NamedTuple):
    scope: str
    line: int
    text: str
    make: Callable[[], None]  # changes the tree in place


def mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of `source`, in the order of its lines."""
    seen: Counter[tuple[str, str]] = Counter()
    found: list[Mutant] = []
    for change in _changes(ast.parse(source)):
        seen[change.scope, change.text] += 1
        count = seen[change.scope, change.text]
        text = change.text if count == 1 else f"{change.text} #{count}"
        found.append(Mutant(file, change.scope, change.line, text))
    return found


def mutated(source: str, index: int) -> ast.Module:
    """The tree of `source` with the `index`-th of its mutants in it."""
    tree = ast.parse(source)
    for at, change in enumerate(_changes(tree)):
        if at == index:
            change.make()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"there is no mutant {index}")


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Lazily, in one order: what is behind the one that is made is never looked at."""
    for node in tree.body:
        if isinstance(node, _SCOPES):
            yield from _in_scope(node, node.name)


def _in_scope(scope: _SCOPES, name: str) -> Iterator[_Change]:
    for statement in scope.body:
        yield from _in_node(scope, "body", statement, name)


def _in_node(parent: ast.AST, field: str, node: ast.AST, scope: str) -> Iterator[_Change]:
    if isinstance(node, _SCOPES):
        yield from _in_scope(node, f"{scope}.{node.name}")
        return
    if isinstance(node, _LEFT_ALONE) or _is_docstring(node):
        return
    for text, new in _replacements(parent, field, node):
        line = getattr(node, "lineno", getattr(parent, "lineno", 0))
        yield _Change(scope, line, text, lambda new=new: _replace(parent, field, node, new))
    for name, value in ast.iter_fields(node):
        if name in _NOT_BEHAVIOUR:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _in_node(node, name, child, scope)


def _replace(parent: ast.AST, field: str, node: ast.AST, new: ast.AST | None) -> None:
    held = getattr(parent, field)
    if not isinstance(held, list):
        setattr(parent, field, new)
        return
    at = next(index for index, child in enumerate(held) if child is node)
    held[at : at + 1] = [] if new is None else [new]


def _replacements(parent: ast.AST, field: str, node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    before = _text(node)
    for new in _other(parent, field, node):
        after = "nothing" if new is None or isinstance(new, ast.Pass) else _text(new)
        yield f"{before} → {after}", new


def _other(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST | None]:
    """What may stand in the place of `node`; None: it is taken out of its list."""
    if field in ("test", "ifs"):
        if not isinstance(parent, ast.While):
            yield ast.Constant(True)
        yield ast.Constant(False)
    yield from _other_expression(parent, field, node)
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Break | ast.Delete):
        yield ast.Pass()


def _other_expression(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for value in values:
                rest = [v for v in values if v is not value]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
            yield left
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Name(id=name) if name in _NAMES and isinstance(parent, ast.Call):
            yield ast.Name(_NAMES[name], ast.Load())
        case ast.keyword() if isinstance(parent, ast.Call) and _text(parent.func) == "replace":
            yield None
        case ast.Starred() if field == "elts":
            yield None
        case _:
            return


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _text(node: ast.AST) -> str:
    """On one line, cut where it is long; unique enough within a function."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 120 else f"{text[:80]} … {text[-36:]}"
