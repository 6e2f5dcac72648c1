"""The page of `surrogate`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, GREEN, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    GREY,
    Page,
    Picture,
    Table,
    band,
    legend_below,
    log_ticks,
    mean_and_error,
    panels_of,
    with_error,
)
from gumdrop_experiments.surrogate.study import FIXED, LEARNED, PROCESS, SOBOL

CAPTION = """Best value so far above the minimum (simple regret) against evaluations: mean over the seeds, and a band
of one standard error. Lower is better; all ways start from the same points."""
NOTES = (
    "Branin's function has 2 inputs, Hartmann's and Levy's 6, Ackley's 10 (each from -5 to 10).",
    """After every two evaluations each way picks two points, where joint qLogEI is largest. Networks: five of 2 x
    64, trained on from where they are with learned noise, and 20 functions drawn anew; the improvement of a function
    is over its own best among the evaluated points. The Gaussian process: `SingleTaskGP` as it comes, fitted anew.""",
    "Learned and fixed rates differ in nothing else. Settings were chosen on other functions and another seed.",
)
LOOKS = {LEARNED: (ORANGE, "-"), FIXED: (BLUE, "-"), PROCESS: (GREEN, "-"), SOBOL: (GREY, ":")}

LEAST = 4
"""Share of a mean down to which its band goes on the logarithmic axis, where an error may be larger than the mean."""

MOST = 1000
"""Ratio of regrets up to which the axis has a number at three times each power of ten, too."""


def page(results: Plain) -> Page:
    """Say on how many functions the regret of learned rates is lower."""
    functions = results["functions"]
    below = "; ".join(f"{count} below {way}" for way, count in results["below"].items())
    after = f"after {results['evaluations']} evaluations"
    lead = f"Mean regret of learned rates {after}, of {len(functions)} functions: {below}."
    rows = [[name, *(with_error(each["regret"][way], ".3g") for way in LOOKS)] for name, each in functions.items()]
    others = (FIXED, PROCESS, SOBOL)
    gaps = [[name, *(with_error(each["below"][way], "+.3g") for way in others)] for name, each in functions.items()]
    body: list[Picture | Table] = [
        Picture("surrogate", CAPTION, _curves(results)),
        Table(f"Regret {after}, mean (SE) over {results['seeds']} seeds", ["", *LOOKS], rows, [1]),
        Table("Learned rates less the others, in the same seed", ["", *others], gaps),
    ]
    return Page("A surrogate for optimisation", lead, body, NOTES)


def _curves(results: Plain) -> Figure:
    drawing, panels = panels_of([name.title() for name in results["functions"]], 2, panel=(3.6, 2.5))
    for function, ax in zip(results["functions"].values(), panels.values(), strict=True):
        for way, (colour, style) in LOOKS.items():
            means = [mean_and_error(regrets) for regrets in zip(*function["curves"][way], strict=True)]
            mean, error = np.transpose(means)
            low = np.maximum(mean - error, mean / LEAST)
            band(ax, range(1, len(means) + 1), mean, low, mean + error, color=colour, linestyle=style, label=way)
        ax.axvline(results["initial"], color=GREY, linewidth=0.8, linestyle="--")
        regrets = np.concatenate([np.ravel(curves) for curves in function["curves"].values()])
        log_ticks(ax, *((1, 3) if regrets.max() < MOST * max(regrets.min(), 1e-9) else (1,)))
        ax.set(xlabel="evaluations", ylabel="regret", xlim=(1, results["evaluations"]))
    legend_below(drawing, next(iter(panels.values())), len(LOOKS), 8)
    return drawing
