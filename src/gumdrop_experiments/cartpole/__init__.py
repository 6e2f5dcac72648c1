"""Swing up a pole from few trials (the setting of DeepPILCO; Gal, McAllister & Rasmussen 2016).

A policy is learned inside a model of the dynamics that is itself learned, trial by trial (`control/`). The data
grow with every trial, so no rate found by a search beforehand fits for long. Learned rates stand beside a fixed rate
and a network without dropout, with the same seeds; and beside random actions, a search without a model, and a policy
improved with the true equations of motion, which is what is left when the dynamics need not be learned.
"""

from typing import Literal

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="a pole swung up from few trials, in a model whose learned rates fall as the data grow",
    minutes=(51, 1),
    source="Gal, McAllister & Rasmussen 2016, DeepPILCO: a cumulative reward near 16.5 of 25",
)

PUBLISHED = 16.5
"""Cumulative reward that DeepPILCO reaches, of 25, by its figure."""


class Settings(BaseSettings):
    environment: Literal["swing-up", "pendulum"] = "swing-up"
    """What to control: the pole on a cart, or Gymnasium's Pendulum-v1."""
    trials: int = flag(20, least=2, quick=4)
    """Episodes of each search; the first is random."""
    seeds: int = flag(5, least=1, quick=2)
    """Searches with each kind of dropout."""
    moment_matching: bool = False
    """Draw the particles of a roll-out anew at each step, from a Gaussian with their moments, as DeepPILCO does."""
