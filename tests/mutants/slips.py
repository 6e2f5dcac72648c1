"""Slips that a programmer may make, found in the code itself: each is one small change of one place in one file.

Places whose change alters no behaviour are left out: docstrings, annotations, decorators, assertions, the text of
messages and warnings, ``__all__``, tolerances, and what only type checkers read.
"""

import ast
import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
CALCULATED = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "//"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
PAIRS = ("all any", "min max", "minimum maximum", "amin amax", "argmin argmax", "zeros ones", "zeros_like ones_like",
         "floor ceil", "sum mean", "exp expm1", "log log1p", "startswith endswith", "lstrip rstrip", "upper lower",
         "cumsum cumprod", "nanmin nanmax", "eval train")  # fmt: skip
RENAMED = {a: b for pair in PAIRS for a, b in (pair.split(), reversed(pair.split()))}
DROPPED = {"detach", "clone", "copy", "abs", "exp", "log", "log1p", "sqrt", "square", "float", "double", "sigmoid",
           "clamp", "clip", "clamp_min", "nan_to_num", "strip", "lower", "casefold", "flip", "cumsum",
           "softmax", "expand_as", "relu", "neg", "reciprocal"}  # fmt: skip
COMMUTATIVE = {"max", "min", "maximum", "minimum", "equal", "allclose", "isinstance", "logaddexp", "gcd", "add", "mul"}
SAYS = {"warn", "warn_once", "debug", "info", "warning", "error", "exception", "TypeVar", "cast"}
NO_EFFECT = {"strict", "encoding", "stacklevel", "help", "category"}
"""Arguments that only words, or machines of other kinds, depend on."""
AXES = {"dim", "axis", "dims"}
REDUCED = {"sum", "mean", "any", "all", "amax", "amin", "argmax", "argmin", "cumsum", "unsqueeze", "squeeze",
           "softmax", "log_softmax", "logsumexp", "std", "var", "flatten", "size", "unbind", "chunk", "movedim",
           "prod"}  # fmt: skip
LEAST = 1e-4
"""Smaller constants guard against rounding, and twice as much guards as well."""


@dataclass(frozen=True)
class Slip:
    """One change: the bytes from `start` to `end` of a file become `new`."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    new: str
    digest: str

    def apply(self, source: bytes) -> bytes:
        """Give the text of the file with the slip."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """Show the lines that change."""
        first, last = source.rfind(b"\n", 0, self.start) + 1, (source + b"\n").index(b"\n", self.end)
        old, new = source[first:last], source[first : self.start] + self.new.encode() + source[self.end : last]
        return "\n".join(
            f"{sign} {line.strip()}" for sign, text in (("-", old), ("+", new)) for line in text.decode().split("\n")
        )


class _Finder(ast.NodeVisitor):
    """Walk through a module, and note each change as (kind, line, start, end, new text)."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[tuple[str, int, int, int, str]] = []

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def inner(self, node: ast.expr) -> str:
        """Give the text of what a method is of, with the parentheses that its span leaves out."""
        simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return self.text(node) if simple else f"({self.text(node)})"

    def note(self, kind: str, node: ast.AST, new: str) -> None:
        self.found.append((kind, node.lineno, *self.span(node), new))

    def between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator, which the tree gives no place, between its two sides."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:end].decode()
        pattern = r"\s+".join(rf"\b{word}\b" for word in old.split()) if old[0].isalpha() else re.escape(old)
        self.found.append((kind, left.end_lineno, start, end, re.sub(pattern, new, gap, count=1)))

    # What is left out.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text; its parts have no place of their own before Python 3.12."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """No behaviour."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """The message of an error; that it is raised is a matter of its statement."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.removed(node, [target for target in node.targets if not isinstance(target, ast.Name | ast.Tuple)])
            self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in [*node.defaults, *filter(None, node.kw_defaults)]:
            self.visit(default)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if not isinstance(node, ast.ClassDef):
            self.visit(node.args)
        for statement in node.body:
            self.visit(statement)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    # Statements.

    def removed(self, node: ast.stmt, wanted: object) -> None:
        if wanted:
            self.note("statement left out", node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and _name(node.value.func) not in SAYS:
            self.removed(node, True)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.removed(node, True)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.note("statement left out", node, "pass")

    visit_Break = visit_Continue

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        self.note("condition turned", node.test, f"not ({self.text(node.test)})")
        self.raised_in(node.body)
        self.generic_visit(node)

    def raised_in(self, body: list[ast.stmt]) -> None:
        """Leave out an error: a refusal of an input, or what is not to be caught."""
        if isinstance(body[-1], ast.Raise):
            self.note("error not raised", body[-1], "pass")

    def visit_Try(self, node: ast.Try) -> None:
        for handler in node.handlers:
            self.raised_in(handler.body)
            if len(node.handlers) > 1 or node.finalbody:
                start, end = self.span(handler)
                self.found.append(("handler left out", handler.lineno, start, end, ""))
        self.generic_visit(node)

    # Expressions.

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between("comparison", left, right, *COMPARED[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = any(isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", 0), str) for x in ast.walk(node))
        if type(node.op) in CALCULATED and not words:
            self.between("arithmetic", node.left, node.right, *CALCULATED[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("and for or", left, right, old, new)
            start, end = self.span(left)[0], self.span(right)[1]
            for one in (left, right):
                self.found.append(("condition left out", one.lineno, start, end, self.text(one)))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self.number(node, -node.operand.value)
            return
        self.note("sign or negation", node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        new = f"{self.text(node.orelse)} if {self.text(node.test)} else {self.text(node.body)}"
        self.note("arms swapped", node, new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.note("flag", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self.number(node, node.value)

    def number(self, node: ast.AST, value: float) -> None:
        if 0 < abs(value) < LEAST:
            return
        new = value + 1 if isinstance(value, int) else 2 * value or 1.0
        self.note("constant", node, f"({new!r})" if new < 0 else repr(new))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        inner = node.slice
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Name | ast.Constant):
            self.note("index", inner, self.text(inner.slice))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in {"T", "mT", "mH"}:
            self.note("call left out", node, self.inner(node.value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        if name in SAYS:
            return
        if name in RENAMED:
            end = self.span(node.func)[1]
            self.found.append(("name for name", node.func.end_lineno, end - len(name), end, RENAMED[name]))
        if (
            name in DROPPED
            and isinstance(node.func, ast.Attribute)
            and _name(node.func.value) not in {"torch", "np", "F"}
        ):
            self.note("call left out", node, self.inner(node.func.value))
        if name not in COMMUTATIVE:
            self.swapped(node.args)
        for keyword in node.keywords:
            self.keyword(node, keyword)
        if name in REDUCED and node.args and isinstance(node.func, ast.Attribute):
            self.axis(node.args[-1])
        for part in [node.func, *node.args, *(each.value for each in node.keywords if each.arg not in NO_EFFECT)]:
            self.visit(part)

    def swapped(self, arguments: list[ast.expr]) -> None:
        for a, b in pairwise(arguments):
            simple = all(isinstance(x, ast.Name | ast.Attribute | ast.Subscript | ast.Call) for x in (a, b))
            if simple and self.text(a) != self.text(b):
                (start, middle), (after, end) = self.span(a), self.span(b)
                new = self.text(b) + self.source[middle:after].decode() + self.text(a)
                self.found.append(("arguments swapped", a.lineno, start, end, new))

    def keyword(self, call: ast.Call, keyword: ast.keyword) -> None:
        if keyword.arg is None or keyword.arg in NO_EFFECT:
            return
        start, end = self.span(keyword)
        before = self.source[:start].decode().rstrip()
        if before.endswith(","):
            start = len(before.encode()) - 1
        self.found.append(("argument left out", keyword.lineno, start, end, ""))
        if keyword.arg in AXES:
            self.axis(keyword.value)

    def axis(self, node: ast.expr) -> None:
        text = self.text(node)
        if re.fullmatch(r"-?\d", text):
            self.note("axis", node, "0" if text != "0" else "-1")


def _name(function: ast.expr) -> str:
    """Give the last name of what is called."""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def slips_in(path: str, source: bytes) -> list[Slip]:
    """Find the slips of one file; some few leave it no program, or the same one."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    digest = hashlib.sha256(source).hexdigest()[:16]
    return [Slip(path, line, kind, start, end, new, digest) for kind, line, start, end, new in finder.found]


def changes(slip: Slip, source: bytes) -> bool:
    """Tell whether a slip leaves a program, and another one."""
    try:
        return ast.dump(ast.parse(slip.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def drawn(root: Path, paths: Iterable[str], seed: int, count: int) -> list[Slip]:
    """Draw slips: kinds by the root of how often they occur, so that rare ones come, and one for each line."""
    draw = random.Random(seed)
    kinds = defaultdict(list)
    for path in sorted(paths):
        for slip in slips_in(path, (root / path).read_bytes()):
            kinds[slip.kind].append(slip)
    chosen: dict[tuple[str, int], Slip] = {}
    while len(chosen) < count and kinds:
        names = sorted(kinds)
        kind = draw.choices(names, [len(kinds[name]) ** 0.5 for name in names])[0]
        slip = kinds[kind].pop(draw.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
        if changes(slip, (root / slip.path).read_bytes()):
            chosen.setdefault((slip.path, slip.line), slip)
    return list(chosen.values())
