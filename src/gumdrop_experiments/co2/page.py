"""The page of `co2`."""

from gumdrop_experiments.co2.figures import NETWORKS, PROCESSES
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["page"]


WHAT = (
    "The record less a straight line (black: trained on; green: what came to pass), each method's mean, and bands of "
    "two standard deviations: of the functions that were drawn (orange) and with the noise on top (blue). "
)
FIXED = (
    f"{WHAT}Rates of .2, as in the tutorial, and a squared-exponential kernel. Good is a band that grows where there "
    "are no data; that of tanh units, which saturate, cannot."
)
LEARNED = f"{WHAT}Learned rates, and a kernel that knows of years and of a slow trend."


def page(results: Plain) -> Page:
    """Say how much the bands grow where there are no data, and what of the later record they hold."""
    networks = results["networks"]
    relu, tanh = networks["relu-learned"], networks["tanh-learned"]
    fixed = {name: networks[f"{name}-fixed"]["band_ratio"] for name in ("relu", "tanh")}
    end = results["data"]["later_x"][-1]
    return Page(
        title="Extrapolating carbon dioxide",
        lead=(
            f"With learned rates the band of the ReLU network at x = {end:.1f} is {relu['band_ratio']:.1f} times that "
            f"at the last month of training, that of the tanh network {tanh['band_ratio']:.1f} times (with p = .2: "
            f"{fixed['relu']:.1f} and {fixed['tanh']:.1f}). {relu['later']['coverage_95']:.0%} of what was measured "
            "later lies inside the 95 % interval of the first."
        ),
        body=[Figure("co2", FIXED), Figure("co2-learned", LEARNED), _table(results), _rates(results)],
        notes=_notes(results),
    )


def _scores_of(results: Plain) -> dict[str, Plain]:
    rows = {label: results["processes"][name]["later"] for name, label in PROCESSES.items()}
    return rows | {label: results["networks"][name]["later"] for name, label in NETWORKS.items()}


def _table(results: Plain) -> Table:
    names = ("coverage_50", "coverage_90", "coverage_95")
    rows = [
        [label, f"{later['log_likelihood']:.3f}", f"{later['rmse']:.3f}", *(f"{later[name]:.0%}" for name in names)]
        for label, later in _scores_of(results).items()
    ]
    caption = (
        "The 140 months after the last month of training, against what was measured: log likelihood in nats a month, "
        "error of the mean in units of the training targets "
        f"({results['record']['scale_ppm']:.2f} ppm), and the share inside central intervals."
    )
    columns = ["method", "log likelihood", "RMSE", *(f"inside {name.split('_')[1]} %" for name in names)]
    ours = [i for i, label in enumerate(_scores_of(results)) if "learned" in label]
    return Table(caption, columns, rows, ours=ours)


def _rates(results: Plain) -> Table:
    rows = []
    for name, label in NETWORKS.items():
        each = results["networks"][name]
        bands = [f"{each['band_at_last']:.3f}", f"{each['band_at_end']:.3f}", f"{each['band_ratio']:.2f}"]
        rates = ", ".join(f"{p:.2f}" for p in each["rates"])
        rows.append([label, *bands, f"{each['noise']:.3f}", rates, f"{each['seconds_of_draws']:.0f}"])
    caption = (
        f"SD of {results['settings']['draws']:,} drawn functions, and the processor time that they took on one thread."
    )
    columns = ["network", "at the last month", "at the end", "ratio", "noise SD", "p, from first to last", "seconds"]
    return Table(caption, columns, rows)


def _notes(results: Plain) -> list[str]:
    settings = results["settings"]
    return [
        f"Networks of {settings['depth']} x {settings['width']} units, dropout in front of every layer but the first, "
        f"{settings['epochs']} epochs of AdamW, one learned noise variance; the tutorial trains far longer with plain "
        "gradient descent, and its bands have no noise on top.",
        "The networks are asked about every sixteenth month of training and every fifth month after it.",
        *(f"{PROCESSES[name]}: {each['kernel']}" for name, each in results["processes"].items()),
        f"The record: sha256 {results['record']['sha256']}. NOAA revises it now and then.",
    ]
