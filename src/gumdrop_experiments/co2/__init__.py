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

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="extrapolating CO2 by drawn functions and Gaussian processes, scored against what came to pass",
    minutes=(700, 2),
    estimated=True,
    source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.1: a figure; the curves in Xu, Zhao & Zhao's tutorial",
    data=("co2",),
)

PUBLISHED = {"relu-scripts": ".12 → 5.0", "tanh-scripts": ".10 → .09"}
"""SDs of drawn functions in the tutorial's own record, mlp2_sim_results.txt: at x = 1.72 and 3.5."""

KINDS = ("scripts", "fixed", "narrow", "held", "learned")
"""Kinds of networks, each of ReLU and of tanh units; `gumdrop_experiments.co2.study.NETWORKS` builds them."""


class Settings(BaseSettings):
    steps: int = flag(20_000, least=1, quick=2000)
    """Steps of the networks with fixed rates, each on all 272 months. The tutorial's scripts have 1,000,000."""
    learned_steps: int = flag(100_000, least=1, quick=2000)
    """Steps of those that learn their rates."""
    width: int = flag(1024, least=1, quick=128)
    """Units of a hidden layer at most."""
    num_samples: int = flag(10_000, least=1, quick=300)
    """Functions that are drawn from each network."""
    chains: int = flag(2, least=1)
    """Chains of the sampled Gaussian process."""
    chain_draws: int = flag(5000, least=10, quick=300)
    """Draws that each chain keeps, after two fifths as many to tune the sampler."""
    bfloat16: bool = False
    """Train in bfloat16 where that is safe."""
    networks: tuple[str, ...] = flag((), recorded=False, known=("kind of network", "gumdrop_experiments.co2.KINDS"))
    """Kinds of networks to train now, of scripts, fixed, narrow, held and learned; all by default. More of them can be
    added with --resume. Networks that an earlier run has trained, or began to train, are reported as they are."""
