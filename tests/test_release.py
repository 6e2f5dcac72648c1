"""A release can be made: what is built holds what it needs, and works where nothing else of the repository is."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import torch

from gumdrop.machine.version import VERSION

from builders.waiting import HANG

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1]))"
BESIDE_THE_CODE = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")


def done(*command, folder, **variables):
    """Run a command where no module of the repository is found; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        command, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def sources():
    """Files of both packages, as paths of the repository."""
    found = [path for top in ("gumdrop", "gumdrop_experiments") for path in (ROOT / "src" / top).rglob("*")]
    return {str(path.relative_to(ROOT)) for path in found if path.is_file() and path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the sdist of this tree, and out of it the wheel, as a release does; give the folder of both."""
    place = tmp_path_factory.mktemp("release")
    tree, dist = place / "tree", place / "dist"
    dist.mkdir()
    for name in {*BESIDE_THE_CODE, *sources()}:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    done(sys.executable, "-c", BUILD.format("sdist"), dist, folder=tree)
    with tarfile.open(dist / f"gumdrop-{VERSION}.tar.gz") as sdist:
        sdist.extractall(place, filter="data")
    done(sys.executable, "-c", BUILD.format("wheel"), dist, folder=place / f"gumdrop-{VERSION}")
    return dist


def test_the_sdist_holds_the_sources_and_no_half_of_the_tests(built) -> None:
    with tarfile.open(built / f"gumdrop-{VERSION}.tar.gz") as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {*BESIDE_THE_CODE, *sources()} < names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


def test_the_wheel_holds_both_packages_whole_and_the_licence(built) -> None:
    with zipfile.ZipFile(built / f"gumdrop-{VERSION}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"gumdrop-{VERSION}.dist-info/METADATA").decode()
    code = {name for name in names if ".dist-info/" not in name}
    assert code == {name.removeprefix("src/") for name in sources()}
    assert "gumdrop/py.typed" in names
    assert "License-Expression: MIT\n" in metadata
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE"}
    assert (ROOT / "README.md").read_text(encoding="utf-8") in metadata


def test_links_of_the_published_readme_are_absolute(tmp_path) -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    commands = re.findall(r"^ +((?:base=|sed ).*)$", workflow, re.MULTILINE)
    shutil.copyfile(ROOT / "README.md", tmp_path / "README.md")
    tag = {"GITHUB_SERVER_URL": "https://host", "GITHUB_REPOSITORY": "owner/gumdrop", "GITHUB_REF_NAME": "v1.0.0"}
    done("bash", "-ec", "\n".join(commands), folder=tmp_path, **tag)
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    assert all(link.startswith("https://") for _, link in links)
    pictures = [link for sign, link in links if sign]
    assert pictures
    assert all(link.startswith("https://host/owner/gumdrop/raw/v1.0.0/docs/results/") for link in pictures)
    pages = [link for sign, link in links if not sign and "/owner/gumdrop/" in link]
    for page in pages:
        assert (ROOT / page.removeprefix("https://host/owner/gumdrop/blob/v1.0.0/").partition("#")[0]).exists(), page


# Asked for by its metadata: `import pip` makes setuptools refuse to be imported in the same process afterwards.
@pytest.mark.skipif(not list(metadata.distributions(name="pip")), reason="installs a wheel with pip")
@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    place = {"base": str(tmp_path / "venv"), "platbase": str(tmp_path / "venv")}
    library, scripts = (Path(sysconfig.get_path(name, "venv", place)) for name in ("purelib", "scripts"))
    (library / "dependencies.pth").write_text(str(Path(torch.__file__).parents[1]))  # as installed already
    done(
        sys.executable, "-m", "pip", "--python", scripts / "python", "install", "-q", "--no-deps", "--no-index",
        "--no-compile", built / f"gumdrop-{VERSION}-py3-none-any.whl", folder=tmp_path,
    )  # fmt: skip
    gumdrop = scripts / "gumdrop"
    assert done(gumdrop, "--version", folder=tmp_path).strip() == VERSION
    found = done(scripts / "python", "-c", "import gumdrop; print(gumdrop.__file__)", folder=tmp_path)
    assert Path(found.strip()).is_relative_to(library)
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{i},{i * i % 17 + 0.5}\n" for i in range(60)))
    quick = ("--members", "2", "--hidden", "8", "--epochs", "1", "--no-compare", "--quiet", "--out", "model")
    fit = ["fit", "rows.csv", "--target", "y", *quick]
    both = f"from gumdrop.cli import main; print(main({fit}), main(['explore', '--out', 'page']))"
    said = done(scripts / "python", "-c", both, folder=tmp_path, OMP_NUM_THREADS="1")
    assert said.split()[-2:] == ["0", "0"]
    assert (tmp_path / "model" / "report.html").is_file()
    assert (tmp_path / "page" / "index.html").is_file()
