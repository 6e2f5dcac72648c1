"""What all pages share: one style sheet, figures in the colours of the page, minus signs."""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure

import gumdrop
from gumdrop.tables.results import FitResults
from gumdrop.views import explore, plots, report
from gumdrop.views.svg import figure_svg
from gumdrop_experiments.pages import page as experiments

from builders.browser import contrast
from builders.results import regression_results

STYLE = Path(gumdrop.__file__).parent / "views" / "templates" / "style.css"


def _experiment(figures: dict[str, Figure]) -> str:
    body = [experiments.Picture(name, "A curve.", drawing) for name, drawing in figures.items()]
    body.append(experiments.Table("Differences", ["what", "by"], [["loss on 2019-01-05", "-0.25"]]))
    results = {"experiment": "sums", "quick": False, "command": "gumdrop reproduce sums --by -0.25", "seconds": 3.0}
    results |= {"environment": {}, "gumdrop": "0"}
    return experiments.render(experiments.Page("Sums", "They differ by -0.25.", body), results)


def _defaults() -> Figure:
    """A figure as experiments draw them: the colours of matplotlib beside those of the house."""
    drawing = Figure(figsize=(9, 3), layout="constrained")
    left, right = drawing.subplots(1, 2)
    left.plot([1, 2], [1, -2], "o-", color=plots.BLUE, markerfacecolor="white", label="ours")
    right.axhline(0, color="grey")
    right.set(title="a title", xlabel="steps")
    left.legend()
    return drawing


def test_every_page_has_the_one_style_sheet(tmp_path: Path) -> None:
    style = STYLE.read_text(encoding="utf-8").strip()
    for page in (
        report.render(FitResults.from_json(regression_results(20, epochs=2))),
        _experiment({}),
        explore.write_site(tmp_path / "site").read_text(encoding="utf-8"),
    ):
        assert style in page
        assert '<link rel="stylesheet"' not in page


def test_both_parts_of_the_uncertainty_have_one_colour_each_that_can_be_read() -> None:
    style = STYLE.read_text(encoding="utf-8")
    assert "--aleatoric: var(--c1); --epistemic: var(--c2)" in style
    colours = {name: (light, dark) for name, light, dark in re.findall(r"--(\w+): light-dark\(#(\w+), #(\w+)\)", style)}
    for scheme in (0, 1):
        card = _rgb(colours["card"][scheme])
        for name in ("ink", "soft", "c1", "c2", "c3", "c4"):
            assert contrast(_rgb(colours[name][scheme]), card) >= 4.5, name
        for name in ("c5", "c6"):
            assert contrast(_rgb(colours[name][scheme]), card) >= 3, name


def _rgb(digits: str) -> list[int]:
    whole = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    return [int(whole[i : i + 2], 16) for i in (0, 2, 4)]


def test_a_figure_of_matplotlib_has_no_colours_of_its_own() -> None:
    drawn = figure_svg(_defaults(), "key", "a curve")
    assert not re.findall(r"(?:fill|stroke): ?#\w+", drawn)
    assert drawn.startswith("<svg viewBox=")
    used = set(re.findall(r"(?:fill|stroke): ([\w-]+(?:\([\w-]+\))?)", drawn))
    assert {"currentColor", "var(--c1)", "var(--card)", "var(--soft)"} <= used
    assert "--width:648" in drawn
    assert drawn == figure_svg(_defaults(), "key", "a curve")


def test_numbers_have_minus_signs_and_commands_can_be_copied() -> None:
    page = _experiment({})
    assert "They differ by −0.25." in page
    assert "<td>−0.25</td>" in page
    assert "loss on 2019-01-05" in page
    assert "<code>gumdrop reproduce sums --by -0.25</code>" in page


def test_a_wide_figure_can_be_read_on_a_phone_in_the_dark(opened, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(_experiment({"curve": _defaults()}), encoding="utf-8")
    page = opened(
        (tmp_path / "page.html").as_uri(), ["file:"], viewport={"width": 390, "height": 800}, color_scheme="dark"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.querySelector('.panels > div'))")
    sizes = page.evaluate(
        """[...document.querySelectorAll('figure svg text')].map((text) => { const m = text.getScreenCTM();
             return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b) })"""
    )
    assert min(sizes) > 10
    assert page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill") == "rgb(233, 231, 226)"
