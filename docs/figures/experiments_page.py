"""Fill the tables of ``docs/experiments.md``, ``docs/mnist.md`` and README, and all numbers that pages quote.

Tables stand between ``<!-- name -->`` and ``<!-- end -->``. The published findings, and our test of each, are in
``findings.toml``, and judged by ``verdicts.py``; for numbers in text see ``quoted.py``. Run with
``make docs-evidence``, which also says which results are stale (``stale.py``).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import quoted
import stale
import verdicts

from gumdrop.machine.files import replacing
from gumdrop_experiments.pages.page import mean_and_error
from gumdrop_experiments.regularisation import PUBLISHED
from gumdrop_experiments.regularisation.study import at_the_end
from gumdrop_experiments.rotation.page import PUBLISHED as ANSWERS
from gumdrop_experiments.rows.page import findings, tables
from gumdrop_experiments.uci import PUBLISHED as PUBLISHED_UCI

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "experiments.md"
README = DOCS.parent / "README.md"
MNIST = DOCS / "mnist.md"
MORE_SETS = ("uci-yacht-energy", "uci-power-plant", "uci-naval", "uci-protein")
"""Results of sets beside the four, each by itself since they take long."""
UCI = ("boston-housing", "concrete-strength", "wine-quality-red", "kin8nm")


def found(name: str) -> Any:
    """Read what a run found."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))["results"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(values: Iterable[float], digits: int = 2) -> str:
    """Write numbers, one behind the other."""
    return ", ".join(f"{value:.{digits}f}" for value in values)


def counted() -> str:
    """How many findings have each verdict."""
    return verdicts.counted(verdicts.rows())


def evidence() -> str:
    """The first table of the page, below its counts."""
    rows = [(row.source, row.claim, row.test, row.over, f"**{row.verdict}**") for row in verdicts.rows()]
    return f"{counted()}\n\n{table(('source', 'finding', 'our test', 'over', 'verdict'), rows)}"


def ours() -> str:
    """What these experiments found that no source has."""
    words = {verdicts.REPRODUCED: "shown", verdicts.CONTRADICTED: "refuted"}
    rows = [
        (row.claim, row.test, row.over, f"**{words.get(row.verdict, row.verdict)}**") for row in verdicts.rows("ours")
    ]
    return table(("finding", "test", "over", "verdict"), rows)


# Tables of single experiments


def chosen() -> str:
    """The default on the four sets."""
    each = {name: found("uci-chosen")[name] for name in UCI}
    scores = {name: summary["methods"]["chosen"] for name, summary in each.items()}
    errors = [f"{s['rmse'][0]:.{4 if s['rmse'][0] < 0.2 else 3}f}" for s in scores.values()]
    covered = [listed((100 * s[f"coverage_{level}"][0] for level in (50, 90, 95)), 1) + " %" for s in scores.values()]
    seconds = [f"{e['parts']['chosen']['seconds'] / e['splits']:.1f}" for e in each.values()]
    return table(
        ("networks chosen by held-out rows", *UCI),
        [
            ("log likelihood (SE)", *("{:.3f} ({:.3f})".format(*s["log_likelihood"]) for s in scores.values())),
            ("RMSE", *errors),
            ("inside the 50, 90, 95 % interval", *covered),
            ("seconds of processor for a split", *seconds),
        ],
    )


def more_sets() -> str:
    """The paper's setting, a grid and the default on the further sets, beside what is published."""
    files = [file for file in MORE_SETS if (DOCS / "results" / f"{file}.json").exists()]
    sets = {name: each["methods"] for file in files for name, each in found(file).items()}
    labels = {"chosen": "the default", "grid": "grid search", "paper": "paper's setting"}
    rows = []
    for score, what in (("log_likelihood", "log likelihood"), ("rmse", "RMSE")):
        for key, label in labels.items():
            digits = [5 if score == "rmse" and methods["grid"]["rmse"][0] < 0.1 else 3 for methods in sets.values()]
            pairs = [methods[key][score] for methods in sets.values()]
            cells = [f"{mean:.{n}f} ({error:.{n}f})" for n, (mean, error) in zip(digits, pairs, strict=True)]
            rows.append((f"{what}: {label}", *cells))
        column = int(score == "log_likelihood")
        for i, label in enumerate(("clean grid", "Concrete Dropout")):
            rows.append((f"{what}: published, {label}", *(PUBLISHED_UCI[name][i][column] for name in sets)))
    return table(("", *sets), rows)


def passes() -> str:
    """Likelihood and mean rates of the schemes of three and of two passes."""
    sources = {
        "two passes, 5 splits": ("uci-two-pass", "two-pass"),
        "three passes": ("uci-three-pass", "three-pass"),
        "three passes, 220 epochs, 5 splits": ("uci-three-pass-long", "three-pass"),
        "three passes, older run: 170, 80, 50 and 40 epochs": ("uci", "three-pass"),
    }

    def cell(file: str, method: str, name: str) -> str:
        summary = found(file).get(name, {"methods": {}})["methods"].get(method)
        return "" if summary is None else f"{summary['log_likelihood'][0]:.3f}; {listed(summary['rates'], 3)}"

    rows = [[label, *(cell(*source, name) for name in UCI)] for label, source in sources.items()]
    return table(("log likelihood; rates by layer", *UCI), rows)


def replaced() -> str:
    """Pixels that have to be replaced, by each way to choose them; over all images of all pairs."""
    parts = list(found("pairs")["pairs"].values())
    rows = []
    for name in parts[0]["needed"]:
        share, error = mean_and_error(100 * each for part in parts for each in part["needed"][name])
        rows.append((name, f"{share:.1f} ({error:.1f})"))
    return table(("chosen by", "pixels to replace, % (SE)"), rows)


def regularised() -> str:
    """Means of the last ten epochs beside the tutorial's errors, and the rates at the end; of LeNet, of three seeds."""
    dense, lenets = found("regularisation"), [found(f"regularisation-lenet-{seed}") for seed in range(3)]
    runs = {name: [dense["networks"][name]] for name in dense["networks"] if name.startswith("perceptron")}
    runs |= {name: [lenet["networks"][name] for lenet in lenets] for name in lenets[0]["networks"]}
    rows = []
    for name, networks in runs.items():
        errors, nll = (fmean(at_the_end(network[key]) for network in networks) for key in ("errors", "test_nll"))
        rates = [network["rates_over_training"][-1] for network in networks if network["rates_over_training"]]
        learned = listed(map(fmean, zip(*rates, strict=True)), 3) or "–"
        rows.append((networks[0]["label"], f"{errors:.1f}", PUBLISHED.get(name, "–"), f"{nll:.3f}", learned))
    return table(("network", "errors", "tutorial, epoch 200 → 1,500", "test NLL, nats", "learned p by layer"), rows)


def rotated() -> str:
    """What each network says as the digit turns, beside the tutorial's, and how sure it is at first and at most."""
    rows = []
    for name, network in found("rotation")["networks"].items():
        turning = network["turning"]
        labels = (" ".join(map(str, turning[label])) for label in ("label_off", "label"))
        first = listed(turning[key][0] for key in ("entropy_off", "predictive_entropy", "mutual_information"))
        most = listed(max(turning[key]) for key in ("entropy_off", "predictive_entropy", "mutual_information"))
        rates = listed(network["rates"][0], 3) if network["rates"] else "–"
        right = f"{100 * network['accuracy']:.1f}"
        rows.append((network["label"], right, *labels, ANSWERS.get(name, "–"), first, most, rates))
    heads = ("network", "right, %", "says, dropout off", "says, draws", "tutorial, dropout off")
    return table((*heads, "entropy at 50°: off, draws; mutual information", "at most", "learned p by layer"), rows)


def told() -> str:
    """How well each kind of uncertainty tells digits from images that are none."""
    kinds = ("predictive_entropy", "expected_entropy", "mutual_information")
    rows = [
        (network["label"], pictures, *(f"{scores[kind]:.3f}" for kind in kinds))
        for network in found("rotation")["networks"].values()
        for pictures, scores in network["telling"].items()
    ]
    return table(("network", "images", *(kind.replace("_", " ") for kind in kinds)), rows)


def nats_by_rows() -> str:
    """What `rows` found, in words and in tables."""
    results = found("rows")
    words = "\n".join(f"- {finding}" for finding in findings(results))
    return "\n\n".join([words, *(f"{each.caption}\n\n{table(each.columns, each.rows)}" for each in tables(results))])


PAGES: dict[Path, dict[str, Callable[[], str]]] = {
    PAGE: {
        "evidence": evidence,
        "ours": ours,
        "chosen": chosen,
        "more_sets": more_sets,
        "passes": passes,
        "replaced": replaced,
        "nats_by_rows": nats_by_rows,
    },
    README: {"counted": counted},
    MNIST: {"regularised": regularised, "rotated": rotated, "told": told},
}
"""Tables of each page by the names of their places."""
CHANGING: dict[Path, dict[str, Callable[[], str]]] = {PAGE: {"stale": stale.listed}}
"""Tables that every change of the code changes: written with the others, and compared by no test."""


def filled(page: Path, text: str, tables: Mapping[Path, Mapping[str, Callable[[], str]]] = PAGES) -> str:
    """Put each table of a page in its place."""
    for name, make in tables.get(page, {}).items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, make=make: f"{match[1]}\n{make()}\n\n{match[2]}", text)
        if count != 1:
            raise ValueError(f"{page.name} must have one place for the table {name!r}, got {count}")
    return text


def main() -> None:
    """Write the pages, and print which results are stale."""
    for page in quoted.PAGES:
        text = page.read_text(encoding="utf-8")
        again = quoted.filled(filled(page, filled(page, text), CHANGING))
        if again != text:
            with replacing(page) as file:
                file.write(again)
    print("\n".join(stale.lines()))


if __name__ == "__main__":
    main()
