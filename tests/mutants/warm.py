"""Runs of pytest in processes that have what takes long to import, and nothing of the library."""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

from mutants.selecting import Chosen, Covered
from mutants.tree import BUILD, TREE

LOADED = ("torch", "numpy", "hypothesis", "scipy.stats", "sklearn.ensemble", "sklearn.pipeline", "pandas",
          "sklearn.utils.estimator_checks", "sklearn.model_selection", "matplotlib.pyplot", "cyclopts", "rich.console",
          "jinja2", "PIL.Image", "gymnasium", "safetensors.torch", "torch.func", "torch.utils.data")  # fmt: skip
OPTIONS = ["-q", "-x", "--tb=line", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded already
TIMED_OUT = "time limit"


def load() -> None:
    """Import what most tests need."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.split(".")[0] == "gumdrop" for name in sys.modules)


def _inside(paths: list[str], plugin: Chosen | Covered, options: list[str]) -> int:
    """Run tests of the copy, in a child."""
    os.setsid()
    os.chdir(TREE)
    output = os.open(BUILD / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ["PYTHONPATH"] = str(TREE / "src")
    here = str(Path(__file__).parents[1])
    sys.path[:] = [str(TREE / "src"), *(entry for entry in sys.path if entry not in {"", here})]
    for name in [name for name in sys.modules if name.split(".")[0] == "mutants"]:
        del sys.modules[name]
    return int(pytest.main([*options, *paths], plugins=[plugin]))


def _waited(child: int, seconds: float) -> int | None:
    """Wait for a child; None where it takes too long, and it and what it started are ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return 0
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def killed_by(names: list[str], seconds: float) -> str | None:
    """Run tests by name, and give the first that fails; None where all pass.

    The child gets `seconds` of a processor, and ten times as many of the clock.
    """
    answer = BUILD / "answer.json"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            plugin = Chosen(names)
            code = _inside(sorted({name.split("::")[0] for name in names}), plugin, OPTIONS)
            ended = None if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else f"pytest, code {code}"
            answer.write_text(json.dumps(plugin.failed or ended))
        except BaseException:  # an interrupt that a test lets through, say: the run did not pass
            answer.write_text(json.dumps(traceback.format_exc(limit=1).splitlines()[-1]))
        finally:
            os._exit(0)
    _waited(child, 10 * seconds)
    return json.loads(answer.read_text()) if answer.exists() else TIMED_OUT


def cover(paths: list[str], file: Path, digests: dict[str, str], seconds: float) -> bool:
    """Run all tests of some files, and write what they cover."""
    child = os.fork()
    if not child:
        try:
            plugin = Covered(TREE / "src/gumdrop")
            _inside(paths, plugin, [option for option in OPTIONS if option != "-x"])
            plugin.save(file, digests)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return _waited(child, seconds) is not None and file.exists()
