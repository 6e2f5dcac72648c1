"""The page of `targets`."""

from functools import partial

from matplotlib.figure import Figure

from gumdrop.views.plots import INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, dots, edges_of, panels_of, table_of, with_error
from gumdrop_experiments.targets.study import ALONE, TOGETHER

CAPTION = """What the correlation of the noise gains on independent noise, split by split, with the standard error;
further right is better. Left: joint log density of all targets of a row, in nats. Right: energy score, in %."""
NOTES = (
    """One fit of `ConcreteDropoutRegressor` for each split; the same networks are scored with the correlation that
    their held-out rows found, and with none. Where these rows are not more likely with it there is none. Drawn
    functions move several targets at once in both.""",
    "Targets are divided by their spread in training, for densities and energy scores alike.",
    "Ellipsoids are those of a Gaussian with the predicted mean and covariance.",
)
PANELS = {"log density, nats more": ("log_density", 1), "energy score, % less": ("energy", 100)}


def page(results: Plain) -> Page:
    """Say what the correlation of the noise gains."""
    table = table_of(
        f"Mean and standard error over {results['splits']} splits; nats per row; share of rows inside ellipsoids",
        results["sets"],
        {
            "rows": "{rows}",
            "targets": "{targets}",
            "log density, independent": partial(_score, ALONE, "log_density"),
            "correlated": partial(_score, TOGETHER, "log_density"),
            "gain (SE)": lambda each: with_error(each["gain"]["log_density"], "+.3f"),
            "energy score, independent": partial(_score, ALONE, "energy"),
            "correlated ": partial(_score, TOGETHER, "energy"),
            "in 90 % ellipsoids": lambda each: " → ".join(
                f"{each['scores'][way]['inside_90'][0]:.3f}" for way in (ALONE, TOGETHER)
            ),
            "chosen": "{chosen}",
        },
    )
    return Page("Several targets", _lead(results), [Picture("targets", CAPTION, _gains(results["sets"])), table], NOTES)


def _score(way: str, score: str, table: Plain) -> str:
    return f"{table['scores'][way][score][0]:.3f}"


def _lead(results: Plain) -> str:
    count, ahead = len(results["sets"]), results["ahead"]
    return f"""With the correlation of their noise several targets have a higher joint density on
    {ahead["log_density"]} of {count} sets, and a lower energy score on {ahead["energy"]}."""


def _gains(sets: Plain) -> Figure:
    drawing, panels = panels_of(list(PANELS), 2, panel=(3.8, 0.4 * len(sets) + 1.0), margin=1.2)
    for ax, (score, scale) in zip(panels.values(), PANELS.values(), strict=True):
        gains = {name: [scale * value for value in each["gain"][score]] for name, each in sets.items()}
        low, high = edges_of(list(gains.values()))
        dots(ax, gains, (min(low, -0.1 * abs(high)), max(high, 0.01)), "+.2f", look=lambda name: {"color": ORANGE})
        ax.axvline(0, color=INK, linewidth=1, linestyle=":")
    return drawing
