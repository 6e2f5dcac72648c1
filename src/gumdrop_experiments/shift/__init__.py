"""Digits that are turned, blurred or noisy: what ways to a dropout rate are worth on images unlike those of training.

Networks learn MNIST without dropout, with fixed rates, and with learned ones, whose strength is that of the ELBO or
what held-out training images choose. They are scored on test images that change step by step, alone and as ensembles,
beside an ensemble without dropout that costs as much to train as the choice of the strength.

References:
    Ovadia et al. 2019, "Can You Trust Your Model's Uncertainty? Evaluating Predictive Uncertainty Under Dataset Shift"
    (arXiv:1906.02530), for the protocol.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="NLL and calibration on turned, blurred and noisy digits: no dropout, fixed rates, learned ones",
    minutes=(37, 1),
    source="none; the protocol is that of Ovadia et al. 2019 (arXiv:1906.02530)",
    data=("mnist",),
)


class Settings(BaseSettings):
    images: int = flag(10_000, least=50, quick=1000)
    """Training images; each network holds a fifth of them out."""
    test_images: int = flag(2000, least=2, quick=200)
    """Test images, each at every step of every shift."""
    epochs: int = flag(40, least=1, quick=5)
    """Passes over the training images."""
    num_samples: int = flag(20, least=1)
    """Draws of each network."""
