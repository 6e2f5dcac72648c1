"""Ensembles: folds, noise that depends on the inputs, mixtures, and what training leaves alone."""

import copy
import math
import statistics
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import predict_classification, predict_regression
from gumdrop.ensembles import (
    ClassificationEnsemble,
    EnsembleFit,
    EnsembleSettings,
    RegressionEnsemble,
    Rows,
    fit_ensembles,
    fitting,
    models,
    schedule,
)
from gumdrop.ensembles import noise as noise_module
from gumdrop.ensembles.correction import settle
from gumdrop.ensembles.folds import folds_of
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.settings import TRIED
from gumdrop.likelihoods import Categorical, ClassificationPrediction, Gaussian, Likelihood, RegressionPrediction
from gumdrop.machine.threads import threads_for
from gumdrop.metrics import central_coverage, interval_coverage
from gumdrop.networks import mlp
from gumdrop.training import TrainingSettings

MAKE = partial(mlp, 2, 1, hidden=[16], homoscedastic_noise=True)
NUMBERS, CLASSES = Gaussian(), partial(mlp, 2, 3, hidden=[32])


def table(seed: int = 0, num_rows: int = 80) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, 2, generator=generator)
    return x, x[:, :1] + 0.3 * torch.randn(num_rows, 1, generator=generator)


TABLE = Rows(*table())


def draws(num_draws: int, num_rows: int, seed: int = 0, num_outputs: int = 1) -> RegressionPrediction:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(num_draws, num_rows, num_outputs, generator=generator)
    variances = 0.1 + torch.rand(num_draws, num_rows, num_outputs, generator=generator)
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), means, variances)


def fitted(
    rows: Rows = TABLE, *, make: Any = MAKE, likelihood: Likelihood = NUMBERS, checkpoint: Any = None, **options: Any
) -> EnsembleFit:
    settings = EnsembleSettings(**{"epochs": 3, "num_members": 3} | options)
    (found,) = fit_ensembles([make], [rows], settings, likelihood, checkpoint=checkpoint)
    return found


@pytest.fixture(scope="module")
def quick() -> EnsembleFit:
    """What `fitted` gives by default; nobody changes it."""
    return fitted()


# Records


def test_a_mixture_has_the_draws_of_all_parts_and_their_moments() -> None:
    parts = [draws(7, 5, seed) for seed in range(3)]
    mixture = RegressionPrediction.mixture(parts)
    means, variances = (torch.cat([getattr(p, name) for p in parts]) for name in ("draw_means", "draw_variances"))
    torch.testing.assert_close(mixture.mean, means.mean(0))
    torch.testing.assert_close(mixture.epistemic, means.var(0, correction=0))
    torch.testing.assert_close(mixture.aleatoric, variances.mean(0))
    torch.testing.assert_close(mixture.components(), (means, variances))
    moments = [RegressionPrediction(p.mean, p.epistemic, p.aleatoric, None, None) for p in parts]
    torch.testing.assert_close(RegressionPrediction.mixture(moments).variance, mixture.variance)
    assert RegressionPrediction.mixture(moments).draw_means is None
    for wrong in ([], [parts[0], moments[0]], [parts[0], draws(3, 5)]):
        with pytest.raises(ValueError, match="`parts` must be predictions with the same number of draws"):
            RegressionPrediction.mixture(wrong)


def test_a_mixture_of_classes_averages_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.softmax(torch.randn(3, 4, 5, generator=generator), dim=2)
    entropy = torch.rand(3, 4, generator=generator)
    parts = [ClassificationPrediction(each.log(), h) for each, h in zip(p, entropy, strict=True)]
    mixture = ClassificationPrediction.mixture(parts)
    torch.testing.assert_close(mixture.probabilities, p.mean(0))
    torch.testing.assert_close(mixture.expected_entropy, entropy.mean(0))
    sure = ClassificationPrediction.from_log_probabilities(torch.tensor([[0.0, -300.0]]))
    torch.testing.assert_close(ClassificationPrediction.mixture([sure, sure]).log_probabilities, sure.log_probabilities)
    with pytest.raises(ValueError, match="`parts` must hold at least one"):
        ClassificationPrediction.mixture([])


# Folds and schedule


@pytest.mark.parametrize(("num_rows", "num_members", "count"), [(200, 5, 10), (60, 5, 6), (12, 3, 2), (4, 5, 2)])
def test_folds_hold_out_each_row_of_a_member_once(num_rows, num_members, count) -> None:
    order = torch.randperm(num_rows)
    folds = folds_of(order, num_members, 10)
    assert len(folds) == num_members
    for rows, held_out in folds:
        assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(num_rows))
        assert abs(len(held_out) - num_rows / count) < 1
    distinct = {tuple(held_out.tolist()) for _, held_out in folds}
    assert len(distinct) == min(num_members, count)


@pytest.mark.parametrize("num_rows", [20, 455, 2048, 2049, 7373, 41157, 10**6])
def test_the_schedule_takes_enough_steps_and_passes(num_rows) -> None:
    batch_size, epochs = schedule(num_rows)
    assert 128 <= batch_size <= 1024
    assert epochs >= 20
    steps = epochs * math.ceil(num_rows / batch_size)
    assert steps > 600
    assert epochs == 20 or steps < 5100
    assert schedule(num_rows, batch_size=7, epochs=3) == (7, 3)
    for_classes = schedule(num_rows, is_density=False)
    assert for_classes[0] == batch_size
    assert for_classes[1] == 20 or for_classes[1] / epochs == pytest.approx(0.4, abs=0.02)
    for likelihood, prior in ((NUMBERS, "weak"), (Categorical(), 1.0)):
        for given, expected in ((None, prior), ("faint", "faint")):
            settings = EnsembleSettings(lengthscale=given).of_members(likelihood, epochs=1, batch_size=8)
            assert settings.lengthscale == expected


@pytest.mark.parametrize(("num_rows", "times"), [(60, 1.0), (455, 4.0), (927, 2.0), (2000, 1.0), (10**6, 1.0)])
def test_fewer_steps_go_further(monkeypatch, num_rows: int, times: float) -> None:
    seen: list[TrainingSettings] = []
    monkeypatch.setattr(fitting, "fit_shared", lambda members, *_, settings, **__: seen.append(settings) or members)
    monkeypatch.setattr(fitting, "ensemble_of", lambda *_, **__: (None, (None, None)))
    batch_size = 16 if num_rows == 60 else None
    x = torch.zeros(num_rows, 1)
    fit_ensembles([MAKE], [Rows(x, x)], EnsembleSettings(num_members=1, epochs=1, batch_size=batch_size), NUMBERS)
    (settings,) = seen
    assert (settings.lr, settings.largest_rate_lr) == pytest.approx((0.01 * times**0.5, 0.01 * times**1.5))
    assert settings.betas[1] == {1.0: 0.999, 2.0: 0.99, 4.0: 0.98}[times]


# The noise function


def unit_noise(num_draws: int, num_rows: int, num_outputs: int = 1) -> RegressionPrediction:
    """Draws that all say a standard normal."""
    zero = torch.zeros(num_draws, num_rows, num_outputs)
    return RegressionPrediction(zero[0], zero[0], zero[0] + 1, zero, zero + 1)


def test_noise_and_tail_of_each_output_are_found() -> None:
    """Of the first output the noise goes with x0, and its log variances are spread by .9."""
    generator = torch.Generator().manual_seed(0)
    x, tail = torch.randn(4000, 2, generator=generator), torch.tensor([0.9, 0.0])
    log_variance = torch.stack([1.6 * x[:, 0], torch.zeros(4000)], dim=1)
    spread = tail * torch.randn(4000, 2, generator=generator) - tail.square() / 2
    y = ((log_variance + spread) / 2).exp() * torch.randn(4000, 2, generator=generator)
    noise, prediction = NoiseFunction(2, 2), unit_noise(50, 4000, 2)
    assert torch.equal(noise(x, prediction.mean), torch.ones(4000, 2))
    noise.fit(x, y, prediction)
    error = noise(x, prediction.mean).log() - log_variance
    assert error[x[:, 0].abs() < 2].abs().mean() < 0.15
    assert noise.weight[1].abs().max() < 0.1
    assert noise.tail[0].item() == pytest.approx(0.9, abs=0.1)
    assert 0 <= noise.tail[1].item() < 0.2
    assert not any(buffer.requires_grad for buffer in noise.buffers())


def test_the_fit_of_the_noise_is_a_maximum() -> None:
    x, y = table(num_rows=40)
    prediction = draws(6, 40)
    noise = NoiseFunction(2, 1)
    noise.fit(x, y, prediction)

    def penalised(each: NoiseFunction) -> float:
        factor = each(x, prediction.mean)
        prior = 25 * each.weight.square().sum() + each.offset.square().sum() / 8
        prior += noise_module.TAIL_PRECISION / 2 * (each.tail.square() + each.bend.square()).sum()
        return (each.with_tail(prediction.scale_noise(factor)).log_prob(y).sum() - prior).item()

    best = penalised(noise)
    for name in ("weight", "offset", "tail"):
        for step in (-0.05, 0.05):
            other = copy.deepcopy(noise)
            value = getattr(other, name)
            for i in range(value.numel()):
                value.view(-1)[i] += step
                assert penalised(other) < best + 1e-4
                value.view(-1)[i] -= step


def test_the_noise_far_outside_is_that_of_three_deviations() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(800, 1, generator=generator)
    y = torch.exp(0.3 * x) * torch.randn(800, 1, generator=generator)
    noise = NoiseFunction(1, 1)
    noise.fit(x, y, unit_noise(1, 800))
    places = x.mean() + x.std(correction=0) * torch.tensor([[-50.0], [-3.0], [-2.0], [2.0], [3.0], [4.0], [50.0]])
    factor = noise(places, torch.zeros(7, 1)).log().squeeze(1)
    expected = torch.tensor([-3.0, -3.0, -2.0, 2.0, 3.0, 3.0, 3.0])
    torch.testing.assert_close(factor - noise.offset, noise.weight[0, 0] * expected, rtol=1e-3, atol=1e-3)
    assert noise.weight[0, 0] == pytest.approx(0.6, abs=0.15)
    torch.testing.assert_close(factor[[0, 6]], factor[[1, 4]], rtol=1e-4, atol=1e-5)


# The tail of the noise


def spread_variances(variances: Tensor, tail: Tensor, bend: Tensor | float = 0.0) -> Tensor:
    """The formula, draw by draw: variances whose logs are spread by the tail, with the mean that they had."""
    count = len(variances)
    order = sorted(range(count), key=lambda s: s * (math.sqrt(5) - 1) / 2 % 1)
    quantile = statistics.NormalDist().inv_cdf
    z = {s: quantile((rank + 0.5) / count) for rank, s in enumerate(order)}
    spread = torch.stack([variances[s] * torch.exp(tail * z[s] + bend * (z[s] ** 2 - 1) / 2) for s in range(count)])
    return spread * variances.mean(0) / spread.mean(0)


def test_a_tail_spreads_the_noise_of_the_draws_and_leaves_the_moments() -> None:
    noise, prediction = NoiseFunction(3, 2), draws(12, 5, num_outputs=2)
    means, before = prediction.components()
    torch.testing.assert_close(noise.with_tail(prediction).components(), (means, before))
    noise.tail, noise.bend = torch.tensor([0.7, 0.2]), torch.tensor([0.4, -0.1])
    found = noise.with_tail(prediction)
    variances = spread_variances(before, noise.tail, noise.bend)
    torch.testing.assert_close(found.components()[1], variances)
    torch.testing.assert_close(found.components()[1].mean(0), prediction.aleatoric)
    for name in ("mean", "epistemic", "aleatoric", "draw_means"):
        assert getattr(found, name) is getattr(prediction, name)
    one = draws(1, 5, num_outputs=2)
    torch.testing.assert_close(noise.with_tail(one).draw_variances, one.draw_variances)
    moments = RegressionPrediction(one.mean, one.epistemic, one.aleatoric, None, None)
    assert noise.with_tail(moments) is moments


@pytest.mark.parametrize(("members", "share"), [(1, 100), (2, 50), (5, 20), (8, 25), (20, 20)])
def test_each_member_has_small_and_large_noise_however_the_draws_are_ordered(members, share) -> None:
    noise = NoiseFunction(1, 1)
    noise.tail = torch.tensor([0.7])
    factors = noise.tail_factors(members * share).flatten()
    assert factors.mean().item() == pytest.approx(1)
    assert len(factors.unique()) == members * share
    for each in (*factors.view(members, share), *factors.view(share, members).T):
        below = (each < factors.median()).float().mean().item()
        assert below == pytest.approx(0.5, abs=0.21)


def test_a_bend_makes_a_tail_that_of_student() -> None:
    """To two thousandths of a nat, where rows show it; a Gaussian has neither."""
    places = (torch.arange(4000) + 0.5) / 4000
    for truth, is_bent in ((stats.t(3.0), True), (stats.norm, False)):
        y, x = torch.from_numpy(truth.ppf(places)).float()[:, None], torch.randn(4000, 1)
        noise = NoiseFunction(1, 1)
        noise.fit(x, y, unit_noise(50, 4000))
        assert (noise.bend.item() > 0.2, noise.tail.item() > 0.5) == (is_bent, is_bent)
        found = noise.with_tail(unit_noise(100, 4000).scale_noise(noise.offset.exp())).log_prob(y).mean().item()
        assert found == pytest.approx(truth.logpdf(y.numpy()).mean(), abs=2e-3)


def test_every_setting_of_the_members_arrives() -> None:
    own = {"lr": 0.3, "lengthscale": 0.2, "patience": 8, "tol": 0.6, "seed": 5}
    found = EnsembleSettings(**own).of_members(NUMBERS, epochs=60, batch_size=9)
    expected = own | {"epochs": 60, "batch_size": 9, "rate_lr": 0.3, "betas": (0.9, 0.999), "held_out_noise": True}
    assert found == TrainingSettings(**expected, validation_samples=4, validate_every=1)
    longer = EnsembleSettings().of_members(Categorical(), epochs=100, batch_size=9)
    assert (longer.validate_every, longer.held_out_noise) == (4, False)
    assert longer.lengthscale == Categorical().watched_lengthscale


def test_what_earlier_states_of_the_noise_lack_is_as_in_a_new_one() -> None:
    new, loaded = NoiseFunction(2, 3), NoiseFunction(2, 3)
    for name, value in loaded.state_dict().items():
        loaded.register_buffer(name, torch.full_like(value, 7.0))
    earliest = ("center", "scale", "weight", "offset")
    loaded.load_state_dict({name: getattr(new, name) for name in earliest})
    assert loaded.state_dict().keys() > set(earliest)
    assert all(torch.equal(value, getattr(new, name)) for name, value in loaded.state_dict().items())


def test_noise_without_a_tail_is_read_from_earlier_states(quick) -> None:
    model, x = copy.deepcopy(quick.model), table()[0]
    state = model.state_dict()
    assert state.pop("noise.tail").item() > 0
    del state["noise.bend"], state["noise.counts"], state["noise.correlation"]
    model.load_state_dict(state)
    mixture = RegressionEnsemble(model.members, NoiseFunction(2, 1)).predict(x, seed=0)
    expected = mixture.scale_noise(model.noise(x, mixture.mean))
    torch.testing.assert_close(model.predict(x, seed=0).draw_variances, expected.draw_variances)


# Ensembles of numbers


def line(slope: float) -> nn.Module:
    """A network whose every draw is the same line, with unit noise."""
    linear = nn.Linear(1, 2, bias=False)
    linear.weight.data.copy_(torch.tensor([[slope], [0.0]]))
    return nn.Sequential(nn.Dropout(1e-9), linear)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slopes", [(0.9, 1.0, 1.2), (-3.0, 1.0, 5.0), (0.9, 1.0, 1.2, 1.1, 0.85, 0.95)])
def test_the_noise_is_less_by_what_it_holds_of_the_spread(slopes: tuple[float, ...], weighted: bool) -> None:
    """By 2 (1/F - 1/M) V, of M members F to a fold and V the variance between them, and by half at most."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(90, 1, generator=generator)
    y = x + 0.5 * torch.randn(90, 1, generator=generator)
    weights = 0.2 + (x.squeeze(1) > 0.5).float() * 5 if weighted else torch.ones(90)
    count, folds = len(slopes), [torch.arange(90)[i::3] for i in range(3)]
    ensemble = RegressionEnsemble([line(slope) for slope in slopes], NoiseFunction(1, 1))
    table = Rows(x, y, weights if weighted else None)
    scores, _ = settle(ensemble, table, [folds[i % 3] for i in range(count)], seed=0)

    rows, slope = torch.cat(folds), torch.tensor(slopes)
    means = torch.cat([slope[i::3].view(-1, 1, 1) * x[part] for i, part in enumerate(folds)], dim=1)
    means = means.repeat_interleave(50, 0)
    ones = torch.ones_like(means)
    outside = RegressionPrediction(means.mean(0), means.var(0, correction=0), ones[0], means, ones)
    twin = NoiseFunction(1, 1)
    twin.fit(x[rows], y[rows], outside, weights[rows])
    factor = twin(x[rows], outside.mean)
    spread = weights @ (x.squeeze(1).square() * slope.var()) / weights.sum()
    excess = 3 / count - 1 / count
    correction = max(0.5, (1 - 2 * excess * spread / (weights[rows] @ factor / weights.sum())).item())
    assert correction == 0.5 if slopes[0] < 0 else 0.6 < correction < 0.95
    torch.testing.assert_close(ensemble.noise.weight, twin.weight, rtol=0.0, atol=5e-3)
    torch.testing.assert_close(ensemble.noise.offset, twin.offset + math.log(correction), rtol=0.0, atol=5e-3)
    expected = twin.with_tail(outside.scale_noise(factor)).log_prob(y[rows])
    torch.testing.assert_close(scores[rows], expected, rtol=0.0, atol=2e-2)


def test_the_prediction_is_the_mixture_of_the_members_with_the_noise_of_the_rows(quick) -> None:
    model, x = quick.model, table()[0]
    prediction = model.predict(x, num_samples=30, seed=4)
    seeds = models.member_seeds(4, 3)
    assert len(set(seeds)) == 3
    parts = [predict_regression(m, x, num_samples=10, seed=s) for m, s in zip(model.members, seeds, strict=True)]
    mixture = RegressionPrediction.mixture(parts)
    torch.testing.assert_close(prediction.mean, mixture.mean)
    torch.testing.assert_close(prediction.epistemic, mixture.epistemic)
    noise = model.noise
    variances = spread_variances(mixture.draw_variances, noise.tail, noise.bend) * noise(x, mixture.mean)
    torch.testing.assert_close(prediction.draw_variances, variances)
    assert len(prediction.draw_means) == 30
    assert len(model.predict(x, num_samples=31, seed=4).draw_means) == 33


def test_versions_of_the_inputs_are_predicted_by_the_members_in_turn() -> None:
    members = [MAKE().eval() for _ in range(2)]
    ensemble = RegressionEnsemble(members, NoiseFunction(2, 1))
    ensemble.noise.weight, ensemble.noise.tail = torch.tensor([[0.3, -0.2, 0.1, 0.0]]), torch.tensor([0.6])
    versions = [table(seed)[0][:6] for seed in range(4)]
    found = ensemble.predict_imputations(iter(versions), num_samples=4, seed=7)
    seeds = models.member_seeds(7, 4)
    parts = [predict_regression(members[i % 2], x, num_samples=1, seed=seeds[i]) for i, x in enumerate(versions)]
    torch.testing.assert_close(found.draw_means, torch.cat([part.components()[0] for part in parts]))
    torch.testing.assert_close(found.epistemic, found.draw_means.var(0, correction=0))
    noise = [part.aleatoric * ensemble.noise(x, part.mean) for x, part in zip(versions, parts, strict=True)]
    torch.testing.assert_close(found.aleatoric, torch.stack(noise).mean(0))
    torch.testing.assert_close(found.draw_variances, spread_variances(torch.stack(noise), ensemble.noise.tail))
    classes = ClassificationEnsemble([mlp(2, 3, hidden=[8]).eval() for _ in range(2)])
    found = classes.predict_imputations(versions, num_samples=4, seed=7)
    of_each = [
        predict_classification(classes.members[i % 2], x, num_samples=1, seed=seeds[i]) for i, x in enumerate(versions)
    ]
    torch.testing.assert_close(found.probabilities, torch.stack([each.probabilities for each in of_each]).mean(0))
    assert (found.mutual_information > 0).all()
    with pytest.raises(ValueError, match="argument"):
        ensemble.predict_imputations(versions, num_samples=5)


def test_the_same_seed_gives_the_same_ensemble_and_leaves_the_random_state(quick, tmp_path) -> None:
    x, path = table()[0], tmp_path / "members.pt"
    before, expected = torch.get_rng_state(), quick.model.predict(x, seed=0)
    for again in (fitted(), fitted(checkpoint=path), fitted(checkpoint=path)):
        found = again.model.predict(x, seed=0)
        assert torch.equal(found.draw_means, expected.draw_means)
        assert torch.equal(found.draw_variances, expected.draw_variances)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(fitted(seed=2).model.predict(x, seed=0).mean, expected.mean)
    assert not torch.equal(quick.model.predict(x, seed=1).mean, expected.mean)


def test_numbers_end_with_the_last_epoch_unless_they_may_stop_early(quick) -> None:
    assert [(each.best_epoch, each.history[-1].validation_nll) for each in quick.members] == [(3, None)] * 3
    for each in fitted(patience=2).members:
        scores = [record.validation_nll for record in each.history]
        assert scores[each.best_epoch - 1] == min(scores)


def test_several_tables_train_as_one_program_and_do_not_mix() -> None:
    x, y = table()
    settings = EnsembleSettings(num_members=2, epochs=40)
    for found, sign in zip(
        fit_ensembles([MAKE] * 2, [Rows(x, y), Rows(x, -y)], settings, NUMBERS), (1, -1), strict=True
    ):
        pair = torch.stack([found.model.predict(x).mean[:, 0], sign * y[:, 0]])
        assert torch.corrcoef(pair)[0, 1] > 0.9
        assert len(found.members) == 2


def test_intervals_hold_on_noise_that_depends_on_the_input() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(1200, 2, generator=generator) * 4 - 2
    std = 0.3 * torch.exp(0.6 * x[:, :1])
    y = torch.sin(x[:, :1]) + std * torch.randn(1200, 1, generator=generator)
    prediction = fitted(Rows(x[:400], y[:400]), num_members=5, epochs=100).model.predict(x[400:], seed=0)
    assert central_coverage(prediction, y[400:], torch.tensor([0.9])).item() == pytest.approx(0.9, abs=0.04)
    lower, upper = prediction.interval(0.9)
    noisy = x[400:, 0] > 0
    for half in (noisy, ~noisy):
        assert interval_coverage(lower[half], upper[half], y[400:][half]).item() == pytest.approx(0.9, abs=0.07)
    assert prediction.aleatoric[noisy].mean() > 3 * prediction.aleatoric[~noisy].mean()


def test_one_member_other_folds_and_constant_noise() -> None:
    assert [len(each) for each in fitted(num_members=2, epochs=1, held_out_fraction=0.25).held_out] == [20] * 2
    x, y = table()
    assert fitted(num_members=1).model.noise.weight.abs().max() > 0
    plain = fitted(input_noise=False)
    assert torch.equal(plain.model.noise(x, y), torch.ones_like(y))
    assert plain.scores.isnan().all()


# Ensembles of classes


def test_classes_are_learned_and_each_member_keeps_its_best_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(240, 2, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    fit = fitted(Rows(x[:200], y[:200]), make=CLASSES, likelihood=Categorical(), num_members=None, epochs=60)
    assert isinstance(fit.model, ClassificationEnsemble)
    prediction = fit.model.predict(x[200:], seed=0)
    assert (prediction.label == y[200:]).float().mean() > 0.85
    assert prediction.log_prob(y[200:]).mean() > -0.5
    for member in fit.members:
        scores = [record.validation_nll for record in member.history if record.validation_nll is not None]
        assert member.history[member.best_epoch - 1].validation_nll == min(scores)
        assert len(scores) == 30  # every second of 60 epochs
    assert torch.equal(prediction.probabilities, fit.model.predict(x[200:], seed=0).probabilities)
    assert not torch.equal(prediction.probabilities, fit.model.predict(x[200:], seed=1).probabilities)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_members": 0}, "`num_members` must be at least 1, got 0"),
        ({"held_out_fraction": 0.6}, "`held_out_fraction` must be above 0 and at most 1/2, got 0.6"),
        ({"lr": 0.0}, "`lr` must be positive"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"rows": Rows(*table(num_rows=3))}, "at least 4 rows"),
        ({"rows": Rows(TABLE.x, TABLE.y[:, 0])}, r"targets of shape \(N, D\), got \(80, 2\) and \(80,\)"),
        ({"rows": Rows(TABLE.y.log().expand(80, 2), TABLE.y)}, "the inputs in `rows` hold .* that are NaN"),
        ({"rows": Rows(TABLE.x, torch.zeros(3).long()), "likelihood": Categorical()}, "as many inputs as targets"),
        ({"make": lambda: gd.learn_dropout(nn.Linear(2, 2))}, "with one `gumdrop"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitted(**options)


# Weights of rows


def test_a_weight_in_the_noise_stands_for_equal_rows() -> None:
    x, y = table(num_rows=40)
    counts = torch.arange(40) % 4 + 1
    prediction = draws(6, 40)
    weighted, repeated = NoiseFunction(2, 1), NoiseFunction(2, 1)
    weighted.fit(x, y, prediction, counts.float())
    rows = torch.arange(40).repeat_interleave(counts)
    kept = (getattr(prediction, name)[:, rows] for name in ("draw_means", "draw_variances"))
    moments = (getattr(prediction, name)[rows] for name in ("mean", "epistemic", "aleatoric"))
    repeated.fit(x[rows], y[rows], RegressionPrediction(*moments, *kept))
    for name, value in weighted.state_dict().items():
        torch.testing.assert_close(value, repeated.state_dict()[name], rtol=0.03, atol=2e-3)
    assert weighted.weight.abs().max() > 0.01


def test_small_networks_train_on_one_thread_and_the_number_of_threads_is_left_alone(monkeypatch) -> None:
    networks = [mlp(8, 1, hidden=[64, 64])] * (10 * len(TRIED))  # those of all strengths take steps together
    assert [threads_for(networks, schedule(rows)[0]) for rows in (100, 2000, 8192, 10**6)] == [1, 1, 1, None]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    fitted(epochs=1)
    monkeypatch.setattr("gumdrop.machine.threads.SMALL_STEP", 0)
    fitted(epochs=1)
    assert asked == [1, 3, 3, 3]
