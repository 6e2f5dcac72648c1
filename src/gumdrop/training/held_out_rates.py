"""Rates for a network that is trained: its weights stay, and held-out rows say what to drop and how sure to be.

References:
    Ledda, Fumera & Roli 2023, "Dropout Injection at Test Time for Post Hoc Uncertainty Quantification in Neural
    Networks" (Information Sciences, arXiv:2302.02924), where one rate is chosen from a grid.
    Guo et al. 2017, "On Calibration of Modern Neural Networks" (arXiv:1706.04599), for the temperature.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import UNIT
from gumdrop.layers.block import NEVER
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import Likelihood, likelihood_of
from gumdrop.machine.optimizers import minimise, without_compiler
from gumdrop.machine.threads import limited_threads, threads_for
from gumdrop.prediction.distance import FeatureDistance
from gumdrop.prediction.draws import Output
from gumdrop.prediction.inputs import Inputs
from gumdrop.prediction.twins import twin_of
from gumdrop.training.data import arguments_of, check_data
from gumdrop.training.epochs import mean_rates
from gumdrop.training.frozen import FrozenNetwork, Rows, place_sites, with_noise
from gumdrop.training.held_out_distance import place_distance
from gumdrop.training.strength import is_beyond_chance, mean_and_error, mixture_log_likelihood

AS_IT_IS, TEMPERATURE, ONE_RATE, EACH_LAYER = "as it is", "temperature", "one rate", "each layer"
GRID = (-5.0, -4.0, -3.0, -2.0, -1.0)
"""Logits that the one rate is chosen from, .007 to .27."""
FOLDS = 4
MOST_ROWS = 512
"""Held-out rows that are looked at: so many tell a gain of .01 nats where draws differ by .2."""
FIRST_ROWS = 128
"""Rows of a first look at the grid, with half of the draws; what cannot gain there is not looked at on all rows."""
FINALISTS = 3
"""Rates that are looked at on all rows, at most."""
WORTH = 0.002
"""Nats of a gain that is worth a second look, or rates for each layer."""
STEPS, LR = 30, 0.3
"""Steps of Adam, and how far the first ones move a logit."""

Start = tuple[Likelihood, float]
"""The likelihood of one rate, with its temperature, and the logit of the rate."""
Gains = dict[str, Tensor]
"""What each way gains on the temperature alone, of rows, (N,)."""


@dataclass(frozen=True)
class FittedRates:
    """What `fit_rates` found."""

    likelihood: Likelihood
    """What to predict with: that of the network, with the temperature."""
    temperature: float
    """What divides the logits of classes, or multiplies the variance of the noise."""
    rates: dict[str, float]
    """Drop probability of each site; 0 where dropout gained nothing beyond chance."""
    kept: str
    """What is kept: "temperature" alone, "one rate" or "each layer"."""
    scores: dict[str, float]
    """Mean log likelihood of the held-out rows, in nats, "as it is" and with each of these that was tried; rates are
    those of other rows. What was given up early has the gain of the rows that were looked at."""
    errors: dict[str, float]
    """Standard error of the gain of each on the temperature alone."""
    distance: FeatureDistance | None
    """What says which rows are unlike the held-out ones, see `fit_distance`; None if no layer reads rows one by one."""


def fit_rates(
    model: nn.Module,
    held_out: tuple[Inputs, Tensor],
    *,
    likelihood: str | Likelihood | Callable[[Tensor, Tensor], Tensor],
    num_samples: int = 32,
    batch_size: int = 32,
    seed: int = 0,
    output: Output = None,
) -> FittedRates:
    r"""Give a trained network dropout rates and a temperature, in place; its weights stay as they are.

    The rates p and the temperature T are those with the largest likelihood of rows that the network has not seen,
    under the mixture that predicts them,

    .. math:: \sum_i \log \frac1S \sum_s p\big(y_i \mid f(x_i; z_s(p)), T\big)

    where all rows share the masks of a draw. One rate for all sites is chosen from a grid, on three quarters of the
    rows at a time, after a first look at few rows that leaves out what cannot gain .002 nats. The rest judges: one rate
    is kept if it gains more on the temperature alone than the standard error of the gain. If that is .002 nats or more,
    a rate for each site is learned from there, by the gradient through relaxed masks, and kept if it gains on one rate
    as one rate must on none. Otherwise all rates are 0, and the temperature is left.

    Rates do not tell rows that are far from the data. So the model learns a distance, too (`fit_distance`), and its
    predictions have an `outlier_p_value`.

    Args:
        model: A trained model. One without learned dropout is converted by `gumdrop.learn_dropout`: where it has
            dropout of its own, or else in front of all layers; convert it first to choose others. Dropout that is left
            beside learned rates is set to 0.
        held_out: Inputs and targets that the model was not trained on, as for `gumdrop.training.fit`; a random 512 of
            them if there are more.
        likelihood: As for `gumdrop.training.fit`. A ``"gaussian"`` network may return the mean alone, as after training
            on squared errors: then its noise is that of the held-out residuals. Only Gaussian noise and classes have a
            temperature.
        num_samples: Draws of a step, S.
        batch_size: Rows of a step; memory grows with its product with ``num_samples``.
        seed: Same seed, same rates.
        output: Takes the output tensor out of what the model returns.

    Returns:
        The rates, the temperature, what they are worth, the distance, and the likelihood to predict with, as in
        ``gumdrop.predict(model, x, fitted.likelihood)``.

    Raises:
        ValueError: If rows do not match, are fewer than 8 or not finite, a number is less than 1, or nothing in the
            model can be dropped.

    Example:
        >>> import gumdrop as gd
        >>> x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
        >>> network = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))  # and its training
        >>> fitted = fit_rates(network, (x, x[:, :1]), likelihood="gaussian")
        >>> gd.predict(network, x, fitted.likelihood, seed=0).epistemic.shape
        torch.Size([60, 1])
    """
    of_outputs = likelihood_of(likelihood)
    num_rows = check_data(held_out, "held_out", of_outputs)
    if min(num_samples, batch_size) < 1 or num_rows < 2 * FOLDS:
        raise ValueError(
            f"`num_samples` and `batch_size` must be at least 1, and `held_out` must have at least {2 * FOLDS} rows, "
            f"got {num_samples}, {batch_size} and {num_rows}"
        )
    place_sites(model)
    network = FrozenNetwork(twin_of(model), num_samples, batch_size, seed, output)
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
    device = next(model.parameters()).device
    inputs = arguments_of(held_out[0], "held_out")
    rows = Rows(inputs[order].to(device), sent(held_out[1][order], device))
    of_outputs = with_noise(of_outputs, network, rows)
    with limited_threads(threads_for([model], num_samples * batch_size)):
        logits, base, gains, kept = _judged(network, rows, of_outputs)
    tempered = _tempered(of_outputs, network.outputs(rows.x, logits), rows.y)
    with torch.no_grad():
        for site, logit in zip(sites_of(model), logits.tolist(), strict=True):
            site.scaled_logit.fill_(logit / UNIT)
    model.eval()
    return FittedRates(
        likelihood=tempered,
        temperature=float(getattr(tempered, "temperature", 1.0)),
        rates=mean_rates(model),
        kept=kept,
        scores={name: (base.mean() + gain.mean()).item() for name, gain in gains.items()},
        errors={name: gain.std(correction=0).item() / len(gain) ** 0.5 for name, gain in gains.items()},
        distance=place_distance(model, inputs, num_samples * batch_size, seed),
    )


def _same(network: FrozenNetwork, logit: float) -> Tensor:
    """One logit for all sites."""
    return torch.full((len(network.sites),), logit)


def _judged(network: FrozenNetwork, rows: Rows, likelihood: Likelihood) -> tuple[Tensor, Tensor, Gains, str]:
    """Choose one rate, and where it gains, learn one for each site; give logits, what rows say without, and gains."""
    plain = network.outputs(rows.x, _same(network, NEVER))
    base = _log_likelihood(_tempered(likelihood, plain, rows.y), plain, rows.y)
    gains = {AS_IT_IS: _log_likelihood(likelihood, plain, rows.y) - base, TEMPERATURE: torch.zeros_like(base)}
    folds = torch.arange(len(rows.y)).tensor_split(FOLDS)
    one, gains[ONE_RATE] = _one_rate(network, rows, likelihood, base, folds)
    if not one or not is_beyond_chance(gains[ONE_RATE]):
        return _same(network, NEVER), base, gains, TEMPERATURE
    keep_one = _same(network, sum(logit for _, logit in one) / FOLDS), base, gains, ONE_RATE
    if gains[ONE_RATE].mean() < WORTH:
        return keep_one
    each, gains[EACH_LAYER] = _each_layer(network, rows, one, base, folds, gains[ONE_RATE])
    if len(each) == FOLDS and is_beyond_chance(gains[EACH_LAYER] - gains[ONE_RATE]):
        return torch.stack(each).mean(0), base, gains, EACH_LAYER
    return keep_one


def _one_rate(
    network: FrozenNetwork, rows: Rows, likelihood: Likelihood, base: Tensor, folds: Sequence[Tensor]
) -> tuple[list[Start], Tensor]:
    """Choose one rate for each fold by the others, and say what it gains there; none where a first look sees no use."""

    def of(rows: Rows, logit: float, share: int) -> tuple[Likelihood, Tensor]:
        draws = network.outputs(rows.x, _same(network, logit), share=share)
        tempered = _tempered(likelihood, draws, rows.y)
        return tempered, _log_likelihood(tempered, draws, rows.y) - base[: len(rows.y)]

    first = rows.some(torch.arange(min(FIRST_ROWS, len(rows.y))))
    looks = {logit: of(first, logit, share=2)[1] for logit in GRID}
    ordered = sorted(looks, key=lambda logit: -float(looks[logit].mean()))
    best = looks[ordered[0]]
    found = {
        logit: of(rows, logit, share=1)
        for logit in ordered[:FINALISTS]
        if not (_is_behind(looks[logit] - WORTH) or _is_behind(looks[logit] - best))
    }
    if not found:
        return [], best
    chosen, gains = [], []
    for fold in folds:
        others = [other for other in folds if other is not fold]
        logit = max(found, key=lambda logit: float(found[logit][1][torch.cat(others)].mean()))
        chosen.append((found[logit][0], logit))
        gains.append(found[logit][1][fold])
    return chosen, torch.cat(gains)


def _each_layer(
    network: FrozenNetwork, rows: Rows, one: Sequence[Start], base: Tensor, folds: Sequence[Tensor], of_one: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Learn a rate for each site on all folds but one, until those that are scored lose by more than chance."""
    logits: list[Tensor] = []
    draws: list[Tensor] = []
    for fold, (likelihood, start) in zip(folds, one, strict=True):
        others = torch.cat([other for other in folds if other is not fold])
        logits.append(_learned(network, rows.some(others), likelihood, start))
        draws.append(network.outputs(rows.some(fold).x, logits[-1]))
        scored = torch.cat(list(folds[: len(logits)]))
        seen, y = torch.cat(draws, dim=1), rows.some(scored).y
        gains = _log_likelihood(_tempered(likelihood, seen, y), seen, y) - base[scored]
        if is_beyond_chance(of_one[scored] - gains):
            break
    return logits, gains


def _is_behind(gain: Tensor) -> bool:
    """Tell whether gains of rows, (N,), are below 0 by more than twice their standard error."""
    mean, error = mean_and_error(gain)
    return mean < -2 * error


def _learned(network: FrozenNetwork, rows: Rows, likelihood: Likelihood, start: float) -> Tensor:
    """Learn a logit for each site, and a temperature with them, by Adam on the likelihood of relaxed draws."""
    generator = torch.Generator().manual_seed(network.seed)
    noise = [uniform_noise((network.num_samples, site.num_units), generator=generator) for site in network.sites]
    order = torch.randperm(len(rows.y), generator=generator)
    size = min(network.batch_size, len(order))
    logits = _same(network, max(start, -3.0)).requires_grad_()  # masks that drop next to nothing have no gradient
    log_t = torch.tensor(float(getattr(likelihood, "temperature", 1.0))).log().requires_grad_()
    groups = [{"params": [logits], "lr": LR}, {"params": [log_t], "lr": LR / 3}]
    optimizer = without_compiler(torch.optim.Adam)(groups, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        x, y = rows.some(order[(step * size + torch.arange(size)) % len(order)])
        factors = [sent(dropout_scale(a, u), y.device) for a, u in zip(logits, noise, strict=True)]
        of_draws = likelihood.tempered(log_t.exp())
        loss = -mixture_log_likelihood(of_draws, network.relaxed(x, factors), y).mean()
        logits.grad, log_t.grad = torch.autograd.grad(loss, [logits, log_t], materialize_grads=True)
        optimizer.step()
        schedule.step()
    return logits.detach()


@torch.no_grad()
def _log_likelihood(likelihood: Likelihood, draws: Tensor, y: Tensor) -> Tensor:
    return mixture_log_likelihood(likelihood, draws, y).cpu()


def _tempered(likelihood: Likelihood, draws: Tensor, y: Tensor) -> Likelihood:
    """Give a likelihood the temperature under which rows are most likely, with a prior of one row around 1."""
    if likelihood.tempered(1.0) is likelihood:
        return likelihood
    log_t = torch.zeros((), device=draws.device)

    def loss() -> Tensor:
        of_draws = likelihood.tempered(log_t.exp())
        return -mixture_log_likelihood(of_draws, draws, y).mean() + log_t.square() / (2 * len(y))

    minimise(loss, [log_t], max_iter=30)
    return likelihood.tempered(log_t.exp().item())
