"""Parts of a run of pytest, as plugins: one runs chosen tests in a given order, the other notes what covers a line."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest


class Chosen:
    """Run the tests that are named, in this order, and keep the first that fails."""

    def __init__(self, names: list[str]) -> None:
        self.order = {name: i for i, name in enumerate(names)}
        self.failed: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((x for x in items if x.nodeid in self.order), key=lambda x: self.order[x.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid} (not collected)"


class Covered:
    """Note for each test that passes its seconds and the lines that it runs.

    What the fixtures of a test run counts for all tests of the file, which may share them.
    """

    def __init__(self, library: Path) -> None:
        self.library = library
        self.coverage = coverage.Coverage(data_file=None, source=[str(library)], config_file=False, messages=False)
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self.coverage.switch_context("fixtures")
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        self.coverage.switch_context("fixtures")
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def save(self, file: Path, digests: dict[str, str]) -> None:
        """Write tests with their seconds, and for each file of the library the tests of each line."""
        self.coverage.stop()
        tests = [name for name in self.seconds if name not in self.failed]
        numbers = {name: i for i, name in enumerate(tests)} | {"fixtures": -1}
        data, lines = self.coverage.get_data(), {}
        for path in (path for path in data.measured_files() if path.endswith(".py")):  # templates are run as well
            by_line = data.contexts_by_lineno(path)
            found = {n: [numbers[x] for x in names if x in numbers] for n, names in by_line.items()}
            lines[str(Path(path).relative_to(self.library.parents[1]))] = {n: x for n, x in found.items() if x}
        seconds = [round(self.seconds[name], 3) for name in tests]
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps({"digests": digests, "tests": tests, "seconds": seconds, "lines": lines}))
        partial.replace(file)
