"""What uncertainty is good for: which rows to label next, which rows to distrust, and what more data change.

References:
    Houlsby et al. 2011, "Bayesian Active Learning for Classification and Preference Learning" (arXiv:1112.5745).
    Hendrycks & Gimpel 2017, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples"
    (arXiv:1610.02136).
"""

from gumdrop_experiments.harness import About

ABOUT = About(
    shows="what uncertainty is good for: which rows to label next, which to distrust, and what more data change",
    minutes=(36, 1),
    source="none; plain choices and scikit-learn's detectors in the same run",
)
