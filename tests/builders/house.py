"""How heavy the house is: lines of each room, and what makes it hard to hold. `make house` prints it."""

import ast
import io
import re
import subprocess
import sys
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

if not __package__:  # `make house` runs it as a script
    sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.waiting import HANG

ROOT = Path(__file__).parents[2]
LIBRARY, EXPERIMENTS, TESTS = ROOT / "src/gumdrop", ROOT / "src/gumdrop_experiments", ROOT / "tests"
SHARED_LINES = 6
ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
WORDS = {"for", "if", "return", "def", "in", "with", "else"}
"""What two lines must share by name to look the same; other names, numbers and strings may differ."""
NUMBER_OR_CLASS = re.compile(r'regression:|if regression|if not regression|else.*regression|== "regression"|'
                             r'== "classification"|if .*\btarget\.classes\b|likelihood == |likelihood !=')  # fmt: skip

OBJECTIVE = """
    from gumdrop import gaussian_nll, negative_elbo
    from gumdrop.likelihoods import likelihood_of
    likelihood_of("gaussian")
"""
"""Use of the objective alone."""
CORE = """
    import torch
    import gumdrop
    model, x = gumdrop.learn_dropout(torch.nn.Linear(3, 2)), torch.zeros(5, 3)
    nll = gumdrop.gaussian_nll(*model(x).chunk(2, dim=-1), x[:, :1])
    gumdrop.negative_elbo(nll, model, num_data=100, likelihood="gaussian")
    gumdrop.predict(model.eval(), x, "gaussian", num_samples=2)
"""
"""Convert, train and predict."""
LOADED = """
    import sys
    print(*{module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "gumdrop"}, sep="\\n")
"""


def loaded(use: str) -> tuple[int, int]:
    """Count the files of the library that a use of it loads in a fresh process, and their lines."""
    command = [sys.executable, "-c", textwrap.dedent(use) + textwrap.dedent(LOADED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=True)
    files = [Path(line) for line in done.stdout.splitlines()]
    return len(files), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def lines_of(folder: Path) -> int:
    """Count the lines of all modules."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def rooms() -> dict[str, int]:
    """Lines of each room of the library."""
    return {folder.name: lines_of(folder) for folder in sorted(LIBRARY.iterdir()) if (folder / "__init__.py").exists()}


def _trees(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _functions(*folders: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in _trees(*folders):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def long_bodies(*folders: Path, most: int = 40) -> list[str]:
    """Functions whose bodies have more lines, without their docstrings."""
    found = []
    for path, node in _functions(*folders):
        documented = ast.get_docstring(node, clean=False)
        size = node.end_lineno - node.lineno - (documented.count("\n") + 1 if documented else 0)  # type: ignore[operator]
        found += [f"{path.relative_to(ROOT)}:{node.name} ({size})"] if size > most else []
    return found


def long_files(*folders: Path, most: int = 300) -> list[str]:
    """Files that have more lines."""
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for f in folders for path in f.rglob("*.py")}
    return [f"{path.relative_to(ROOT)} ({size})" for path, size in sizes.items() if size > most]


def many_arguments(*folders: Path, most: int = 8) -> list[str]:
    """Functions that take more arguments, themselves not counted."""
    found = []
    for path, node in _functions(*folders):
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        found += [f"{path.relative_to(ROOT)}:{node.name} ({count})"] if count > most else []
    return found


def unread_options(*folders: Path) -> list[str]:
    """Arguments that functions of modules take by name alone and do not read: someone forgot to pass them on."""
    found = []
    for path, tree in _trees(*folders):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                read = {each.id for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name)}
                unread = [arg.arg for arg in node.args.kwonlyargs if arg.arg not in read]
                found += [f"{path.relative_to(ROOT)}:{node.name} ({name})" for name in unread]
    return found


def public_names() -> int:
    """Names in the faces of the rooms and of the library."""
    total = 0
    for path in [LIBRARY / "__init__.py", *(LIBRARY / room / "__init__.py" for room in rooms())]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                total += len(ast.literal_eval(node.value))
    return total


def constants() -> int:
    """Numbers that modules of the library name, in capitals."""
    total = 0
    for _, tree in _trees(LIBRARY):
        for node in tree.body:
            if not isinstance(node, ast.Assign):
                continue
            names = [name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            number = all(isinstance(each, ARITHMETIC) for each in ast.walk(node.value))
            values = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            if number and values and all(isinstance(value, int | float) for value in values):
                total += sum(name.id.isupper() for name in names)
    return total


def matches(pattern: str | re.Pattern[str], *folders: Path) -> tuple[int, int]:
    """Count the lines in which a pattern stands, and the files."""
    found = [len(re.findall(pattern, path.read_text(encoding="utf-8"))) for f in folders for path in f.rglob("*.py")]
    return sum(found), sum(1 for count in found if count)


def _shapes(path: Path) -> list[tuple[int, str]]:
    """Lines of code as they look without names, words and numbers; docstrings and imports are left out."""
    source = path.read_text(encoding="utf-8")
    hidden: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            hidden.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    shapes: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP):
            is_word = token.type == tokenize.NAME and token.string in WORDS
            plain = token.string if token.type == tokenize.OP or is_word else tokenize.tok_name[token.type]
            shapes[token.start[0]].append(plain)
    return [(n, " ".join(s)) for n, s in sorted(shapes.items()) if n not in hidden and len(s) > 2]


def duplicates(*folders: Path) -> int:
    """Count the pairs of files that share six or more lines of one shape, found in at most eight places."""
    places: dict[tuple[str, ...], set[Path]] = defaultdict(set)
    for folder in folders:
        for path in folder.rglob("*.py"):
            shapes = [shape for _, shape in _shapes(path)]
            for i in range(len(shapes) - SHARED_LINES + 1):
                places[tuple(shapes[i : i + SHARED_LINES])].add(path)
    return len({pair for found in places.values() if len(found) <= 8 for pair in combinations(sorted(found), 2)})


def weighed() -> dict[str, object]:
    """All measures, by their names."""
    return {
        "convert, loss and predict load (files, lines)": loaded(CORE),
        "the objective alone loads (files, lines)": loaded(OBJECTIVE),
        "lines of the library": lines_of(LIBRARY),
        "lines of the experiments": lines_of(EXPERIMENTS),
        "lines of the tests": lines_of(TESTS),
        "branches on number or class (places, files)": matches(NUMBER_OR_CLASS, LIBRARY),
        "functions with more than 8 arguments": len(many_arguments(LIBRARY)),
        "public names in faces": public_names(),
        "pairs of files that share six lines": duplicates(LIBRARY, EXPERIMENTS),
        "dict[str, Any], library": matches(r"dict\[str, Any\]", LIBRARY)[0],
        "dict[str, Any], experiments": matches(r"dict\[str, Any\]", EXPERIMENTS)[0],
        "numeric constants of modules": constants(),
        "files over 300 lines": len(long_files(LIBRARY, EXPERIMENTS)),
        "bodies over 40 lines": len(long_bodies(LIBRARY, EXPERIMENTS)),
    }


def main() -> None:
    """Print them, and the lines of each room."""
    for name, value in {**weighed(), **{f"  {room}": lines for room, lines in rooms().items()}}.items():
        print(f"{name:48} {value}")


if __name__ == "__main__":
    main()
