"""Held-out rows choose the networks of a table."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, EnsembleFit, EnsembleSettings, Rows, choose, choosing, fit, fit_ensembles
from gumdrop.ensembles.architecture import candidates, num_many_valued
from gumdrop.ensembles.correction import members_of_folds
from gumdrop.ensembles.fitting import joined
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.networks import mlp
from gumdrop.training.strength import choose_strength

QUICK = EnsembleSettings(num_members=2, epochs=12, batch_size=32)


def build(num_outputs: int, noise: bool, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return mlp(2, num_outputs, hidden=kind.hidden, homoscedastic_noise=noise,
               activation=kind.activation, encoding=encoding)  # fmt: skip


def of_three(kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return kind.network(3, 1, encoding, homoscedastic_noise=True)


def of_six(kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return kind.network(6, 2, encoding, homoscedastic_noise=False)


NUMBERS, CLASSES = partial(build, 1, True), partial(build, 3, False)


def saw(num_rows: int = 600) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(num_rows, 2, generator=generator) * 2 - 1
    y = (x[:, :1] * 6).frac() + 0.05 * torch.randn(num_rows, 1, generator=generator)
    return Rows(x, (y - y.mean()) / y.std())


def line(num_rows: int = 120) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_rows, 2, generator=generator)
    y = x[:, :1] + torch.randn(num_rows, 1, generator=generator)
    return Rows(x, y / y.std())


def strengths_in(model: nn.Module) -> set[float]:
    return {block.site.strength for block in dropout_blocks(model)}


def test_bins_are_chosen_where_there_is_fine_structure_and_not_for_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(NUMBERS, saw(), QUICK, Gaussian()).bins_per_input == 32
    assert choose(NUMBERS, line(300), EnsembleSettings(epochs=60), Gaussian()).bins_per_input == 0
    monkeypatch.setattr("gumdrop.ensembles.choosing.PILOT_ROWS", 100)
    weights = torch.rand(120, generator=torch.Generator().manual_seed(0)) + 0.5
    assert choose(NUMBERS, replace(line(), weights=weights), QUICK, Gaussian()).hidden == (64, 64)


def test_where_a_longer_pilot_gains_nothing_a_part_of_the_epochs_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EnsembleSettings(num_members=5)
    noisy = choose(NUMBERS, line(300), settings, Gaussian())
    assert (noisy.bins_per_input, noisy.share, noisy.lengthscale) == (0, 0.4, None)
    assert noisy.settings(settings, 300, Gaussian()).epochs == 107
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    curved = Rows(x, (2 * x[:, :1]).sin() * x[:, 1:])
    found = choose(NUMBERS, curved, settings, Gaussian())
    assert (found.share, found.lengthscale) == (1, "faint")
    monkeypatch.setattr(choosing, "PILOT_SHARE", 0.01)
    monkeypatch.setattr(choosing, "LEAST_PILOT_STEPS", 2)
    monkeypatch.setattr(choosing, "mean_and_error", lambda *_: (0.0, 0.0))
    for asked in (replace(settings, epochs=20), replace(settings, patience=9)):
        assert choose(NUMBERS, line(300), asked, Gaussian()).share == 1
    monkeypatch.setattr(choosing, "mean_and_error", lambda *_: (0.0, 0.04))  # which few rows cannot tell
    uncertain = choose(NUMBERS, line(300), settings, Gaussian())
    assert (uncertain.share, uncertain.lengthscale) == (1, None)


def test_bins_are_tried_unless_they_lose_and_the_stronger_prior_where_a_pilot_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[tuple[int, object]] = []
    bars: list[tuple[int, int]] = []
    settings = Architecture.settings

    def seen(kind: Architecture, *args: Any) -> EnsembleSettings:
        tried.append((kind.bins_per_input, kind.lengthscale))
        return settings(kind, *args)

    monkeypatch.setattr(Architecture, "settings", seen)
    monkeypatch.setattr("gumdrop.ensembles.choosing.PILOT_SHARE", 0.01)
    monkeypatch.setattr("gumdrop.ensembles.choosing.LEAST_PILOT_STEPS", 2)
    monkeypatch.setattr("gumdrop.ensembles.choosing.part_of", lambda show, title, *number: bars.append(number))
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    clean = Rows(x, (2 * x[:, :1]).sin() * x[:, 1:])
    steps = Rows(x, (2 * x[:, :1]).round() % 2)
    plain, bins, slow, quick = (0, "faint"), (32, "faint"), (0, None), replace(QUICK, epochs=2)
    for rows, asked, pilots in (
        (clean, quick, [plain, slow]),
        (replace(clean, weights=torch.ones(200)), quick, [plain, bins, slow]),
        (steps, quick, [plain, bins, slow]),
        (replace(steps, x=x.sign()), quick, [plain, slow]),  # two values need no bins
        (clean, EnsembleSettings(num_members=5, batch_size=32), [plain, plain]),  # the second is half as long
        (clean, EnsembleSettings(num_members=4, batch_size=32), [plain, slow]),
        (steps, replace(quick, lengthscale=1.0), [slow, (32, None)]),
    ):
        tried.clear()
        bars.clear()
        choose(NUMBERS, rows, asked, Gaussian())
        assert tried == pilots
        assert bars == [(i, len(pilots)) for i in range(1, len(pilots) + 1)]


def test_classes_that_are_learned_early_train_for_a_part_of_the_epochs() -> None:
    generator, settings = torch.Generator().manual_seed(0), EnsembleSettings(num_members=2)
    x = torch.randn(300, 6, generator=generator)
    coin = torch.randint(2, (300,), generator=generator)
    early = choose(of_six, Rows(x, coin), settings, Categorical())
    assert early.share == 0.6
    assert early.settings(settings, 300, Categorical()).epochs == 64
    assert choose(of_six, Rows(x, coin), replace(settings, patience=9), Categorical()).share == 1
    rings = (3 * x[:, :2].norm(dim=1)).long() % 3
    assert choose(CLASSES, Rows(x[:, :2], rings), settings, Categorical()).share == 1


def test_without_held_out_scores_there_is_no_strength_to_choose() -> None:
    found = fit(NUMBERS, line(), replace(QUICK, epochs=2, input_noise=False), Gaussian())
    assert [len(member.history) for member in found.members] == [2, 2]  # as was asked
    assert found.scores.isnan().all()
    assert found.strengths == (1,)


def test_many_inputs_have_fewer_bins_and_very_many_none() -> None:
    assert [each.bins_per_input for each in candidates(100, Gaussian())] == [0, 5]
    assert [each.bins_per_input for each in candidates(2308, Gaussian())] == [0]
    assert [each.lengthscale for each in candidates(8, Categorical())] == [None, None]
    x = torch.randn(50, 200, generator=torch.Generator().manual_seed(0)).sign()
    x[:, :3] = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    x[:, 7] = 4.0
    assert num_many_valued(x) == 3  # inputs of two values leave the bins to the others
    kind = Architecture((8,), lengthscale="faint", lr_factor=0.5)
    asked = EnsembleSettings(lr=0.1, lengthscale="faint", epochs=176)
    assert kind.settings(EnsembleSettings(lr=0.2), 455, Gaussian()) == asked
    assert kind.settings(EnsembleSettings(lengthscale=1.0), 455, Gaussian()).lengthscale == 1.0
    short = replace(kind, share=0.4)
    assert short.settings(EnsembleSettings(), 455, Gaussian()).epochs == 70
    assert short.settings(EnsembleSettings(epochs=9), 455, Gaussian()).epochs == 9  # as was asked


def test_a_long_table_is_sampled_with_all_that_is_known_of_its_rows() -> None:
    rows = line()
    ids = torch.arange(120)
    known = replace(rows, y=ids, weights=ids.float(), groups=ids // 3)
    assert known.sample(120, seed=0) is known
    some = known.sample(60, seed=0)
    assert len(set(some.y.tolist())) == 60
    assert torch.equal(some.x, rows.x[some.y])
    assert torch.equal(some.weights, some.y.float())
    assert torch.equal(some.groups, some.y // 3)
    assert replace(known, groups=(ids == 7).long()).sample(4, seed=0).groups is None  # all of one group


def test_groups_are_held_out_together_when_networks_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out: list[list[Tensor]] = []

    def seen(*args: Any, **options: Any) -> list[EnsembleFit]:
        fits = fit_ensembles(*args, **options)
        held_out.extend(fit.held_out for fit in fits)
        return fits

    monkeypatch.setattr(choosing, "fit_ensembles", seen)
    together = torch.arange(120) % 24
    choose(NUMBERS, replace(line(), groups=together), QUICK, Gaussian())
    assert len(held_out) > 1
    for rows in (rows for each in held_out for rows in each):
        assert 0 < len(rows) < 120
        assert torch.isin(together, together[rows]).sum() == len(rows)  # all rows of each of their groups


def test_the_ensemble_has_the_strength_that_held_out_rows_prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=generator)
    y = x[:, :1].tanh() + x[:, 1:2] * x[:, 2:3]  # without noise, so that much dropout is wrong
    scores: list[dict[tuple[float, ...], float]] = []

    def seen(given: dict[tuple[float, ...], Tensor], weights: Tensor | None) -> tuple[float, ...]:
        scores.append({strength: each.mean().item() for strength, each in given.items()})
        return choose_strength(given, weights)

    monkeypatch.setattr(choosing, "choose_strength", seen)
    settings = EnsembleSettings(num_members=5, epochs=60, batch_size=32)
    kind = Architecture((32, 32), "silu", lengthscale="faint")
    fitted = fit(of_three, Rows(x, y), settings, Gaussian(), architecture=kind)
    assert list(scores[0]) == [(0.25, 2.0), (0.25,), (2.0,)]
    assert scores[0][2.0,] < scores[0][0.25,] - 0.1
    assert fitted.scores.mean().item() == scores[0][fitted.strengths] == max(scores[0].values())
    assert strengths_in(fitted.model.members) == set(fitted.strengths)


def test_networks_of_all_strengths_are_one_ensemble_over_common_folds() -> None:
    rows, settings = line(), replace(QUICK, num_members=4)
    makes = [partial(NUMBERS, Architecture((4,)), None)] * 2
    fits = fit_ensembles(makes, [rows, rows], settings, Gaussian())
    both = joined([fits[0]._replace(strengths=(0.25,)), fits[1]._replace(strengths=(2.0,))], rows, settings, Gaussian())
    assert [each.tolist() for each in fits[0].held_out] == [each.tolist() for each in fits[1].held_out]
    assert list(both.model.members) == [*fits[0].model.members, *fits[1].model.members]
    assert (both.strengths, len(both.members), len(both.held_out)) == ((0.25, 2.0), 8, 8)
    assert both.scores.nanmean() > min(each.scores.nanmean() for each in fits)


def test_a_strength_that_is_given_is_taken_and_long_tables_take_the_elbo() -> None:
    fitted = fit(NUMBERS, line(), replace(QUICK, strength=2.0), Gaussian())
    assert fitted.strengths == (2,)
    assert strengths_in(fitted.model.members) == {2.0}
    assert EnsembleSettings().strengths_for(100) == (0.25, 2.0)
    assert EnsembleSettings().strengths_for(20_000) == (1.0,)
    with pytest.raises(ValueError, match="`strength` must be positive and finite, got 0"):
        EnsembleSettings(strength=0.0)


def test_members_that_share_a_fold_predict_it_together() -> None:
    folds = [torch.tensor([0, 1]), torch.tensor([2, 3])]
    assert members_of_folds([*folds, *folds, folds[0]]) == [[0, 2], [1, 3]]  # as many of each


def test_inputs_of_two_values_have_no_encoding() -> None:
    rows = Rows(line().x.sign(), line().y)
    fitted = fit(NUMBERS, rows, QUICK, Gaussian(), architecture=Architecture((8,), "silu", 8))
    assert isinstance(fitted.model.members[0][0], nn.Linear)


def test_what_cannot_be_used_is_refused_before_any_pilot() -> None:
    with pytest.raises(ValueError, match="must hold inputs of shape"):
        choose(NUMBERS, Rows(line().x[:, 0], line().y), QUICK, Gaussian())
