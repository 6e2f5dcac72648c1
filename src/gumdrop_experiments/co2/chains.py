"""The figure of the chains of hyper-parameters: where they went, how much each draw tells anew, and what they say."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress


def hyper_parameters(processes: Plain) -> Figure:
    """Draw trace, autocorrelation and forest of each hyper-parameter, a row each, and the point estimate."""
    found, point = processes["sampled"], point_estimate(processes["squared-exponential"])
    drawing = Figure(figsize=(11, 2.1 * len(point) + 0.6), layout="constrained")
    for row, (name, value) in zip(drawing.subplots(len(point), 3), point.items(), strict=True):
        one = found["parameters"][name]
        every = found["chains"]["draws"] / len(one["trace"][0])
        for draws, lags, colour in zip(one["trace"], one["autocorrelation"], plots.PALETTE, strict=False):
            row[0].plot([every * i for i in range(len(draws))], draws, color=colour, linewidth=0.6, alpha=0.8)
            row[1].plot(lags, color=colour, linewidth=1.2)
        row[0].axhline(value, color=plots.INK, linewidth=0.8, linestyle=":")
        dress(row[0], title=f"{name}: trace", x="draw")
        dress(row[1], title="autocorrelation", x="lag").axhline(0, color=plots.INK, linewidth=0.5)
        _forest(row[2], one, value)
    return drawing


def point_estimate(process: Plain) -> dict[str, float]:
    """Read the hyper-parameters that a search for the largest marginal likelihood has found."""
    of = process["parameters"]
    return {
        "lengthscale": of["k1__k2__length_scale"],
        "amplitude": of["k1__k1__constant_value"] ** 0.5,
        "noise": of["k2__noise_level"] ** 0.5,
    }


def _forest(ax: Axes, one: Plain, point: float) -> None:
    intervals = one["intervals"]
    for i, ((low, high), colour) in enumerate(zip(intervals, plots.PALETTE, strict=False)):
        ax.plot([low, high], [i, i], color=colour, linewidth=3)
    ax.plot(one["mean"], len(intervals), "o", color=plots.INK, markersize=4)
    ax.axvline(point, color=plots.INK, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(intervals) + 1), [*(f"chain {i + 1}" for i in range(len(intervals))), "mean"], fontsize=8)
    ax.set_ylim(-0.6, len(intervals) + 0.6)
    dress(ax, title="94 % intervals", x=f"R-hat {one['r_hat']:.4f}, {one['effective']:,.0f} effective draws")
