"""The code of the README and of the docs runs as it stands, and what they point to is there."""

import re
from pathlib import Path

import pandas as pd
import pytest
import torch
from sklearn.datasets import make_friedman1

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
SHORT = (
    "CONTRIBUTING attribution classes co2 decisions estimators mnist models scale segmentation sequences start trained"
)


@pytest.mark.slow
@pytest.mark.parametrize("page", SHORT.split())
@pytest.mark.filterwarnings("ignore:`X` differs from training in columns that never varied:UserWarning")
def test_code_of_a_page_runs(page: str, in_haste, monkeypatch) -> None:
    monkeypatch.setattr("gumdrop.ensembles.settings.TRIED", (1.0,))
    (place,) = (each for each in PAGES if each.stem == page)
    blocks = CODE.findall(place.read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(re.sub(r"\b(max_iter|epochs)=\d+", r"\1=2", block), names)


@pytest.mark.slow
def test_code_of_the_readme_runs_and_is_calibrated(tmp_path, monkeypatch) -> None:
    for name, steps in {"folds.STEPS": 100, "folds.LEAST_EPOCHS": 5, "choosing.LEAST_PILOT_STEPS": 20}.items():
        monkeypatch.setattr(f"gumdrop.ensembles.{name}", steps)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    X, y = make_friedman1(800, noise=1.0, random_state=0)
    houses = pd.DataFrame(X[:, :3], columns=["rooms", "size", "age"]).assign(price=y)
    houses[:300].to_csv("houses.csv", index=False)
    names = {"X": X[:400], "y": y[:400], "X_new": X[400:], "y_new": y[400:], "new": houses[300:]}
    shares = []
    for block in CODE.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        exec(block.replace("epochs=50", "epochs=16"), names)
        if "lower, upper = " in block:
            inside = (names["lower"] <= names["y_new"]) & (names["y_new"] <= names["upper"])
            shares.append(float(inside.mean(dtype=float) if "X_new" in block else inside.double().mean()))
    assert shares == [pytest.approx(0.9, abs=0.07)] * 2
    assert len(names["predictions"]) == 500
    assert (names["classes"].label == names["y_new"]).double().mean() > 0.9


def anchors(page: Path) -> set[str]:
    """The addresses of the headings of a page, as GitHub and MyST form them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text(encoding="utf-8")):
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"
