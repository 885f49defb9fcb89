"""Work out conditions such as "ranks * rails <= 65536" that specs and command lines have."""

import ast
import operator
from collections.abc import Mapping
from typing import Any

import simpleeval

FUNCTIONS = {"abs": abs, "min": min, "max": max, "round": round, "len": len}
_METHODS = ("startswith", "endswith", "lower", "upper")  # of texts
_MOST_BITS = 4096  # of a whole number
_NODES = (
    (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp, ast.Call, ast.Constant, ast.Name)
    + (ast.Attribute, ast.Subscript, ast.List, ast.Tuple)
    + (ast.boolop, ast.unaryop, ast.operator, ast.cmpop, ast.expr_context)
)


def parsed_condition(text: str) -> ast.expr:
    """Parse a condition once for all that it is evaluated with.

    Raises:
        ValueError: it is no expression of names, numbers, texts, lists, comparisons, arithmetic,
            `and`, `or`, `not`, `in`, and calls of `FUNCTIONS`.
    """
    try:
        found = ast.parse(text.replace("\n", " ").strip(), mode="eval").body
        for node in ast.walk(found):
            if not isinstance(node, _NODES) or isinstance(node, ast.Is | ast.IsNot):
                raise ValueError(f"{type(node).__name__} is nothing for a condition")
    except SyntaxError as error:
        raise ValueError(error.msg) from None
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply") from None
    return found


class Condition(simpleeval.EvalWithCompoundTypes):
    """Evaluates conditions, without the means to do anything else, or to take long."""

    def __init__(self):
        super().__init__(operators=_OPERATORS, functions={})
        self.functions = dict(FUNCTIONS)

    def value(self, parsed: ast.expr, names: Mapping[str, Any]) -> bool:
        """Whether a parsed condition holds; any Exception where it cannot be worked out."""
        self.names = names
        return bool(self.eval("", previously_parsed=parsed))

    def _eval_attribute(self, node: ast.Attribute) -> Any:
        owner = self._eval(node.value)
        if isinstance(owner, Mapping) and node.attr in owner:
            return owner[node.attr]
        if isinstance(owner, str) and node.attr in _METHODS:
            return getattr(owner, node.attr)
        raise ValueError(f"{ast.unparse(node)} is not there")


def reason_of(error: Exception) -> str:
    """Why a condition cannot be worked out, in a few words."""
    if isinstance(error, simpleeval.NameNotDefined):
        return f"{error.name} is not known"
    if isinstance(error, simpleeval.FunctionNotDefined):
        return f"{error.func_name} is no function; there are {', '.join(FUNCTIONS)}"
    return (str(error) or type(error).__name__).splitlines()[0]


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _refuse_but_numbers(a: Any, b: Any) -> None:
    if not _are_numbers(a, b):
        raise TypeError("arithmetic is for numbers")


def _product(a: Any, b: Any) -> Any:
    _refuse_but_numbers(a, b)
    return a * b


def _remainder(a: Any, b: Any) -> Any:
    _refuse_but_numbers(a, b)
    return a % b


def _power(a: Any, b: Any) -> Any:
    _refuse_but_numbers(a, b)
    if isinstance(a, int) and isinstance(b, int) and abs(b) * a.bit_length() > _MOST_BITS:
        raise ValueError("a power is too large")
    return a**b


def _shifted(a: Any, b: Any) -> Any:
    if b > _MOST_BITS:
        raise ValueError("a shift is too large")
    return a << b


def _is_equal(a: Any, b: Any) -> bool:
    if (_are_numbers(a) and isinstance(b, str)) or (isinstance(a, str) and _are_numbers(b)):
        raise TypeError("a number is compared with a text; quantities are numbers in SI units")
    return a == b


_OPERATORS = simpleeval.DEFAULT_OPERATORS | {
    ast.Mult: _product,
    ast.Mod: _remainder,
    ast.Pow: _power,
    ast.LShift: _shifted,
    ast.RShift: operator.rshift,
    ast.Eq: _is_equal,
    ast.NotEq: lambda a, b: not _is_equal(a, b),
}
