"""Carbon dioxide at Mauna Loa: ways to extrapolate, and what came to pass.

A network learns 23 years of the record without its trend, and is asked about the twelve years that follow. Weight
averaging gives one line; a Gaussian process, with its hyper-parameters estimated or sampled, and dropout kept on at
prediction, give bands. The tutorial that this follows could not score the extrapolation; here the record of those years
is the judge.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), section 5.1.
    Xu, Zhao & Zhao 2018, "Tutorial: Dropout as Regularization and Bayesian Approximation"
    (https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch): its scripts, and the record of their results.
    Rasmussen & Williams 2006, "Gaussian Processes for Machine Learning", section 5.4.3, for the seasonal kernel.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Extrapolate the record of carbon dioxide by dropout and by Gaussian processes, and hold it against the "
    "truth.",
    shows="extrapolating CO2 by drawn functions and Gaussian processes, scored against what came to pass",
    minutes=700,
    estimated=True,
    quick_minutes=2,
    source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.1: a figure; the curves in Xu, Zhao & Zhao's tutorial",
    data=("co2",),
)

PUBLISHED = {"relu-scripts": ".12 → 5.0", "tanh-scripts": ".10 → .09"}
"""SDs of drawn functions in the tutorial's own record, mlp2_sim_results.txt: at x = 1.72 and 3.5."""
