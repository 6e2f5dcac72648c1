"""Monte Carlo prediction: draw functions from the dropout posterior and average what they say.

A draw shares one mask among all rows, so it is one function, and predictions depend neither on the order of the rows
nor on their batches. Records hold moments and draws of numbers, classes and counts; `ways/` makes many draws at once,
and `moments/` makes none. Masks are Bernoulli draws; the relaxed ones are for training. Imports `functional` and
`layers`.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (ICML 2016, arXiv:1506.02142).
    Kendall & Gal 2017, "What Uncertainties Do We Need" (arXiv:1703.04977).
"""

from gumdrop.prediction.classification import ClassificationPrediction, predict_classification
from gumdrop.prediction.counts import CountPrediction, predict_counts
from gumdrop.prediction.drawing import draw, sampling
from gumdrop.prediction.mixture import RegressionPrediction
from gumdrop.prediction.moments.propagation import OutputMoments, propagate_moments
from gumdrop.prediction.outputs import sample
from gumdrop.prediction.regression import predict_regression
from gumdrop.prediction.target_scale import PLAIN, TargetScale
from gumdrop.prediction.tiles import predict_in_tiles

__all__ = [
    "ClassificationPrediction",
    "CountPrediction",
    "OutputMoments",
    "PLAIN",
    "RegressionPrediction",
    "TargetScale",
    "draw",
    "predict_classification",
    "predict_counts",
    "predict_in_tiles",
    "predict_regression",
    "propagate_moments",
    "sample",
    "sampling",
]
