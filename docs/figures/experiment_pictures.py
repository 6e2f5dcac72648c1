"""Draw the figures of experiments again from ``docs/results``, where nothing but numbers is needed.

An experiment's page is made of its results, so a figure that is drawn otherwise needs no new run. Maps, films and what
shows more than the results hold come with a run. Run with ``make docs-figures``.
"""

from importlib import import_module
from pathlib import Path

from gumdrop_experiments.camvid.page import draw_calibration, draw_rates
from gumdrop_experiments.harness import Plain, WithPictures, read_json
from gumdrop_experiments.harness.run import write_figure
from gumdrop_experiments.pages import Picture

RESULTS = Path(__file__).parents[1] / "results"
RENAMED: dict[str, dict[str, str]] = {
    "camvid-103": {f"camvid-{name}": f"camvid-103-{name}" for name in ("curves", "classes")},
    "cartpole": {},
    "co2": {},
    "decisions": {"decisions-growing": "decisions-growing"},
    "g2p": {},
    "g2p-hundred": {"g2p-pooled": "g2p-hundred"},
    "g2p-members": {"g2p-doubt": "g2p-members-doubt"},
    "g2p-reported": {"g2p-pooled": "g2p-reported"},
    "gaps": {},
    "injected": {"injected": "injected"},
    "line": {},
    "lora": {"lora-paths": "lora-paths"},
    "mnist": {},
    "mnist-long": {"mnist-rates": "mnist-long-rates"},
    "rates-arms": {"rates-arms": "rates-arms"},
    "regularisation": {},
    "regularisation-lenet-0": {"regularisation": "regularisation-lenet"},
    "rows": {},
    "sentiment-epochs-seeds": {"sentiment-epochs": "sentiment-epochs"},
    "starts": {},
    "surrogate": {},
    "tables": {},
    "tables-unseen": {"tables-log-likelihood": "tables-unseen"},
    "targets": {},
    "uci": {},
}
"""Results files, and the figures that are taken of them under other names; where there are none, all are."""
NOT_SHOWN = {"uci-rates"}
"""Rates of an older training than that of `uci-passes`, which the page has."""

WORDS = {"train": 121335, "validation": 6747, "test": 6778, "trained": 121335, "tested": 2000}
MISSING = {
    "cartpole": {"environment": "swing-up"},
    "g2p": {"further_seeds": {}, "data": WORDS},
    "g2p-reported": {"further_seeds": {}},
}
"""What results of before an option do not say. No figure shows it."""
OTHER_FILES = {"sentiment-epochs-seeds": "sentiment-epochs"}
"""Results that a figure has, too, where the file does not."""


def results_of(file: str) -> Plain:
    """Read results, with what their figures need besides."""
    results: Plain = read_json(RESULTS / f"{file}.json")["results"] | MISSING.get(file, {})
    if file in OTHER_FILES:
        results = read_json(RESULTS / f"{OTHER_FILES[file]}.json")["results"] | results
    if file == "regularisation":  # its LeNet is an older run than those with three seeds
        results["networks"] = {name: each for name, each in results["networks"].items() if "lenet" not in name}
    return results


def main() -> None:
    """Draw them."""
    for file, names in RENAMED.items():
        contents = read_json(RESULTS / f"{file}.json")
        page = import_module(f"gumdrop_experiments.{contents['experiment']}.page").page
        results = results_of(file)
        found = page(WithPictures(results, None) if contents["experiment"] == "camvid" else results)
        for picture in found.pictures:
            name = names.get(picture.name) if names else picture.name
            if name and name not in NOT_SHOWN:
                write_figure(Picture(name, picture.caption, picture.drawing), RESULTS)
    small, *large = (results_of(file) for file in ("camvid", "camvid-103", "camvid-103-seed1"))
    of_camvid = {  # the first results lack what the page's tables show
        "camvid-rates": draw_rates(small),
        "camvid-calibration": draw_calibration(small),
        "camvid-103-rates": draw_rates({"learned": [run for results in large for run in results["learned"]]}),
    }
    for name, drawing in of_camvid.items():
        write_figure(Picture(name, "", drawing), RESULTS)


if __name__ == "__main__":
    main()
