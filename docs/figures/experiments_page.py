"""Fill the tables of ``docs/experiments.md`` and ``docs/mnist.md`` from the results files.

They stand between ``<!-- name -->`` and ``<!-- end -->``. What is published, and what a comparison says, is in
``evidence.toml``; every figure of ours comes from a results file. Run with ``make docs-evidence``.
"""

import json
import re
import statistics
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import quoted

from gumdrop.machine.files import replacing
from gumdrop_experiments.catalogue import EXPERIMENTS
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.regularisation import PUBLISHED
from gumdrop_experiments.regularisation.training import at_the_end
from gumdrop_experiments.rotation.page import PUBLISHED as ANSWERS
from gumdrop_experiments.rows.page import findings, tables

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "experiments.md"
MNIST = DOCS / "mnist.md"
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


def mean(parts: Iterable[Any], *keys: str) -> float:
    """Average one number of the parts of several seeds."""
    return statistics.fmean(reduce(getitem, keys, part) for part in parts)


# The cells of ours


def line() -> str:
    """Both ends of the range."""
    few, many = (found("line")["networks"][0]["runs"][i] for i in (0, -1))
    cells = [f"{few[key]:.2f} → {many[key]:.2f}" for key in ("aleatoric", "epistemic")]
    hidden = [statistics.fmean(run["rates"][1:]) for run in (few, many)]
    return f"aleatoric {cells[0]}, epistemic {cells[1]}, hidden p {hidden[0]:.2f} → {hidden[1]:.2f}"


def uci() -> str:
    """Log likelihood of the default, and of the paper's own setting here."""
    chosen, older = found("uci-chosen"), found("uci")
    ours = (chosen[name]["methods"]["chosen"]["log_likelihood"][0] for name in UCI)
    paper = (older[name]["methods"]["paper"]["log_likelihood"][0] for name in UCI)
    return f"default {listed(ours)}; the paper's setting {listed(paper)}"


def two_pass() -> str:
    """Rates of the report's sets by layer, with two passes and with three; those of wine after many epochs, too."""

    def rates(file: str, method: str, name: str) -> str:
        return listed(found(file)[name]["methods"][method]["rates"])

    two, three = (
        "; ".join(rates(f"uci-{method}", method, name) for name in UCI if name != "concrete-strength")
        for method in ("two-pass", "three-pass")
    )
    long = rates("uci-three-pass-long", "three-pass", "wine-quality-red")
    return f"by layer, Boston; wine; kin8nm. Two passes: {two}. Three: {three}. Three on wine, 220 epochs: {long}"


def regularisers() -> str:
    """Rates and likelihood with the report's factors, learning rate and targets."""
    cells = []
    for name, each in found("uci-regularisers").items():
        two, three = (each["methods"][f"{passes}-pass"] for passes in ("two", "three"))
        cells.append(f"{name} {listed(two['rates'], 3)} and {listed(three['rates'], 3)}")
    return f"rates of the layers with two passes and with three, from .1: {'; '.join(cells)}"


def rivals() -> str:
    """Likelihood of the Gaussian, and error."""
    ours = [each["methods"]["gumdrop"] for each in found("rivals").values()]
    nll, rmse = ([each[score][0] for each in ours] for score in ("gaussian_nll", "rmse"))
    return f"NLL {listed(nll, 3)}; RMSE {listed(rmse, 3)}"


def gaps() -> str:
    """Log likelihood on gap splits, averaged over the sets."""
    means = found("gaps")["means"]["gap"]
    ours, fixed, single = (means[key] for key in ("gumdrop", "fixed", "mc-dropout"))
    return f"mean of four sets: {ours:.3f}; ensemble with rates of .1 {fixed:.3f}, one network with .1 {single:.3f}"


def labels() -> str:
    """Labels to nine right digits in ten, and how many are right at the end."""
    names = {"fixed-batchbald": "BatchBALD by tens at p = .5", "learned-batchbald": "learned", "fixed-random": "random"}
    pool = found("labels")["pools"]["mnist"]
    reached = {way: pool[way]["goals"]["0.9"] for way in names}
    cells = [
        f"{label} {'–' if reached[way] is None else round(reached[way]['labels'])} "
        f"({pool[way]['curve']['accuracy'][-1]:.3f} right with {pool[way]['curve']['labels'][-1]})"
        for way, label in names.items()
    ]
    return f"labels to 90 %: {'; '.join(cells)}"


def pairs() -> str:
    """Pixels that have to be replaced, by FIDO and by others."""
    parts = found("pairs")["pairs"].values()
    names = ("FIDO, between the two", "integrated gradients", "difference", "at random")
    shares = (100 * statistics.fmean(share for part in parts for share in part["needed"][name]) for name in names)
    cells = (f"{name} {share:.1f}" for name, share in zip(names, shares, strict=True))
    return "pixels to replace, %: " + "; ".join(cells)


def gradients() -> str:
    """Spread of the norm of the gradient, at one temperature and at another."""
    norms = found("gradients")["norms"]
    names = ("original t=0.1", "simplified t=0.1", "ours t=1")
    sharp, simplified, soft = (f"{statistics.fmean(norms[name]['sd']):.3f}" for name in names)
    return f"SD of the norm: original {sharp}, simplified {simplified} at t = 0.1; {soft} at t = 1"


def mnist() -> str:
    """Accuracy with all images."""
    return f"{100 * mean(found('mnist')['sizes'][-1]['learned'], 'drawn', 'accuracy'):.2f} %"


def regularisation() -> str:
    """Errors at the end."""
    networks = found("regularisation")["networks"]
    end = {name: at_the_end(each["errors"]) for name, each in networks.items()}
    dense = [end[f"perceptron-{way}"] for way in ("none", "hidden", "both", "learned", "strength")]
    lenet = [end[f"lenet-{way}"] for way in ("none", "half", "learned")]
    return (
        f"dense {listed(dense[:3], 1)}, learned {dense[3]:.1f}, with a held-out strength {dense[4]:.1f} "
        f"after 200 epochs; LeNet {listed(lenet[:2], 1)}, "
        f"learned {lenet[2]:.1f} after 60"
    )


def co2() -> str:
    """Bands of drawn functions at both ends."""
    networks = found("co2")["networks"]
    bands = {name: f"{each['band_at_last']:.2f} → {each['band_at_end']:.2f}" for name, each in networks.items()}
    return (
        f"p = .1: ReLU {bands['relu-scripts']}, tanh {bands['tanh-scripts']}; "
        f"learned, 4 x 128: {bands['relu-narrow']}, {bands['tanh-narrow']}; 5 x 1024: {bands['relu-learned']} (ReLU)"
    )


def cartpole() -> str:
    """Reward of the last trial."""
    summary = found("cartpole")["summary"]
    learned, none, fixed = (f"{summary[way]['median']:.2f}" for way in ("learned", "none", "fixed"))
    return f"learned {learned}, no dropout {none}, fixed .1 {fixed}"


def camvid(file: str, score: str, digits: int) -> str:
    """One score of all ways, in percent."""
    scores = found(file)

    def cell(way: str, how: str) -> str:
        return f"{100 * mean(scores[way], how, score):.{digits}f}"

    ways = [way for way in ("fixed 0.2", "learned", "learned from 0.05", "learned from 0.01") if way in scores]
    pairs = (f"{way} {cell(way, 'no_draws')}, {cell(way, 'draws')} with draws" for way in ways)
    return "; ".join((f"none {cell('none', 'no_draws')}", *pairs))


def camvid_factors() -> str:
    """What is left of the network under the report's factors."""
    (run,) = found("camvid-factors")["learned"]
    last = [rates[-1] for rates in run["rates"].values()]
    shares = listed((100 * run[how]["miou"] for how in ("no_draws", "draws")), 1)
    return f"rates {min(last):.3f} to {max(last):.3f}; mean IoU {shares} %, without and with draws"


def camvid_calibration() -> str:
    """Calibration error, and on which side of the truth two of the ways are."""
    scores = found("camvid")
    fixed, learned = (
        100 * mean(scores[way], how, "overconfidence") for way, how in (("fixed 0.2", "draws"), ("learned", "no_draws"))
    )
    sides = f"fixed 0.2 with draws −{-fixed:.2f}, learned without {learned:.2f}"
    by_class = (
        f"{mean(found(file)[way], how, 'calibration_mse'):.5f}"
        for file in ("camvid", "camvid-103")
        for way, how in (("fixed 0.2", "draws"), ("learned", "no_draws"))
    )
    small, deep = (f"{fixed} and {next(by_class)}" for fixed in by_class)
    return (
        f"{camvid('camvid', 'ece', 2)}; confidence minus accuracy: {sides}; squared error by class of the same two "
        f"{small}, with FC-DenseNet103 {deep}"
    )


def pooled() -> str:
    """Hamming distance and held-out loss of the report's network."""
    settings = found("g2p")["pooled"]
    cells = [
        f"{name} {each['hamming']['no_draws']:.2f} ({each['history']['validation_nll'][-1]:.2f})"
        for name, each in settings.items()
        if name in ("fixed 0", "fixed 0.1", "broken", "learned")
    ]
    return "; ".join(cells) + "; in brackets the held-out loss in nats"


def reported() -> str:
    """Scores of the report's network over the last ten epochs, trained as reported."""
    cells = []
    for name, each in found("g2p-reported")["pooled"].items():
        hamming, nll = (each["last_epochs"][f"validation_{score}"][0] for score in ("hamming", "nll"))
        cells.append(f"{name} {hamming:.2f} ({nll:.2f}, {min(each['history']['validation_nll']):.2f})")
    said = "held-out words, mean of the last ten of 30 epochs, in brackets the loss in nats, and that of the best epoch"
    return f"{'; '.join(cells)}; {said}"


def speller() -> str:
    """Words wrong, of one network on two processors and of three networks together."""
    one, again, three = (
        100 * found(name)["spellers"][label]["judged"]["no_draws"]["wer"]
        for name, label in (("g2p", "learned"), ("g2p-members", "learned"), ("g2p-members", "3 learned together"))
    )
    return f"one network {one:.1f} and, trained again, {again:.1f} %; three together {three:.1f} %"


def sentiment() -> str:
    """Accuracy of learned rates and of .5."""
    scores = {name: each["summary"]["draws"]["accuracy"][0] for name, each in found("sentiment").items()}
    plain, words = ([100 * scores[f"{way}{more}"] for way in ("learned", "fixed 0.5")] for more in ("", ", words too"))
    return f"learned and fixed .5: {listed(plain, 1)} %; with words dropped too: {listed(words, 1)} %"


def sentiment_epochs() -> str:
    """Accuracy and loss on development sentences over many epochs, at the best one and at the end."""
    parts = {label: each["parts"][0] for label, each in found("sentiment-epochs").items()}
    cells = [
        f"{label} {100 * max(part['validation_accuracy']):.1f} and {100 * part['validation_accuracy'][-1]:.1f} % "
        f"({listed((min(part['validation_nll']), part['validation_nll'][-1]))})"
        for label, part in parts.items()
    ]
    return f"at best and after 20 epochs (nats): {'; '.join(cells)}"


def rates() -> str:
    """Worst regret of some ways to a rate."""
    worst = found("rates")["ensemble"]["random"]["worst"]
    ways = {"learned": "held-out", "no dropout": "off", "grid": "grid", "best fixed": "0.02"}
    cells = (f"{label} {worst[way]:.{3 if worst[way] < 1 else 2}f}" for label, way in ways.items())
    large = [table["gain"]["held-out"][0] for table in found("rates")["large"]["ensemble"].values()]
    gains = f"on {len(large)} large tables learned gains {min(large):.4f} to {max(large):.4f} on the grid"
    return f"worst loss of LL: {', '.join(cells)}; {gains}"


def rows() -> str:
    """Worst loss of each way, with the prior."""
    worst = {way: each["worst"] for way, each in found("rows")["regret"]["prior"].items()}
    return f"worst loss of nats over sets and sizes: {', '.join(f'{way} {loss:.3f}' for way, loss in worst.items())}"


def shift() -> str:
    """Mean NLL of ensembles over the steps of all shifts."""
    ways = {"learned": "held-out", "by the ELBO": "elbo", "no dropout": "off", "15 networks without": "plain"}
    ways |= {"fixed .1": "0.1", "fixed .2 / .5": "0.2 / 0.5"}
    of = found("shift")["ensemble"]["mean"]
    cells = (f"{label} {mean(of[way].values(), 'nll'):.3f}" for label, way in ways.items())
    return "mean NLL of ensembles: " + ", ".join(cells)


def tables_won() -> str:
    """On how many sets the estimator is best."""
    verdicts = found("tables")["verdicts"].values()
    networks, all_ = (sum(each[key] for each in verdicts) for key in ("best_network", "best_of_all"))
    among = f"among networks on {networks} of {len(verdicts)} sets, among all methods on {all_}"
    return f"best, or within a standard error of the best: {among}"


def attribution() -> str:
    """Insertion and deletion of our masks and of integrated gradients."""
    scores = found("attribution")["digits"]["blur"]
    ssr, sdr, integrated = (scores[name] for name in ("FIDO ssr", "FIDO sdr", "integrated gradients"))
    insertion = listed((each["insertion"]["mean"] for each in (ssr, integrated)), 3)
    deletion = listed((each["deletion"]["mean"] for each in (sdr, integrated)), 3)
    return f"insertion {insertion}, deletion {deletion}: FIDO, integrated gradients, under a blur"


def rotation() -> str:
    """What the tutorial's networks say of the digit, and how sure they are where it is certain."""
    cells = []
    for name, published in ANSWERS.items():
        network = found("rotation")["networks"][name]
        turning = network["turning"]
        said = " ".join(map(str, turning["label_off"]))
        same = sum(ours == theirs for ours, theirs in zip(said.split(), published.split(), strict=True))
        entropy = turning["predictive_entropy"]
        cells.append(
            f"{network['label']}: {said}, {same} of {len(entropy)} alike; entropy {entropy[0]:.2f} nats at first, "
            f"{max(entropy):.2f} at most"
        )
    return "; ".join(cells)


def decisions() -> str:
    """How well uncertainty tells unseen classes."""
    outliers = found("decisions")["outliers"]
    scores = ("gumdrop: entropy", "logistic regression: entropy")
    ours, theirs = (mean(outliers, "digits 8 and 9", score, "auroc") for score in scores)
    return f"AUROC of unseen digits {ours:.3f}, logistic regression {theirs:.3f}"


def transformers() -> str:
    """Likelihood of learned rates and of the best fixed setting."""
    nll = {
        task: {way: mean(runs, "scores", "nll") for way, runs in ways.items()}
        for task, ways in found("transformers").items()
    }
    pairs = ((each["learned"], min(value for way, value in each.items() if way != "learned")) for each in nll.values())
    return "NLL of learned rates and of the best other: " + "; ".join(listed(pair, 3) for pair in pairs)


CELLS: dict[str, Callable[[], str]] = {
    "camvid": partial(camvid, "camvid", "miou", 1),
    "camvid_deep": partial(camvid, "camvid-103", "miou", 1),
    "camvid_calibration": camvid_calibration,
    "camvid_factors": camvid_factors,
}
for each in (line, uci, two_pass, regularisers, tables_won, rivals, gaps, rates, decisions, labels, attribution, pairs):
    CELLS[each.__name__] = each
for each in (gradients, transformers, mnist, shift, regularisation, rotation, rows, co2, cartpole):
    CELLS[each.__name__] = each
for each in (pooled, reported, speller):
    CELLS[each.__name__] = each
for each in (sentiment, sentiment_epochs):
    CELLS[each.__name__] = each
"""The cells of ours by their names in ``evidence.toml``."""


def evidence() -> str:
    """The first table of the page: published, ours, same or not, and why."""
    lines = []
    for row in tomllib.loads((DOCS / "figures" / "evidence.toml").read_text(encoding="utf-8"))["rows"]:
        about = EXPERIMENTS[row["experiment"]]
        name = f"[{row['experiment']}]({row['page']})"
        ours = CELLS[row["ours"]]() if "ours" in row else row["words"]
        minutes = f"{'≈ ' * about.estimated}{about.minutes:,g}"
        lines.append((name, row["published"], ours, row["same"], row["why"], minutes, ", ".join(about.data) or "–"))
    return table(("experiment", "published", "ours", "same?", "why", "minutes", "data"), lines)


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
    """Means of the last ten epochs beside the tutorial's errors, and the rates at the end."""
    rows = []
    for name, network in found("regularisation")["networks"].items():
        errors, nll = (at_the_end(network[key]) for key in ("errors", "test_nll"))
        rates = listed(network["rates_over_training"][-1], 3) if network["rates_over_training"] else "–"
        rows.append((network["label"], f"{errors:.1f}", PUBLISHED.get(name, "–"), f"{nll:.3f}", rates))
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
    """How well each kind of uncertainty tells digits from pictures that are none."""
    kinds = ("predictive_entropy", "expected_entropy", "mutual_information")
    rows = [
        (network["label"], pictures, *(f"{scores[kind]:.3f}" for kind in kinds))
        for network in found("rotation")["networks"].values()
        for pictures, scores in network["telling"].items()
    ]
    return table(("network", "pictures", *(kind.replace("_", " ") for kind in kinds)), rows)


def nats_by_rows() -> str:
    """What `rows` found, in words and in tables."""
    results = found("rows")
    words = "\n".join(f"- {finding}" for finding in findings(results))
    return "\n\n".join([words, *(f"{each.caption}\n\n{table(each.columns, each.rows)}" for each in tables(results))])


PAGES: dict[Path, dict[str, Callable[[], str]]] = {
    PAGE: {
        "evidence": evidence,
        "chosen": chosen,
        "passes": passes,
        "replaced": replaced,
        "nats_by_rows": nats_by_rows,
    },
    MNIST: {"regularised": regularised, "rotated": rotated, "told": told},
}
"""Tables of each page by the names of their places."""


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
    for page in quoted.PAGES:
        text = page.read_text(encoding="utf-8")
        again = quoted.filled(filled(page, text) if page in PAGES else text)
        if again != text:
            with replacing(page) as file:
                file.write(again)


if __name__ == "__main__":
    main()
