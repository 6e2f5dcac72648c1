"""Held-out rows choose the networks of a table."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, EnsembleSettings, choose_architecture, choosing, fit_chosen, fit_one
from gumdrop.ensembles.architecture import candidates, num_many_valued
from gumdrop.ensembles.correction import by_row, members_of_folds
from gumdrop.ensembles.fitting import EnsembleFit
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.networks import mlp
from gumdrop.training import choose_strength

QUICK = EnsembleSettings(num_members=2, epochs=12, batch_size=32)


def build(num_outputs: int, noise: bool, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return mlp(2, num_outputs, hidden=kind.hidden, homoscedastic_noise=noise,
               activation=kind.activation, encoding=encoding)  # fmt: skip


def of_three(kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return kind.network(3, 1, encoding, homoscedastic_noise=True)


NUMBERS, CLASSES = partial(build, 1, True), partial(build, 3, False)


def saw(num_rows: int = 600) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(num_rows, 2, generator=generator) * 2 - 1
    y = (x[:, :1] * 6).frac() + 0.05 * torch.randn(num_rows, 1, generator=generator)
    return x, (y - y.mean()) / y.std()


def line(num_rows: int = 120) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_rows, 2, generator=generator)
    y = x[:, :1] + torch.randn(num_rows, 1, generator=generator)
    return x, y / y.std()


def test_bins_are_chosen_where_there_is_fine_structure_and_not_for_a_line() -> None:
    assert choose_architecture(NUMBERS, saw(), QUICK, regression=True).bins_per_input == 32
    longer = EnsembleSettings(epochs=60)
    assert choose_architecture(NUMBERS, line(300), longer, regression=True).bins_per_input == 0


def test_the_same_seed_chooses_and_trains_the_same() -> None:
    one, other = (fit_chosen(NUMBERS, line(), QUICK, regression=True).model.state_dict() for _ in range(2))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0)


def test_many_inputs_have_fewer_bins_and_very_many_none() -> None:
    assert [each.bins_per_input for each in candidates(100, regression=True)] == [0, 0, 5]
    assert [each.bins_per_input for each in candidates(2308, regression=True)] == [0, 0]
    assert len(candidates(2308, regression=False)) == 1  # classes have one prior


def test_inputs_of_two_values_leave_the_bins_to_the_others() -> None:
    x = torch.randn(50, 200, generator=torch.Generator().manual_seed(0)).sign()
    x[:, :3] = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    x[:, 7] = 4.0
    assert num_many_valued(x) == 3


def test_classes_are_chosen_for_too() -> None:
    x, y = saw()
    labels = torch.bucketize(y[:, 0], torch.tensor([-0.5, 0.5]))
    fitted = fit_chosen(CLASSES, (x, labels), QUICK, regression=False)
    assert isinstance(fitted.model.members[0][0], PiecewiseLinear)
    assert len(fitted.scores) == len(x)
    assert fitted.scores.isfinite().sum() == sum(map(len, fitted.held_out))


def test_weights_and_long_tables_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gumdrop.ensembles.choosing.PILOT_ROWS", 100)
    x, y = line()
    weights = torch.rand(len(x), generator=torch.Generator().manual_seed(0)) + 0.5
    assert choose_architecture(NUMBERS, (x, y), QUICK, regression=True, weights=weights).hidden == (64, 64)


def test_the_ensemble_has_the_strength_that_held_out_rows_prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=generator)
    y = x[:, :1].tanh() + x[:, 1:2] * x[:, 2:3]  # without noise, so that much dropout is wrong
    scores: list[dict[float, float]] = []

    def seen(given: dict[float, Tensor], weights: Tensor | None) -> float:
        scores.append({strength: each.mean().item() for strength, each in given.items()})
        return choose_strength(given, weights)

    monkeypatch.setattr(choosing, "choose_strength", seen)
    settings = EnsembleSettings(num_members=5, epochs=60, batch_size=32)
    fitted = fit_one(of_three, Architecture((32, 32), "silu", lengthscale="faint"), (x, y), settings, regression=True)
    assert list(scores[0]) == [0.25, 1.0, 4.0]
    assert scores[0][4.0] < scores[0][1.0] - 0.2
    assert fitted.scores.mean().item() == scores[0][fitted.strength]
    assert {block.site.strength for model in fitted.model.members for block in dropout_blocks(model)} == {
        fitted.strength
    }


def test_a_strength_that_is_given_is_taken_and_long_tables_take_the_elbo() -> None:
    fitted = fit_chosen(NUMBERS, line(), replace(QUICK, strength=2.0), regression=True)
    assert fitted.strength == 2
    assert {block.site.strength for model in fitted.model.members for block in dropout_blocks(model)} == {2.0}
    assert EnsembleSettings().strengths_for(100) == (0.25, 1.0, 4.0)
    assert EnsembleSettings().strengths_for(20_000) == (1.0,)
    with pytest.raises(ValueError, match="`strength` must be positive and finite, got 0"):
        EnsembleSettings(strength=0.0)


def test_scores_are_the_held_out_log_likelihood() -> None:
    x, y = line()
    fitted: EnsembleFit = fit_one(NUMBERS, Architecture((8,)), (x, y), QUICK, regression=True)
    spread = y.std() * 2
    assert fitted.scores.shape == (len(x),)
    assert fitted.scores.nanmean() > torch.distributions.Normal(0, spread).log_prob(y).mean()


def test_members_that_share_a_fold_predict_it_together() -> None:
    folds = [
        torch.tensor([0, 1]),
        torch.tensor([2, 3]),
        torch.tensor([0, 1]),
        torch.tensor([2, 3]),
        torch.tensor([0, 1]),
    ]
    assert members_of_folds(folds) == [[0, 2], [1, 3]]  # as many of each
    scores = by_row(5, folds, torch.arange(4.0))
    torch.testing.assert_close(scores, torch.tensor([0.0, 1, 2, 3, torch.nan]), equal_nan=True)


def test_inputs_of_two_values_have_no_encoding() -> None:
    """So that a file of the model says all that stands in front of its first layer."""
    x, y = line()
    fitted = fit_one(NUMBERS, Architecture((8,), "silu", 8), (x.sign(), y), QUICK, regression=True)
    assert isinstance(fitted.model.members[0][0], nn.Linear)


def test_epochs_that_are_given_and_noise_that_is_constant_are_kept() -> None:
    fitted = fit_chosen(NUMBERS, line(), replace(QUICK, epochs=200, input_noise=False), regression=True)
    assert [len(member.history) for member in fitted.members] == [200, 200]
    assert fitted.scores.isnan().all()
    assert fitted.strength == 1  # there is nothing to choose by


def test_what_cannot_be_used_is_refused_before_any_pilot() -> None:
    x, y = line()
    with pytest.raises(ValueError, match="must hold inputs of shape"):
        choose_architecture(NUMBERS, (x[:, 0], y), QUICK, regression=True)
