"""One-place changes of a program, from its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

__all__ = ["Mutant", "mutants_of"]

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
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_PAIRS = (("any", "all"), ("min", "max"), ("mean", "sum"), ("minimum", "maximum"))
_CALLS = dict((*_PAIRS, *((after, before) for before, after in _PAIRS)))


@dataclass(frozen=True)
class Mutant:
    """A changed program.

    Parameters
    ----------
    line : of the change.
    change : the expression before and after.
    make : the whole program; making every one would take longer than most tests.
    """

    line: int
    change: str
    make: Callable[[], str] = field(compare=False)

    @property
    def source(self) -> str:
        """The whole program."""
        return self.make()


def mutants_of(source: str) -> list[Mutant]:
    """Return all mutants of a program, in the order of its text."""
    tree = ast.parse(source)
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if not isinstance(node, ast.expr | ast.If) or _is_annotation(tree, node):
            continue
        for changed in _changes(node):
            change = f"{_text(node)} -> {_text(changed)}"
            found.append(Mutant(node.lineno, change, partial(_changed, tree, number, changed)))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.change))


def _changed(tree: ast.Module, number: int, changed: ast.AST) -> str:
    whole = copy.deepcopy(tree)
    _replace(whole, list(ast.walk(whole))[number], changed)
    return ast.unparse(ast.fix_missing_locations(whole))


def _text(node: ast.AST) -> str:
    text = ast.unparse(node.test if isinstance(node, ast.If) else node)
    return f"if {text}" if isinstance(node, ast.If) else text


def _is_annotation(tree: ast.Module, node: ast.AST) -> bool:
    skipped = getattr(tree, "annotations_", None)
    if skipped is None:
        parts: list[ast.AST] = []
        for one in ast.walk(tree):
            if isinstance(one, ast.arg | ast.AnnAssign) and one.annotation:
                parts.append(one.annotation)
            if isinstance(one, ast.FunctionDef) and one.returns:
                parts.append(one.returns)
            # Decorators say `frozen=True` and the like.
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                parts += one.decorator_list
        skipped = {id(inner) for part in parts for inner in ast.walk(part)}
        tree.annotations_ = skipped  # type: ignore[attr-defined]
    return id(node) in skipped


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    changed: Any = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            changed.ops = [_COMPARISONS[type(op)]()]
            yield changed
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            changed.op = _ARITHMETIC[type(op)]()
            yield changed
        case ast.BoolOp(op=op):
            changed.op = ast.And() if isinstance(op, ast.Or) else ast.Or()
            yield changed
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 1.5 + (value == 0))
        case ast.If(test=test):
            changed.test = ast.UnaryOp(ast.Not(), test)
            yield changed
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            changed.func = ast.Name(_CALLS[name], ast.Load())
            yield changed
        case ast.Call(func=ast.Attribute(attr=name)) if name in _CALLS:
            changed.func.attr = _CALLS[name]
            yield changed


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(one is old for one in value):
                setattr(parent, name, [new if one is old else one for one in value])
