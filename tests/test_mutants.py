"""Slips that `make mutants` plants: which are made of a text, which are not, and how they are drawn."""

from pathlib import Path

import pytest

from mutants.__main__ import batches
from mutants.coverage_map import CoverageMap
from mutants.slips import changes, drawn, slips_in

LIBRARY = Path(__file__).parents[1]


def texts(source: str) -> set[str]:
    """The lines that the slips of a source make."""
    found = [slip for slip in slips_in("a.py", source.encode()) if changes(slip, source.encode())]
    return {line[2:] for slip in found for line in slip.diff(source.encode()).splitlines() if line.startswith("+")}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a is not None", {"a is None"}),
        ("a not in b", {"a in b"}),
        ("a + b", {"a - b"}),
        ("a and not b", {"a or not b", "a", "not b", "a and (b)"}),
        ("x = a if b else c", {"x = c if b else a"}),
        ("x = 3", {"x = 4"}),
        ("x = .5", {"x = 1.0"}),
        ("x = True", {"x = False"}),
        ("x = y.sum(-1)", {"x = y.mean(-1)", "x = y.sum(0)"}),
        ("x = y.any(dim=0)", {"x = y.all(dim=0)", "x = y.any()", "x = y.any(dim=-1)", "x = y.any(dim=1)"}),
        ("x = y.detach()", {"x = y"}),
        ("x = (a @ b).abs().T", {"x = (a @ b).T", "x = (a @ b).abs()"}),
        ("x = f(a, b)", {"x = f(b, a)"}),
        ("x = f(a, k=k, j=j)", {"x = f(a, j=j)", "x = f(a, k=k)"}),
        ("x = f(a, k=False)", {"x = f(a)", "x = f(a, k=True)"}),
        ("x = row[at[i]]", {"x = row[i]"}),
        ("x.y = a", {"pass"}),
        ("if a:\n  raise E('1 < 2', b=1)", {"if not (a):", "pass"}),
        ("try:\n  a\nexcept E:\n  raise\nexcept F:\n  b", {"pass", ""}),
        ("ä = b'a', c > d", {"ä = b'a', c >= d"}),
    ],
)
def test_slips_of_a_line(source, expected) -> None:
    assert texts(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""1 < 2"""',
        "x: A[1] = a",
        "def f(x: A[1]) -> A[2]:\n  return x",
        "@g(maxsize=3)\ndef f(): ...",
        "__all__ = [1]",
        "assert a < b",
        "if TYPE_CHECKING:\n  x = 1",
        "raise E(f'{a < b}', 3)",
        "warnings.warn('a', stacklevel=2)",
        "x = f'{a + 1}'",
        "x = zip(a, strict=True)",
        "x = 1e-9",
    ],
)
def test_what_is_no_behaviour_has_no_slips(source) -> None:
    assert texts(source) == set()


def test_a_seed_draws_the_same_slips_of_many_kinds_and_each_is_a_program() -> None:
    paths = [str(path.relative_to(LIBRARY)) for path in (LIBRARY / "src/gumdrop/metrics").glob("*.py")]
    one, again, other = (drawn(LIBRARY, paths, seed, 40) for seed in (1, 1, 2))
    assert one == again
    assert len({*one, *other}) > 60
    assert len({(slip.path, slip.line) for slip in one}) == 40
    assert len({slip.kind for slip in one}) >= 8
    assert all(changes(slip, (LIBRARY / slip.path).read_bytes()) for slip in one)


def test_tests_of_a_line_come_fastest_first_and_file_by_file() -> None:
    tests = CoverageMap()
    tests.add(
        "a", {"tests": ["a::1", "a::2"], "seconds": [3.0, 1.0], "lines": {"s/g/r/m.py": {"4": [0, 1], "5": [-1]}}}
    )
    tests.add("b", {"tests": ["b::1", "b::2"], "seconds": [2.0, 1.5], "lines": {"s/g/r/m.py": {"4": [0], "9": [1]}}})
    (slip,) = slips_in("s/g/r/m.py", b"\n\n\nx = 1")
    assert tests.of(slip) == ["a::1", "a::2", "b::1"]
    assert [*batches(tests.of(slip), tests.seconds)] == [["b::1"], ["a::2", "a::1"]]
    (slip,) = slips_in("s/g/r/m.py", b"\n\n\n\nx = 1")
    assert tests.of(slip) == ["a::1", "a::2"], "fixtures may be shared by all tests of a file"
    (slip,) = slips_in("s/g/r/m.py", b"x = 1")
    assert tests.of(slip) == ["a::1", "a::2", "b::1", "b::2"], "a line of an import"
