"""Other ways to a rate, each an ensemble for what `rates` trains on one split in any case.

All hold out fifths of the training part, and each leaves as many networks as the default does.

References:
    Caruana et al. 2004, "Ensemble Selection from Libraries of Models" (ICML).
    Fernandez Sarmiento 2026, "Dropout Universality: Scaling Laws and Optimal Scheduling at the Edge-of-Chaos"
    (arXiv:2605.21648).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.ensembles import EnsembleFit
from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, by_held_out_rows, fixed, learned
from gumdrop_experiments.rates.responses import fit_by_draws, fit_by_response
from gumdrop_experiments.rates.results import FIXED, OFF

FRONT = 4, 2, 1
"""Shares of a budget of dropout in front of the three layers: most of it on the inputs."""
HIDDEN = 0, 2, 1
"""The same with none on the inputs."""


class Trained(NamedTuple):
    """The ensembles that are there before."""

    learned: dict[float, EnsembleFit]
    """By their strength."""
    fixed: dict[str, EnsembleFit]
    """By their rate, `OFF` among them."""


Arm = Callable[[Setup, Trained], tuple[EnsembleFit, str]]
"""Gives an ensemble, and what was chosen in words."""


def sites(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Choose a strength for each layer, beginning at the one strength that held-out rows chose.

    Each layer tries a quarter and four times of it while the others stay. All changes that gain more than a standard
    error are then made together.
    """
    centre = choose_strength({strength: fit.scores for strength, fit in trained.learned.items()})
    count, base = len(FRONT), trained.learned[centre]
    tries = [(i, factor) for i in range(count) for factor in STRENGTHS if factor != 1]
    each = [[centre * (factor if i == j else 1) for j in range(count)] for i, factor in tries]
    fits = dict(zip(tries, setup.fit([partial(learned, setup.build, s) for s in each]), strict=True))
    factors = [
        choose_strength({factor: fits.get((i, factor), base).scores for factor in STRENGTHS}) for i in range(count)
    ]
    changed = [(i, factor) for i, factor in enumerate(factors) if factor != 1]
    strengths = [centre * factor for factor in factors]
    if not changed:
        found = base
    elif len(changed) == 1:
        found = fits[changed[0]]
    else:
        (found,) = setup.fit([partial(learned, setup.build, strengths)])
    return found, " ".join(f"{strength:g}" for strength in strengths)


def profile(shares: Sequence[float], setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Give layers unequal rates whose mean, of those that drop, is a fixed rate; held-out rows choose that."""
    scaled = [share * sum(each > 0 for each in shares) / sum(shares) for share in shares]
    makes = [partial(fixed, setup.build, [max(p * share, ALMOST_NONE) for share in scaled]) for p in FIXED]
    fits = dict(zip((OFF, *map(str, FIXED)), [trained.fixed[OFF], *setup.fit(makes)], strict=True))
    chosen = list(fits)[by_held_out_rows(list(fits.values()))]
    return fits[chosen], chosen


def pool(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Choose ten networks out of all that were trained, of fixed and of learned rates, as `greedy` does."""
    fits = {**trained.fixed, **{f"strength {strength:g}": fit for strength, fit in trained.learned.items()}}
    names, like = list(fits), trained.learned[1.0]
    count = len(like.model.members)
    chosen = [names[i] for i in greedy(torch.stack([fit.scores for fit in fits.values()]), count)]
    members = [fits[name].model.members[i] for i, name in enumerate(chosen)]
    # Each ensemble has folds of its own: the noise is judged on the rows that the chosen network has not seen.
    own = like._replace(
        members=[fits[name].members[i] for i, name in enumerate(chosen)],
        held_out=[fits[name].held_out[i] for i, name in enumerate(chosen)],
    )
    return setup.mixed(members, own), ", ".join(f"{n} x {name}" for name, n in Counter(chosen).items())


def greedy(log_p: Tensor, count: int) -> list[int]:
    """Fill a mixture one by one, each time with what raises its log likelihood most; the same may be taken again.

    Of log likelihoods of rows under candidates, (C, N), NaN for rows without one, come the candidates as they were
    taken.
    """
    log_p = log_p[:, ~log_p.isnan().any(0)].double()
    mixture = torch.full_like(log_p[0], -torch.inf)
    chosen = []
    for _ in range(count):
        chosen.append(int(torch.logaddexp(mixture, log_p).mean(1).argmax()))
        mixture = torch.logaddexp(mixture, log_p[chosen[-1]])
    return chosen


def draws(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Learn the rates by what several draws predict together, see `fit_by_draws`."""
    return fit_by_draws(setup, trained.learned[1.0]), ""


def response(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Learn the rates by held-out rows, through the response of the weights, see `fit_by_response`."""
    return fit_by_response(setup, trained.learned[1.0]), ""


ARMS: dict[str, Arm] = {
    "sites": sites,
    "front": partial(profile, FRONT),
    "hidden": partial(profile, HIDDEN),
    "pool": pool,
    "draws": draws,
    "response": response,
}
"""All of them, by the name that ``--arms`` takes."""
