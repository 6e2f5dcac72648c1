"""Which digits to label next: active learning as published, with fixed dropout, with learned rates and without.

A network knows 20 labelled digits and asks for more out of a pool. BALD asks for those whose labels tell most about the
function, BatchBALD for those that do so together. Where every digit is there three times, with a little noise, BALD
asks for the same one three times.

References:
    Kirsch, van Amersfoort & Gal 2019, "BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active
    Learning" (arXiv:1906.08158), and its code and record of runs (https://github.com/BlackHC/BatchBALD).
    Houlsby et al. 2011, "Bayesian Active Learning for Classification and Preference Learning" (arXiv:1112.5745).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="active learning on digits by BALD and BatchBALD: accuracy and likelihood against the number of labels",
    minutes=(1400, 3),
    estimated=True,
    source="Kirsch, van Amersfoort & Gal 2019 (arXiv:1906.08158): labels to 90 and 95 % of digits right",
    data=("mnist",),
)

PUBLISHED: dict[str, dict[str, tuple[int, int | None]]] = {
    "mnist": {"fixed-bald-1": (89, 199), "fixed-batchbald": (95, 195)},
    "repeated": {"fixed-bald": (180, None), "fixed-batchbald": (100, 245)},
}
"""Labels to 90 and 95 % of test digits right, by the names of our ways; None where that was not reached."""

PUBLISHED_RUN = {
    "labels": (20, 45, 70, 95, 120, 145, 170, 185),
    "accuracy": (0.6594, 0.8237, 0.8596, 0.8674, 0.9158, 0.9226, 0.9435, 0.9474),
    "nll": (2.4132, 1.0423, 0.8788, 0.8205, 0.5713, 0.5574, 0.4302, 0.4295),
}
"""Points of one of the authors' six runs of BatchBALD by fives, mnist_multibald_bald_k100_b5_1029338.py."""

POOLS = ("mnist", "repeated")
"""Each digit once; and three times, with noise."""


class Settings(BaseSettings):
    labels: int = flag(250, least=21, quick=30)
    """Labels to go up to, from 20."""
    by: int = flag(5, least=1)
    """Labels to ask for at a time."""
    seeds: int = flag(1, least=1, quick=1)
    """Runs of each way; the source has six."""
    pool: int = flag(2000, quick=400)
    """Digits that are looked at in each round, drawn from all that are left; the source looks at all."""
    num_samples: int = flag(100, least=1, quick=10)
    """Functions that are drawn to choose by; a fifth of them to test."""
    test_images: int = flag(10_000, least=1, quick=500)
    """Digits to test on, spread over all test images."""
    epoch_images: int = flag(5056, least=1, quick=640)
    """Digits of an epoch of training, the labelled ones again and again."""
    pools: tuple[str, ...] = flag((), recorded=False, known=("pool", "gumdrop_experiments.labels.POOLS"))
    """Pools to ask from now, of mnist and repeated; both by default. More can be added with --resume."""
    ways: tuple[str, ...] = flag((), recorded=False, known=("way to ask", "gumdrop_experiments.labels.study.WAYS"))
    """Ways to ask now, such as fixed-batchbald; all by default. More can be added with --resume."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.pool < self.by:
            raise ValueError(f"`pool` must be at least {self.by}, got {self.pool}")
