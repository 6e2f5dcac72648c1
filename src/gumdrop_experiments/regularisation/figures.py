"""The figure of `regularisation`."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.regularisation.networks import LAST, at_the_end

FAMILIES = {"perceptron": "dense, 2 x 800 tanh", "lenet": "LeNet"}
"""What the names of networks begin with, and the titles of their panels."""
STYLES = {
    "perceptron-none": (plots.INK, ":"),
    "perceptron-hidden": (plots.ORANGE, "--"),
    "perceptron-both": (plots.ORANGE, "-"),
    "perceptron-learned": (plots.BLUE, "--"),
    "perceptron-strength": (plots.BLUE, "-"),
    "lenet-none": (plots.INK, ":"),
    "lenet-half": (plots.ORANGE, "-"),
    "lenet-learned": (plots.BLUE, "-"),
}
"""Colour and line of each network."""


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw errors over epochs, a panel for each family, all networks in one figure."""
    found = results["networks"]
    drawing = Figure(figsize=(10, 4.6), layout="constrained")
    panels = drawing.subplots(1, 2)
    for ax, (family, title) in zip(panels, FAMILIES.items(), strict=True):
        curves = {key: found[key]["errors"] for key in STYLES if key.startswith(family)}
        for key, errors in curves.items():
            colour, style = STYLES[key]
            label = f"{found[key]['label'].split(', ', 1)[1]}: {at_the_end(errors):.1f}"
            ax.plot(range(1, len(errors) + 1), errors, style, color=colour, label=label, linewidth=0.9)
        ax.set_yscale("log")
        # What the first epochs do is the same everywhere, and would press the rest together.
        low, high = min(map(min, curves.values())), max(errors[len(errors) // 20] for errors in curves.values())
        ax.set_ylim(0.93 * max(low, 1), 1.1 * max(high, 2))
        ticks = _ticks(*ax.get_ylim())
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(0, max(map(len, curves.values())) + 1)
        dress(ax, title=title, x="epoch", y="wrong test images")
        heading = f"dropout: errors, mean of last {LAST}"
        ax.legend(frameon=False, title=heading, fontsize=9, title_fontsize=9, loc="upper right")
    yield "regularisation", drawing


def _ticks(low: float, high: float) -> list[int]:
    steps = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
    return [tick for power in range(4) for step in steps if low <= (tick := step * 10**power) <= high]
