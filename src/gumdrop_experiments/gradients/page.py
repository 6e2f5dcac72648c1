"""The page of `gradients`."""

import statistics

from gumdrop_experiments.gradients.figures import STAGES
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

BIAS_VARIANCE = (
    "Bias and standard deviation against the exact gradient. The corner at the lower left is best. Of the bias, what "
    "the number of draws explains is taken away."
)
NORMS = (
    "Norm of the gradient over searches for masks; bands are one standard deviation over runs. The first three panels "
    "agree."
)
DEVIATIONS = (
    "How far the norm differs between runs, its standard deviation over them at each step. At one temperature the "
    "three forms lie on each other; what tells steady gradients from others is the temperature."
)
NOTES = (
    "What the simplification does not change: the gradient. At a given temperature original, simplified and ours are "
    "one number, up to rounding and to the margin of 1e-7 that the original puts into its logarithms. What it does "
    "change: fewer operations in the backward pass. What a published comparison of norms shows is the temperature, "
    "where the released code of the simplified form runs at t=1 against t=0.1.",
    "As written, the simplified form overflows in float32 at small temperatures; here its exponent is bounded.",
)
ERRORS = (
    "Nine cells, five digits, two evaluations a gradient: bias and standard deviation over the norm of the exact "
    "gradient. The same noise for all."
)
SEARCHES = (
    "Searches at full size: norm of the gradient of the score, mean over steps and runs, and its standard deviation "
    "over runs, mean over steps; then what sharp masks at the end of the search keep and destroy."
)
IDENTITY = (
    "Derivative of a mask in float32: largest difference from ours, over its largest value. The original has a margin "
    "of 1e-7 in its logarithms; in float32 noise itself ends at 6e-8, where ours is cut."
)
LEARNED = "UCI sets, 2 x 50 units, the same start, batches and noise, two masks a step: does the gradient matter?"


def page(results: Plain) -> Page:
    """Say how much the spelling changes, and what a temperature costs and buys."""
    return Page(
        title="Gradients of dropout rates",
        lead=_lead(results["norms"], results["enumeration"]["midst"]),
        body=[
            Figure("gradients-bias-variance", BIAS_VARIANCE),
            _error_table(results["enumeration"]),
            Figure("gradients-norms", NORMS),
            Figure("gradients-deviations", DEVIATIONS),
            _norm_table(results["norms"]),
            _identity_table(results["identity"]),
            _uci_table(results["uci"]),
        ],
        notes=[
            *NOTES,
            "What an unbiased gradient adds to the log likelihood of learned dropout over the relaxed one at t=0.1, "
            f"split by split: {'; '.join(_gain(results['uci']))}.",
        ],
    )


def _lead(norms: Plain, errors: Plain) -> str:
    steps = len(norms["ours t=0.1"]["mean"])
    simplified, original = (statistics.fmean(norms[f"{form} t=0.1"]["sd"]) for form in ("simplified", "original"))
    high, low = (100 * errors[f"ours t={t}"]["bias"] for t in ("1", "0.1"))
    return (
        f"At one temperature the simplified gradient is the original one: over {steps} steps at t=0.1 its norm has a "
        f"standard deviation of {simplified:.4f} over runs, against {original:.4f}. What a higher temperature buys in "
        f"variance it pays in bias: at t=1 the bias is {high:.0f} % of the gradient, at t=0.1 {low:.1f} %."
    )


def _error_table(part: Plain) -> Table:
    rows = [
        [
            name,
            *(f"{part[stage][name][key]:.3f}" for stage in STAGES for key in ("bias", "deviation")),
            f"{part['midst'][name]['microseconds']:.0f}",
        ]
        for name in part["start"]
    ]
    head = ["estimator", "bias, start", "SD, start", "bias, midst", "SD, midst", "µs a gradient"]
    return Table(ERRORS, head, rows, ours=[i for i, name in enumerate(part["start"]) if name.startswith("ours")])


def _norm_table(part: Plain) -> Table:
    rows = [
        [
            name,
            f"{statistics.fmean(row['mean']):.3f}",
            f"{statistics.fmean(row['sd']):.4f}",
            f"{row['kept_log_odds']:.2f} / {row['kept_area']:.3f}",
            f"{row['destroyed_log_odds']:.2f} / {row['dropped_area']:.3f}",
        ]
        for name, row in part.items()
    ]
    head = ["estimator", "mean norm", "SD over runs", "log-odds / area kept", "log-odds / area dropped"]
    return Table(SEARCHES, head, rows, ours=[i for i, name in enumerate(part) if name.startswith("ours")])


def _identity_table(part: Plain) -> Table:
    names = ("original", "simplified")
    rows = []
    for i, row in enumerate(part["t=0.1"]):
        cells = [f"{each[name]:.0e}" for each in (row, part["t=1"][i]) for name in names]
        rows.append([f"{row['logit']:g}", *cells])
    head = ["logit of p", "original, t=0.1", "simplified, t=0.1", "original, t=1", "simplified, t=1"]
    return Table(IDENTITY, head, rows)


def _uci_table(part: Plain) -> Table:
    rows = []
    for name, ways in part.items():
        for way, row in ways.items():
            cells = [
                f"{statistics.fmean(row[key]):.3f} ({mean_and_error(row[key])[1]:.3f})"
                for key in ("rmse", "log_likelihood")
            ]
            rows.append([f"{name}, {way}", *cells, ", ".join(f"{p:.3f}" for p in row["rates"])])
    head = ["set and gradient", "RMSE (SE)", "log likelihood (SE)", "learned rates"]
    return Table(LEARNED, head, rows)


def _gain(part: Plain) -> list[str]:
    """What DisARM adds to the log likelihood of the relaxation, split by split, in words."""
    texts = []
    for name, ways in part.items():
        pairs = zip(ways["DisARM"]["log_likelihood"], ways["relaxed t=0.1"]["log_likelihood"], strict=True)
        gains = [a - b for a, b in pairs]
        texts.append(f"{statistics.fmean(gains):+.3f} (SE {mean_and_error(gains)[1]:.3f}) on {name}")
    return texts
