"""Film reviews."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Classify the sentences of SST-2 with an LSTM: learned rates against a grid of fixed ones.",
    shows="an LSTM on film reviews (SST-2): learned rates, of word types too, against a grid of fixed ones",
    minutes=90,
    quick_minutes=1,
    source="Socher et al. 2013; Gal & Ghahramani 2016 (arXiv:1512.05287)",
    data=("sst",),
)
