"""UCI regression: is a rate that is learned, with nothing to tune, as good as one that is searched for?

Every method trains on the same splits; nothing is chosen on a test part.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), and the clean grid search that
    its authors published with their code in 2018.
    Nadeau & Bengio 2003, "Inference for the Generalization Error" (Machine Learning 52), for the paired test.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Learned dropout with nothing to tune against a searched rate, on the UCI regression sets and their splits.",
    shows="learned dropout with nothing to tune against a grid search over rate and noise, on UCI regression",
    minutes=80,
    quick_minutes=2,
    source="Gal, Hron & Kendall 2017, table 1; Gal & Ghahramani 2016, its authors' clean grid search of 2018",
    data=("uci",),
)

PUBLISHED: dict[str, list[tuple[str, str, str]]] = {
    "boston-housing": [("2.90 (.18)", "-2.40 (.04)", "-2.34*"), ("2.65", "-2.72", "")],
    "concrete-strength": [("4.83 (.16)", "-2.94 (.02)", "-2.82*"), ("4.46", "-3.51", "")],
    "energy": [("0.539 (.014)", "-1.21 (.01)", "-0.61"), ("0.46", "-2.30", "")],
    "kin8nm": [(".0789 (.0006)", "1.14 (.01)", "1.28"), (".07", "0.65", "")],
    "naval": [(".00074", "4.45", "6.33"), (".00", "5.87", "")],
    "power-plant": [("4.01 (.04)", "-2.81 (.01)", "-2.67*"), ("3.70", "-2.75", "")],
    "protein": [("4.27 (.02)", "-2.87 (.00)", "-2.63"), ("3.85", "-2.81", "")],
    "wine-quality-red": [("0.62 (.01)", "-0.93 (.01)", "-0.89"), ("0.62", "-1.70", "")],
    "yacht": [("0.67 (.05)", "-1.25 (.02)", "-0.73"), ("0.57", "-1.75", "")],
}
"""RMSE, log likelihood and best network seen: of the clean grid search, then of the Concrete Dropout paper."""
