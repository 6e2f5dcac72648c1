"""Draw the figures of experiments again from ``docs/results``, where nothing but numbers is needed.

An experiment's page is made of its results, so a figure that is drawn otherwise needs no new run. Maps, films and what
shows more than the results hold come with a run. Run with ``make docs-figures``.
"""

from importlib import import_module
from pathlib import Path

from gumdrop_experiments.harness import WithPictures, read_json
from gumdrop_experiments.harness.run import write_figure
from gumdrop_experiments.pages import Picture

RESULTS = Path(__file__).parents[1] / "results"
RENAMED = {
    "camvid-103": {f"camvid-{name}": f"camvid-103-{name}" for name in ("curves", "rates", "classes")},
    "cartpole": {},
    "co2": {},
    "g2p": {},
    "g2p-hundred": {"g2p-pooled": "g2p-hundred"},
    "g2p-members": {"g2p-doubt": "g2p-members-doubt"},
    "g2p-reported": {"g2p-pooled": "g2p-reported"},
    "gaps": {},
    "line": {},
    "mnist": {},
    "rows": {},
    "starts": {},
    "surrogate": {},
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


def main() -> None:
    """Draw them."""
    for file, names in RENAMED.items():
        contents = read_json(RESULTS / f"{file}.json")
        page = import_module(f"gumdrop_experiments.{contents['experiment']}.page").page
        results = contents["results"] | MISSING.get(file, {})
        found = page(WithPictures(results, None) if contents["experiment"] == "camvid" else results)
        for picture in found.pictures:
            name = names.get(picture.name) if names else picture.name
            if name and name not in NOT_SHOWN:
                write_figure(Picture(name, picture.caption, picture.drawing), RESULTS)


if __name__ == "__main__":
    main()
