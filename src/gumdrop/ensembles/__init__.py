"""A few networks with learned dropout, each with held-out rows that it has not seen, mixed into one.

Each member trains without one fold of the rows, which sets its noise (for numbers) or picks its epoch (for classes);
the noise may then depend on the inputs (`noise.py`). Which networks suit a table is found by pilots,
and how strong their dropout is to be by the held-out rows (`choosing.py`). All members train as one batched program
or in turn on rows that are read in pieces (`fitting.py`). The formulas are in `docs/method.md`.
Imports `training` and the rooms below.

References:
    Lakshminarayanan et al. 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles"
    (arXiv:1612.01474).
"""

from gumdrop.ensembles.architecture import Architecture, Build, candidates
from gumdrop.ensembles.choosing import choose, fit
from gumdrop.ensembles.fitting import EnsembleFit, ensemble_of, fit_ensembles, joined
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.models import ClassificationEnsemble, DrawnFunctions, RegressionEnsemble
from gumdrop.ensembles.rows import Rows
from gumdrop.ensembles.settings import EnsembleSettings

__all__ = [
    "Architecture",
    "Build",
    "ClassificationEnsemble",
    "DrawnFunctions",
    "EnsembleFit",
    "EnsembleSettings",
    "RegressionEnsemble",
    "Rows",
    "candidates",
    "choose",
    "ensemble_of",
    "fit",
    "fit_ensembles",
    "joined",
    "schedule",
]
