"""Ensembles that differ in their rates: same kind of networks, number of folds and steps, and held-out noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop import fix_dropout
from gumdrop.ensembles import EnsembleFit, EnsembleSettings, Rows, ensemble_of, fit_ensembles, joined
from gumdrop.layers import dropout_blocks
from gumdrop.likelihoods import Likelihood
from gumdrop.training import FitResult, choose_strength, fit_stacked

ALMOST_NONE = 1e-50
"""A rate that is 0 in float32."""


class Setup(NamedTuple):
    """What all ensembles of a split have in common."""

    build: Callable[[], nn.Module]
    train: tuple[Tensor, Tensor]
    """Inputs, shape (N, F), and targets, shape (N, 1), or class indices, shape (N,)."""
    settings: EnsembleSettings
    likelihood: Likelihood
    """What networks are trained on."""

    def fit(self, makes: Sequence[Callable[[], nn.Module]]) -> list[EnsembleFit]:
        """Train an ensemble of each kind of networks, all as one program."""
        return fit_ensembles(makes, [Rows(*self.train)] * len(makes), self.settings, self.likelihood)

    def trained(
        self,
        members: Sequence[nn.Module],
        train: Sequence[tuple[Tensor, Tensor]],
        nll_by: Callable[[Callable[[Tensor, Tensor], Tensor]], Callable[[Any, Tensor], Tensor]],
        like: EnsembleFit,
    ) -> EnsembleFit:
        """Train networks that are wrapped for a loss of their own, in turn, on the folds of another fit, and mix them.

        Members keep the network as ``network``, one for each fold; ``nll_by`` makes the loss of what they return out of
        that of each row.
        """
        y, settings = self.train[1], self.settings
        rows = torch.arange(len(y))
        batch_size, epochs = settings.schedule(len(y), self.likelihood)
        of_members = settings.of_members(self.likelihood, epochs=epochs, batch_size=batch_size, num_rows=len(y))
        results: list[FitResult] = []
        for i, (member, data, held_out) in enumerate(zip(members, train, like.held_out, strict=True)):
            results += fit_stacked(
                [member],
                [data],
                likelihood=nll_by(self.likelihood.nll),
                rows=[rows[~torch.isin(rows, held_out)]],
                held_out=[held_out],
                keep_best=not y.is_floating_point(),
                settings=replace(of_members, seed=settings.seed + i),
            )
        return self.mixed([member.get_submodule("network") for member in members], like)._replace(members=results)

    def mixed(self, members: Sequence[nn.Module], like: EnsembleFit) -> EnsembleFit:
        """Mix trained networks that hold out the same rows as the first members of another fit."""
        count = len(members)
        held_out = like.held_out[:count]
        model, fitted = ensemble_of(members, Rows(*self.train), held_out, self.settings, self.likelihood)
        return EnsembleFit(model, like.members[:count], held_out, *fitted)


def learned(build: Callable[[], nn.Module], strengths: Sequence[float]) -> nn.Module:
    """Build a network with learned rates, with a strength for each layer."""
    network = build()
    for block, strength in zip(dropout_blocks(network), strengths, strict=True):
        block.site.strength = strength
    return network


def fixed(build: Callable[[], nn.Module], rates: Sequence[float]) -> nn.Module:
    """Build a network with a fixed rate in front of each layer."""
    network = build()
    for block, p in zip(dropout_blocks(network), rates, strict=True):
        block.site.start_at(p)
    return fix_dropout(network)


def by_held_out_rows(fits: Sequence[EnsembleFit]) -> int:
    """Find the ensemble with the best held-out log likelihood; one without any never is, unless all are."""
    means = [float(fit.scores.nanmean()) for fit in fits]
    return max(range(len(fits)), key=lambda i: (means[i] == means[i], means[i]))


def chosen(setup: Setup, fits: Mapping[float, EnsembleFit]) -> EnsembleFit:
    """Choose strengths of an ensemble by held-out rows, as `gumdrop.ensembles.fit` does."""
    tried = [fits[strength]._replace(strengths=(strength,)) for strength in EnsembleSettings().strengths_for(0)]
    tried.insert(0, joined(tried, Rows(*setup.train), setup.settings, setup.likelihood))
    strengths = choose_strength({fit.strengths: fit.scores for fit in tried})
    return next(fit for fit in tried if fit.strengths == strengths)
