"""Other ways to a rate: `gumdrop reproduce rates --arms`, at toy size."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from gumdrop import dropout_rates
from gumdrop.ensembles import EnsembleSettings
from gumdrop.layers import SITE, UNIT
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.networks import mlp
from gumdrop_experiments.rates import study as rates
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, fixed, learned
from gumdrop_experiments.rates.responses import Drawing, Drawn, nll_by_draws
from gumdrop_experiments.rates.results import ARM_LABELS, ELBO, GRID, HELD_OUT, LABELS, OFF, gains
from gumdrop_experiments.rates.study import ARMS, Trained, greedy

from builders.reproduced import reproduced


def toy(num_rows: int = 60) -> Setup:
    torch.manual_seed(0)
    x = torch.randn(num_rows, 3)

    def build() -> nn.Module:
        return mlp(3, 1, hidden=[6, 6], homoscedastic_noise=True)

    return Setup(build, (x, x[:, :1].sin()), EnsembleSettings(num_members=4, epochs=2), Gaussian())


def trained(setup: Setup) -> Trained:
    strengths, rates = (0.25, 1.0, 4.0), (ALMOST_NONE, 0.02, 0.5)
    return Trained(
        dict(zip(strengths, setup.fit([lambda s=s: learned(setup.build, [s] * 3) for s in strengths]), strict=True)),
        dict(
            zip((OFF, "0.02", "0.5"), setup.fit([lambda p=p: fixed(setup.build, [p] * 3) for p in rates]), strict=True)
        ),
    )


def with_scores(fits: dict, scores: dict) -> dict:
    """Fits whose held-out rows say something else; a number each, with a spread that is no reason for anything."""
    rows = torch.linspace(-1e-3, 1e-3, 60)
    return {name: fit._replace(scores=rows + scores[name]) for name, fit in fits.items()}


@pytest.mark.slow
def test_every_arm_is_scored_and_drawn(tmp_path, constants) -> None:
    constants(rates, NUM_SAMPLES=10, QUICK_SETS=("diabetes",), QUICK_SPLITS=1, QUICK_EPOCHS=1)
    constants(rates, EnsembleSettings=partial(EnsembleSettings, num_members=3))
    assert list(ARM_LABELS) == list(ARMS)
    found = reproduced("rates", tmp_path / "out", "--quick", "--arms", *ARMS)["arms"]
    assert list(found["mean"]) == [OFF, GRID, ELBO, *ARMS]
    for table in found["tables"].values():
        assert all(math.isfinite(gain) for gain, _ in table["gain"].values())
        assert all(len(each) == 3 for each in table["rates"].values())
    assert (tmp_path / "out" / "rates-arms.png").exists()


def test_a_gain_is_what_is_won_on_the_default() -> None:
    def part(off: float, arm: float) -> dict:
        scores = dict.fromkeys(LABELS, -2.0) | {OFF: off, HELD_OUT: -1.5}
        return {
            "ensemble": {"log_likelihood": scores},
            "arms": {"pool": {"log_likelihood": arm, "chosen": "", "rates": [0.1]}},
        }

    found = gains({"one": [part(-1.0, -1.5), part(-1.4, -1.3)], "other": [part(-2.0, -1.0)]}, ["pool"])
    assert found["tables"]["one"]["gain"][OFF] == pytest.approx((0.3, 0.2))
    assert found["mean"]["pool"] == pytest.approx((0.3, 0.2))
    assert (found["least"][OFF], found["greatest"][OFF]) == pytest.approx((-0.5, 0.3))


def test_strengths_of_layers_stay_unless_held_out_rows_gain() -> None:
    setup = toy()
    every = trained(setup)
    centred = with_scores(every.learned, {0.25: 0.0, 1.0: 0.0, 4.0: 1e9})  # no layer gains on this
    fit, chosen = ARMS["sites"](setup, every._replace(learned=centred))
    assert chosen == "4 4 4"
    assert fit is centred[4.0]
    worst = with_scores(every.learned, {0.25: -1e9, 1.0: -1e9, 4.0: -1e9})  # every layer does
    fit, chosen = ARMS["sites"](setup, every._replace(learned=worst))
    strengths = [layer.get_submodule(SITE).strength for layer in fit.model.members[0] if isinstance(layer, nn.Linear)]
    assert chosen == " ".join(f"{strength:g}" for strength in strengths)
    assert 1.0 not in strengths


def test_a_profile_shares_out_the_rate_that_held_out_rows_choose() -> None:
    setup = toy()
    every = trained(setup)
    fit, chosen = ARMS["front"](setup, every._replace(fixed=with_scores(every.fixed, dict.fromkeys(every.fixed, 1e9))))
    assert chosen == OFF
    assert fit.model is every.fixed[OFF].model
    worst = every._replace(fixed=with_scores(every.fixed, dict.fromkeys(every.fixed, -1e9)))
    for arm, shares in (("front", (4, 2, 1)), ("hidden", (0, 2, 1))):
        fit, chosen = ARMS[arm](setup, worst)
        found = list(dropout_rates(fit.model.members[0]).values())
        of_those = [p for p, share in zip(found, shares, strict=True) if share]
        assert sum(of_those) / len(of_those) == pytest.approx(float(chosen))
        assert found[1] == pytest.approx(2 * found[2])
        assert found[0] == pytest.approx(shares[0] * found[2])


def test_a_mixture_is_filled_with_what_raises_it_most() -> None:
    # Each of two candidates knows half of the rows, a third is better than either by itself.
    log_p = torch.tensor([[0.0, 0.0, -4.0, -4.0], [-4.0, -4.0, 0.0, 0.0], [-1.5, -1.5, -1.5, -1.5]])
    unknown = torch.full((3, 1), torch.nan)
    chosen = greedy(torch.cat([log_p, unknown], dim=1), 9)
    assert chosen[0] == 2
    assert chosen.count(0) == chosen.count(1) == 4


def test_the_pool_takes_another_member_of_its_fits_for_each_place() -> None:
    setup = toy()
    every = trained(setup)
    best = every._replace(
        fixed=with_scores(every.fixed, dict.fromkeys(every.fixed, -9.0) | {"0.5": 0.0}),
        learned=with_scores(every.learned, dict.fromkeys(every.learned, -9.0)),
    )
    fit, chosen = ARMS["pool"](setup, best)
    assert chosen == "4 x 0.5"
    assert list(fit.model.members) == list(every.fixed["0.5"].model.members)
    assert all(map(torch.equal, fit.held_out, every.fixed["0.5"].held_out))


def test_the_gradient_of_rates_by_draws_is_that_of_all_masks() -> None:
    """Two draws of three dropped units: 64 pairs of masks, whose loss is written out."""
    torch.manual_seed(1)
    layer = mlp(3, 1, hidden=[])
    layer[0].weight.data.copy_(torch.tensor([[1.0, -0.5, 0.8]]))
    x, y = torch.tensor([[0.6, -1.0, 0.9]]), torch.tensor([[1.6]])
    site = layer[0].get_submodule(SITE)
    site.start_at(0.1)

    def nll_of(output: Tensor, y: Tensor) -> Tensor:
        return 2 * (output - y).square().sum(-1)

    logit = (UNIT * site.scaled_logit).detach().requires_grad_()
    masks = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
    log_q = (masks * logit - nn.functional.softplus(logit)).sum(1)  # 1 drops
    drawn = x * (1 - masks) * (1 + logit.exp()) @ layer[0].weight.detach().T + layer[0].bias.detach()
    log_p = -nll_of(drawn, y)
    pairs = torch.logaddexp(log_p[:, None], log_p[None]) - math.log(2)
    exact = -((log_q[:, None] + log_q[None]).exp() * pairs).sum()
    (wanted,) = torch.autograd.grad(exact, logit)

    model, rows = Drawing(layer, num_draws=2).train(), 40_000
    loss = nll_by_draws(nll_of)(model(x.expand(rows, 3)), y.expand(rows, 1))
    loss.mean().backward()
    assert UNIT * site.scaled_logit.grad == pytest.approx(wanted.item(), abs=0.005)  # of .217


def test_rates_by_draws_are_learned_for_classes_too() -> None:
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    classes = Setup(lambda: mlp(3, 2, hidden=[6]), (x, (x[:, 0] > 0).long()), EnsembleSettings(epochs=2), Categorical())
    (like,) = classes.fit([classes.build])
    fit, _ = ARMS["draws"](classes, Trained({1.0: like}, {}))
    assert fit.scores.isfinite().all()
    assert len(fit.members) == len(fit.model.members) == 10
    starts = torch.tensor([list(dropout_rates(member).values()) for member in fit.model.members])
    assert (starts != 0.1).all()


def test_weights_learn_from_relaxed_masks_alone() -> None:
    torch.manual_seed(0)
    network = mlp(4, 2, hidden=[5])
    x, y = torch.randn(8, 4), torch.randint(2, (8,))
    found = Drawing(network).train()(x)
    assert isinstance(found, Drawn)
    loss = nll_by_draws(lambda output, y: nn.functional.cross_entropy(output, y, reduction="none"))(found, y).sum()
    plain = nn.functional.cross_entropy(found.output, y, reduction="sum")
    assert loss.item() == pytest.approx(plain.item())
    weights = [network[0].weight, network[2].bias]
    for one, other in zip(
        torch.autograd.grad(loss, weights, retain_graph=True), torch.autograd.grad(plain, weights), strict=True
    ):
        torch.testing.assert_close(one, other)
