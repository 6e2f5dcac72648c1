"""Two tables with fine structure, under the protocol of a published benchmark: who is best, and for what time?

One split, ``train_test_split(test_size=0.2, random_state=0)``; inputs and targets standardised by its training part;
five seeds of each model. RMSE, and the negative log likelihood of the Gaussian with the predicted mean and variance,
in units of the target's standard deviation.

References:
    The repository `scikit-learn-contrib/bde` (commit 4bcfcac1) holds the benchmark and its results.
    Airfoil Self-Noise: Brooks, Pope & Marcolini 1989 (doi 10.24432/C5VW2C). Bike Sharing: Fanaee-T & Gama 2013
    (doi 10.24432/C5W894).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="the estimator as it comes beside models of other packages and their published figures, on two tables",
    minutes=(57, 1),
    source="the benchmark of scikit-learn-contrib/bde, mean of five seeds",
    data=("tables",),
)

PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "airfoil": {
        "bde, 10 networks and Langevin sampling": (0.1216, -0.913, 240),
        "TabPFN v2": (0.1359, -0.934, 9),
        "deep ensemble of 10": (0.365, 0.176, 20),
        "CatBoost with uncertainty": (0.239, 0.148, 0.8),
        "XGBoost*": (0.203, -0.178, 1.2),
    },
    "bike-sharing": {
        "bde, 10 networks and Langevin sampling": (0.2261, -0.732, 2553),
        "TabPFN v2": (0.2104, -0.686, 1246),
        "deep ensemble of 10": (0.288, -0.455, 39),
        "CatBoost with uncertainty": (0.265, -0.374, 2.5),
        "XGBoost*": (0.214, -0.122, 1.9),
    },
}
"""RMSE, negative log likelihood of the Gaussian, and seconds on the benchmark's machine."""


class Settings(BaseSettings):
    methods: tuple[str, ...] = flag((), known=("method", "gumdrop_experiments.tables.methods.METHODS"))
    """Methods to run, by the names that `gumdrop reproduce tables` has; gumdrop, deep-ensemble, boosting, quantiles,
    ngboost, catboost, forest and realmlp by default."""
