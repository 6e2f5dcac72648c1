"""Drawn functions as the surrogate of an optimisation: how low does a function get in 100 evaluations?

Every way starts from the same Sobol points and then asks for two points at a time, those with the largest joint
qLogEI under its model. Beside networks with learned rates stand the same networks at a fixed rate of .1 (MC dropout),
BoTorch's Gaussian process as it comes, and Sobol points to the end.

References:
    Ament et al. 2023, "Unexpected Improvements to Expected Improvement for Bayesian Optimization" (arXiv:2310.20708).
    Eriksson et al. 2019, "Scalable Global Optimization via Local Bayesian Optimization" (arXiv:1910.01739).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="Bayesian optimisation by drawn functions, beside MC dropout and a Gaussian process, in 100 evaluations",
    minutes=(20, 1),
    source="no published figures: the ways run from the same points",
)


class Settings(BaseSettings):
    functions: tuple[str, ...] = flag((), known=("function", "gumdrop_experiments.surrogate.study.FUNCTIONS"))
    """Functions to minimise; all of them by default."""
    seeds: int = flag(5, least=1, quick=1, recorded=False)
    """Sets of Sobol points that each way starts from."""
    evaluations: int = flag(100, least=8, quick=26)
    """Evaluations of a function, the first ones included."""
    initial: int = flag(20, least=4)
    """Sobol points that come first."""
    steps: int = flag(150, least=1, quick=20)
    """Steps of training after every two evaluations; the first training has seven times as many."""
