"""Is a film review good or bad (SST-2): learned dropout in an LSTM against fixed rates.

The one published attempt at learned dropout here drew a new mask for every time step and left the regulariser out of
its loss; its own run was on three classes by mistake. Here one mask serves a whole sentence, in front of ``W_ih``, and
word types are dropped by a rate of their own.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Classify the sentences of SST-2 with an LSTM: learned rates against a grid of fixed ones.",
    shows="an LSTM on film reviews (SST-2): learned rates, of word types too, against a grid of fixed ones",
    minutes=116,
    quick_minutes=1,
    source="Socher et al. 2013; Gal & Ghahramani 2016 (arXiv:1512.05287)",
    data=("sst",),
)
