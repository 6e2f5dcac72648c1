"""A figure as SVG that takes its colours from the page, with the numbers of a point on hovering."""

import html
import io
import re
import warnings
from collections.abc import Sequence

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots

COLOURS = {plots.INK: "currentColor"} | {c: f"var(--c{i})" for i, c in enumerate(plots.PALETTE, 1)}
OF_MATPLOTLIB = {"#000000": "currentColor", "#ffffff": "var(--card)"}
OF_MATPLOTLIB |= dict.fromkeys(("#808080", "#8a8f98", "#b0b0b0", "#cccccc"), "var(--soft)")
"""Its black and white, and the greys of figures."""
TIPS = 30
"""Points of a line that tell their numbers."""
Tip = tuple[float, float, str]


def figure_svg(figure: Figure, key: str, label: str) -> Markup:
    """A figure as SVG, sized and coloured by the page; the same text every time."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")  # the browser brings its own fonts
        figure.savefig(buffer, format="svg", transparent=True, dpi=150, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'((?:href="|url\()#)', rf"\g<1>{key}-", text)
    colours = COLOURS | OF_MATPLOTLIB
    text = re.sub("|".join(colours), lambda m: colours[m[0]], text)
    box = re.findall(r'viewBox="[^"]*"', text)[0]
    inner = re.sub(r"\n\s*", "\n", text[text.index(">", text.index("<svg")) + 1 :]).strip()
    width = f'style="--width:{72 * figure.get_figwidth():.0f}"'
    name = f'role="img" aria-label="{html.escape(label)}"'
    return Markup(f'<svg {box} fill="currentColor" {width} {name}>{inner}')


def svg(ax: Axes, key: str, label: str, tips: Sequence[Tip] = (), *, reach: float = 6.0) -> Markup:
    """A figure of one pair of axes as SVG with ids of its own, whose points tell their numbers within ``reach``."""
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    drawn = figure_svg(figure, key, label).removesuffix("</svg>")
    return Markup(f"{drawn}{_spots(ax, figure, tips, reach)}</svg>")


def picture(ax: Axes, key: str, label: str, see: str) -> dict[str, str]:
    """A figure of a page, and what a reader sees in it."""
    return {"svg": svg(ax, key, label), "see": see}


def _spots(ax: Axes, figure: Figure, tips: Sequence[Tip], reach: float) -> str:
    """Invisible discs over points, which tell their numbers on hovering, without a script."""
    if not tips:
        return ""
    pixels = ax.transData.transform([(x, y) for x, y, _ in tips]) * 72 / figure.dpi
    height = figure.get_figheight() * 72
    discs = [
        f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{reach:g}"><title>{html.escape(text)}</title></circle>'
        for (x, y), (_, _, text) in zip(pixels, tips, strict=True)
    ]
    return f'<g fill="none" pointer-events="all">{"".join(discs)}</g>'
