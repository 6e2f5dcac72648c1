"""Monte Carlo prediction: draw functions from the dropout posterior and average what they say.

A draw shares one mask among all rows, so it is one function, and predictions depend neither on the order of the rows
nor on their batches. `drawing.py` makes a function a network of its own, `draws.py` evaluates many at once, `moments/`
makes none, `predict.py` hands their outputs to a likelihood, and `distance.py` says how far out rows are. Masks are
Bernoulli draws; the relaxed ones are for training. Imports `networks`, `likelihoods` and what is below.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (ICML 2016, arXiv:1506.02142).
    Kendall & Gal 2017, "What Uncertainties Do We Need" (arXiv:1703.04977).
"""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use

if TYPE_CHECKING:
    from gumdrop.prediction.distance import FeatureDistance
    from gumdrop.prediction.moments.propagation import OutputMoments, propagate_moments
    from gumdrop.prediction.tiles import predict_in_tiles
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.prediction.distance": ["FeatureDistance"],
            "gumdrop.prediction.moments.propagation": ["OutputMoments", "propagate_moments"],
            "gumdrop.prediction.tiles": ["predict_in_tiles"],
        },
    )

__all__ = ["FeatureDistance", "OutputMoments", "predict_in_tiles", "propagate_moments"]
