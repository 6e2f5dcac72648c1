"""Fill tables of the README, ``docs/performance.md``, its notebook and other pages from results files.

They stand between ``<!-- name -->`` and ``<!-- end -->``.

Run with ``make performance-page``.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gumdrop.machine.files import replacing

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
NOTEBOOK = DOCS / "performance-notebook.md"
METHOD = DOCS / "method.md"
MODELS = DOCS / "models.md"
TABLES_PAGE = DOCS / "tables.md"
README = DOCS.parent / "README.md"
FAR = 10
"""Nats beyond which a density is a peak beside its target, and how far is of no use."""


def rows_of(name: str) -> list[dict[str, Any]]:
    """Rows of a results file."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))["results"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Lay out a table in Markdown, numbers to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(row: dict[str, Any] | None) -> str:
    """A ratio with its quartiles."""
    if row is None:
        return ""
    low, high = row["ratio_quartiles"]
    return f"{row['ratio']:.2f} ({low:.2f}-{high:.2f})"


def compared(name: str, keys: dict[str, Callable[[Any], str]], reference: str, rivals: list[str]) -> str:
    """One line for each case of a results file: the time of the reference, and ratios to it."""
    cases: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in rows_of(name):
        cases.setdefault(tuple(show(row[key]) for key, show in keys.items()), {})[row["what"]] = row
    header = [*keys, f"{reference}, ms", *rivals]
    lines = []
    for case, mine in cases.items():
        lines.append([*case, f"{mine[reference]['median_ms']:.3g}", *(spread(mine.get(rival)) for rival in rivals)])
    return table(header, lines)


def quick_rows() -> tuple[dict[str, Any], dict[str, dict[tuple[str, int], dict[str, Any]]]]:
    """The file of ``make benchmark-quick``, and its rows by case and setting."""
    found = json.loads((DOCS / "results" / "speed_quick.json").read_text(encoding="utf-8"))
    cases: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for row in found["results"]:
        cases.setdefault(row["case"], {})[row["kernels"], row["threads"]] = row
    return found, cases


def headed(settings: Iterable[tuple[str, int]]) -> list[str]:
    """Name settings of kernels and threads."""
    return [f"{kernels}, {threads} thread{'s' * (threads > 1)}" for kernels, threads in settings]


def quick() -> str:
    """Table of the page: ratios of processor time, and the machine."""
    found, cases = quick_rows()
    settings = list(next(iter(cases.values())))
    lines = [[case, *(f"{row['process']['ratio']:.2f}" for row in by.values())] for case, by in cases.items()]
    machine = (
        f"Measured with torch {found['torch']} on {found['hardware'].split(',')[0]} with {found['native']}, "
        f"{found['cores']} cores."
    )
    return f"{table(['what / rival', *headed(settings)], lines)}\n\n{machine}"


def quick_spread() -> str:
    """Table of the notebook: quartiles of processor time, and ratios of the time of the clock."""
    _, cases = quick_rows()
    settings = list(next(iter(cases.values())))
    lines = [
        [case, *(f"{spread(row['process'])}, {row['wall']['ratio']:.2f}" for row in by.values())]
        for case, by in cases.items()
    ]
    return table(["what / rival", *headed(settings)], lines)


def gpu() -> str:
    """Table of steps and predictions on a GPU."""
    keys: dict[str, Callable[[Any], str]] = {"task": str, "network": str, "dtype": str}
    return compared("speed_gpu", keys, "fixed", ["gumdrop", "no dropout"])


def kept() -> str:
    """Table of bytes kept for backward."""
    lines = []
    for row in rows_of("speed_kept"):
        what = f"{row['site']}, {row['dtype']}" if "site" in row else row["network"]
        fixed = row["nn.Dropout"] if "site" in row else row["fixed"]
        peer = row.get("formula of the paper", row.get("concretedropout"))
        others = [f"{each / fixed:.2f}" if each is not None else "" for each in (row["gumdrop"], peer)]
        lines.append([what, f"{fixed / 2**20:.2f}", *others])
    return table(["", "fixed dropout, MiB", "gumdrop", "formula of the paper, or concretedropout"], lines)


def predictions(part: str) -> list[dict[str, Any]]:
    """Rows of a part of the results of prediction."""
    results: Any = rows_of("prediction")
    return results[part]


def draws() -> str:
    """Table of predictions from draws."""
    lines = []
    for row in predictions("draws"):
        ours, ratios = row["times"]["ours"], [row.get("ours_over_products"), row.get("loop_over_products")]
        shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        lines.append(
            [row["case"], str(row["draws"]), f"{ours['median_ms']:.3g}", f"{row['loop_over_ours']:.1f}", *shown]
        )
    return table(["network", "draws", "gumdrop, ms", "loop / gumdrop", "gumdrop / products", "loop / products"], lines)


def prefix() -> str:
    """Table of a first layer whose rate is zero."""
    names = ["first rate 0", "without the layer"]
    lines = [[str(row["rows"]), *(spread(row["times"][name]) for name in names)] for row in predictions("prefix")]
    return table(["rows", "first rate 0 to rounding", "network without its first layer"], lines)


def memory() -> str:
    """Table of peak memory."""
    lines = [
        [row["case"], f"{row['10']:.0f}", f"{row['1000']:.0f}", f"{row['ratio']:.2f}"] for row in predictions("memory")
    ]
    return table(["network", "10 draws, MiB", "1000 draws, MiB", "ratio"], lines)


def moments() -> str:
    """Table of predictions without sampling."""
    lines = []
    for row in predictions("moments"):
        errors = [f"{100 * row[name]['mean_absolute_error']:.1f} %" for name in ("moments", "slopes", "100 draws")]
        times = row["times"]
        ratios = [f"{times[name]['ratio']:.1f}" for name in ("100 draws", "loop over 100 draws")]
        rates = ", ".join(f"{rate:.1g}" for rate in row["rates"])
        lines.append([row["set"], rates, *errors, f"{times['moments']['median_ms']:.2f}", *ratios])
    header = [
        "set",
        "rates",
        "error of the SD",
        "that of slopes",
        "that of 100 draws",
        "ms",
        "100 draws take, times that",
        "the loop",
    ]
    return table(header, lines)


TABLES: dict[str, Callable[[], str]] = {
    "kept": kept,
    "draws": draws,
    "prefix": prefix,
    "memory": memory,
    "moments": moments,
    "gpu": gpu,
}


def priors() -> str:
    """Table of networks under the default prior and others; means over seeds."""
    arms = {"no dropout": "without dropout", "default": "default", "fan_in": '`"fan_in"`'}
    lines = []
    results: Any = rows_of("prior")
    for name, records in results.items():
        for epochs in sorted({each["epochs"] for each in records}):
            mine = [each for each in records if each["epochs"] == epochs]
            seeds = len({each["seed"] for each in mine})
            line = [name, str(epochs), str(seeds)]
            for arm in arms:
                of_arm = [each for each in mine if each["arm"] == arm]
                keys = [key for key in ("accuracy", "nats") if key in of_arm[0]]
                line.append(" / ".join(f"{sum(each[key] for each in of_arm) / len(of_arm):.3f}" for key in keys))
            lines.append(line)
    return table(["network and training rows", "epochs", "seeds", *arms.values()], lines)


def missing() -> str:
    """Table of the coverage where cells are unknown; with the median in their place, and drawn from training rows."""
    patterns = ["none", "one", "half", "all"]
    results: Any = rows_of("missing_cells")
    lines = []
    for name, found in results.items():
        before, after = ([found["background"][rows][each]["coverage"] for each in patterns] for rows in ("0", "500"))
        cells = [f"{old:.1%} → {new:.1%}" for old, new in zip(before, after, strict=True)]
        lines.append([f"{name} ({found['columns']} columns, {found['train_rows']} rows)", *cells])
    return table(["table", *(f"{each} unknown" for each in patterns)], lines)


def regrets() -> str:
    """Table of how far each way to a rate falls short of the best, over all tables with random test rows."""
    results: Any = rows_of("rates")
    ensemble, single = (results[size]["random"] for size in ("ensemble", "single"))
    best = min((way for way in ensemble["worst"] if way.replace(".", "").isdigit()), key=ensemble["worst"].get)
    ways = {
        "held-out": "**learned rates**",
        "grid": "grid search, six rates",
        "off": "no dropout",
        best: f"all rates fixed at {best}, the best such rate",
        "0.1": "all rates fixed at 0.1",
    }
    lines = [
        [says, *(f"{regret[how][way]:.3f}" for regret in (ensemble, single) for how in ("mean", "worst"))]
        for way, says in ways.items()
    ]
    return table(
        ["nats per row below the best", "ensembles: mean", "worst table", "one network: mean", "worst table"], lines
    )


def methods() -> str:
    """Table of how far each method falls short of the best for a set, unseen ones and others, and of its coverage."""
    shelves = [[each["methods"] for each in rows_of(name)["sets"].values()] for name in ("tables-unseen", "tables")]
    names = {
        "gumdrop": "**gumdrop, as it comes**",
        "catboost": "CatBoost with uncertainty",
        "fixed": "ensemble of 2 x 50, rates fixed at 0.1",
        "mc-dropout": "one network, MC dropout at 0.1",
        "process": "Gaussian process, RBF",
        "linear": "Bayesian ridge, logistic regression",
        "boosting": "boosted trees of scikit-learn",
        "realmlp": "RealMLP, quantiles",
    }
    lines = []
    for method, says in names.items():
        cells = []
        for sets in shelves:
            lost = [
                max(found.get("log_likelihood", -math.inf) for found in of.values()) - of[method]["log_likelihood"]
                for of in sets
            ]
            cells += [f"{nats:.3f}" if nats < FAR else f"over {FAR}" for nats in (sum(lost) / len(lost), max(lost))]
        held = [of[method]["coverage_90"] for sets in shelves for of in sets if "coverage_90" in of[method]]
        lines.append([says, *cells, f"{100 * min(held):.1f} to {100 * max(held):.1f} %"])
    heads = ["five unseen sets: mean", "worst", "eight others: mean", "worst", "coverage of 90 % intervals"]
    return table(["nats per row below the best", *heads], lines)


def own_dropout() -> str:
    """Table of architectures: where their own dropout learns, and what a step takes then."""
    results: Any = rows_of("own_dropout")
    lines = []
    for name, found in results.items():
        counts = [str(found["learned"].get(what, 0)) for what in ("layers", "units", "heads", "paths")]
        named = ", ".join(f"`{each}`" for each in found["named"]) or "none"
        steps = [spread(found["steps"][arm]) for arm in ("own", "everywhere")]
        lines.append([name, *counts, named, *steps])
    header = [
        "architecture",
        "in front of layers",
        "units",
        "heads",
        "paths",
        "named, not learned",
        "step",
        "with all layers",
    ]
    return table(header, lines)


def launches() -> str:
    """Operations of a step."""
    rows = [
        [row["network"], row["dtype"], *(str(row[each]) for each in ("sites", "none", "fixed", "masks", "learned"))]
        for row in rows_of("launches")
    ]
    return table(["network", "dtype", "sites", "no dropout", "nn.Dropout", "learned, without KL", "learned"], rows)


def checkpointing() -> str:
    """Table of architectures: differences of gradients where parts of a pass are run again."""
    results: Any = rows_of("checkpointing")
    lines = []
    for name, ways in results.items():
        found = [ways[way][kind] for way in ("learn", "keep") for kind in ("reentrant", "not_reentrant")]
        shown = [each.get("error") or f"{each['difference']:.0e}".removesuffix("e+00") for each in found]
        counts = [str(ways["learn"]["rates"]), str(found[1].get("modules_run_again", ""))]
        lines.append([name, *counts, *shown])
    heads = [f"{way}, {kind}" for way in ("learn", "keep") for kind in ("reentrant", "not reentrant")]
    return table(["architecture", "rates", "modules run again", *heads], lines)


PAGES: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"regrets": regrets, "methods": methods},
    PAGE: {"quick": quick, "launches": launches},
    NOTEBOOK: TABLES | {"spread": quick_spread},
    METHOD: {"priors": priors},
    MODELS: {"own dropout": own_dropout, "checkpointing": checkpointing},
    TABLES_PAGE: {"missing": missing},
}


def filled(page: Path, text: str) -> str:
    """Put each table of a page in its place."""
    for name, make in PAGES[page].items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, make=make: f"{match[1]}\n{make()}\n\n{match[2]}", text)
        if count != 1:
            raise ValueError(f"{page.name} must have one place for the table {name!r}, got {count}")
    return text


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        text = filled(page, page.read_text(encoding="utf-8"))
        with replacing(page) as file:
            file.write(text)


if __name__ == "__main__":
    main()
