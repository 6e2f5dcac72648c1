"""Held-out rows choose the networks of a table."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, EnsembleSettings, Pilot, fit_chosen, fit_one, run_pilots
from gumdrop.ensembles.architecture import candidates
from gumdrop.ensembles.fitting import EnsembleFit
from gumdrop.layers import PiecewiseLinear
from gumdrop.networks import mlp

QUICK = EnsembleSettings(num_members=2, epochs=12, batch_size=32)


def build(num_outputs: int, noise: bool, architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return mlp(2, num_outputs, hidden=architecture.hidden, homoscedastic_noise=noise,
               activation=architecture.activation, encoding=encoding)  # fmt: skip


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
    assert run_pilots(NUMBERS, saw(), QUICK, regression=True).architecture.bins_per_input == 32
    longer = EnsembleSettings(epochs=60)
    assert run_pilots(NUMBERS, line(300), longer, regression=True).architecture.bins_per_input == 0


def test_the_same_seed_chooses_and_trains_the_same() -> None:
    one, other = (fit_chosen(NUMBERS, line(), QUICK, regression=True).model.state_dict() for _ in range(2))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0)


def test_many_inputs_have_fewer_bins_and_very_many_none() -> None:
    assert [each.bins_per_input for each in candidates(200, regression=True)] == [0, 0, 10]
    assert [each.bins_per_input for each in candidates(2308, regression=True)] == [0, 0]
    assert len(candidates(2308, regression=False)) == 1  # classes have one prior


def test_classes_are_chosen_for_too() -> None:
    x, y = saw()
    labels = torch.bucketize(y[:, 0], torch.tensor([-0.5, 0.5]))
    fitted = fit_chosen(CLASSES, (x, labels), QUICK, regression=False)
    assert isinstance(fitted.model.members[0][0], PiecewiseLinear)
    assert fitted.scores.isfinite().all()
    assert len(fitted.scores) == sum(map(len, fitted.held_out))


def test_weights_and_long_tables_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gumdrop.ensembles.architecture.PILOT_ROWS", 100)
    x, y = line()
    pilot = run_pilots(NUMBERS, (x, y), QUICK, regression=True, weights=torch.rand(len(x)) + 0.5)
    assert pilot.scores is None


def test_a_short_training_is_kept_only_if_it_is_better_by_more_than_chance() -> None:
    (fitted,) = [fit_one(NUMBERS, Architecture((8,)), line(), QUICK, regression=True)]
    rows = torch.cat(fitted.held_out).long()
    scores = torch.full((120,), torch.nan)
    noise = torch.randn(len(rows), generator=torch.Generator().manual_seed(1))
    assert not Pilot(Architecture((8,))).is_better_than(fitted)
    for gain, expected in ((0.5, True), (0.0, False), (-0.5, False)):
        scores[rows] = fitted.scores + gain + 0.1 * (noise - noise.mean())
        assert Pilot(Architecture((8,)), 3, scores).is_better_than(fitted) is expected


def test_scores_are_the_held_out_log_likelihood() -> None:
    """A member whose rows are easier to predict says so."""
    x, y = line()
    fitted: EnsembleFit = fit_one(NUMBERS, Architecture((8,)), (x, y), QUICK, regression=True)
    spread = y.std() * 2
    wrong = torch.distributions.Normal(0, spread).log_prob(y[torch.cat(fitted.held_out).long()]).mean()
    assert fitted.scores.mean() > wrong


def test_inputs_of_two_values_have_no_encoding() -> None:
    """So that a file of the model says all that stands in front of its first layer."""
    x, y = line()
    fitted = fit_one(NUMBERS, Architecture((8,), "silu", 8), (x.sign(), y), QUICK, regression=True)
    assert isinstance(fitted.model.members[0][0], nn.Linear)


def test_epochs_that_are_given_and_noise_that_is_constant_are_kept() -> None:
    fitted = fit_chosen(NUMBERS, line(), replace(QUICK, epochs=200, input_noise=False), regression=True)
    assert [len(member.history) for member in fitted.members] == [200, 200]
    assert len(fitted.scores) == 0


def test_what_cannot_be_used_is_refused_before_any_pilot() -> None:
    x, y = line()
    with pytest.raises(ValueError, match="must hold inputs of shape"):
        run_pilots(NUMBERS, (x[:, 0], y), QUICK, regression=True)
