"""Rates for a network that is trained: its weights stay, and held-out rows say what to drop and how sure to be.

References:
    Ledda, Fumera & Roli 2023, "Dropout Injection at Test Time for Post Hoc Uncertainty Quantification in Neural
    Networks" (Information Sciences, arXiv:2302.02924), where one rate is chosen from a grid.
    Guo et al. 2017, "On Calibration of Modern Neural Networks" (arXiv:1706.04599), for the temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import UNIT
from gumdrop.layers.block import NEVER
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import Gaussian, Likelihood, StudentT, likelihood_of
from gumdrop.machine.optimizers import minimise, without_compiler
from gumdrop.machine.threads import limited_threads, threads_for
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.plain_dropout import own_dropout
from gumdrop.prediction.distance import FeatureDistance
from gumdrop.prediction.draws import Output
from gumdrop.prediction.inputs import Inputs
from gumdrop.prediction.twins import twin_of
from gumdrop.training.data import arguments_of, check_data
from gumdrop.training.epochs import mean_rates
from gumdrop.training.frozen import FrozenNetwork, Rows
from gumdrop.training.held_out_distance import place_distance
from gumdrop.training.strength import is_beyond_chance, mixture_log_likelihood

AS_IT_IS, TEMPERATURE, ONE_RATE, EACH_LAYER = "as it is", "temperature", "one rate", "each layer"
GRID = (-5.0, -4.0, -3.0, -2.0, -1.0)
"""Logits that the one rate is chosen from, .007 to .27."""
FOLDS = 4
EXACT = 1e-6
"""Largest residual, in units of the largest target, that rounding leaves of none."""
MOST_ROWS = 512
"""Held-out rows that are looked at: so many tell a gain of .01 nats where draws differ by .2."""
STEPS, LR = 30, 0.3
"""Steps of Adam, and how far the first ones move a logit."""


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
    """Mean log likelihood of the held-out rows, in nats, "as it is" and with each of these; rates are those of other
    rows."""
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

    where all rows share the masks of a draw. One rate for all sites is chosen from a grid, and from there a rate for
    each site is learned by the gradient through relaxed masks, on three quarters of the rows at a time. The rest
    judges: one rate is kept if it gains more on the temperature alone than the standard error of the gain, and a rate
    for each site if it does so on what was kept. Otherwise all rates are 0, and the temperature is left.

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
    _place_sites(model)
    network = FrozenNetwork(twin_of(model), num_samples, batch_size, seed, output)
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
    device = next(model.parameters()).device
    inputs = arguments_of(held_out[0], "held_out")
    rows = Rows(inputs[order].to(device), sent(held_out[1][order], device))
    of_outputs = _with_noise(of_outputs, network, rows)
    with limited_threads(threads_for([model], num_samples * batch_size)):
        logits, scores, kept = _judged(network, rows, of_outputs)
    tempered = _tempered(of_outputs, network.outputs(rows.x, logits), rows.y)
    with torch.no_grad():
        for site, logit in zip(sites_of(model), logits.tolist(), strict=True):
            site.scaled_logit.fill_(logit / UNIT)
    model.eval()
    gains = {name: each - scores[TEMPERATURE] for name, each in scores.items()}
    return FittedRates(
        likelihood=tempered,
        temperature=float(getattr(tempered, "temperature", 1.0)),
        rates=mean_rates(model),
        kept=kept,
        scores={name: each.mean().item() for name, each in scores.items()},
        errors={name: gain.std(correction=0).item() / len(gain) ** 0.5 for name, gain in gains.items()},
        distance=place_distance(model, inputs, num_samples * batch_size, seed),
    )


def _place_sites(model: nn.Module) -> None:
    """Convert a model that is not, where it has dropout of its own or else everywhere, and switch off what is left."""
    if not sites_of(model):
        if any(own_dropout(model, {})):
            learn_dropout(model, include=[], plain_dropout="learn")
        else:
            learn_dropout(model)
    for *_, own in list(own_dropout(model, {})):
        setattr(own.module, own.attribute, 0.0)


def _same(network: FrozenNetwork, logit: float) -> Tensor:
    """One logit for all sites."""
    return torch.full((len(network.sites),), logit)


def _with_noise(likelihood: Likelihood, network: FrozenNetwork, rows: Rows) -> Likelihood:
    """Check means of numbers against the targets, and give a network that returns them alone the noise of residuals."""
    if type(likelihood) not in (Gaussian, StudentT):
        return likelihood
    (output,) = network.outputs(rows.x, _same(network, NEVER))
    y, has_noise = rows.y, likelihood.log_variance is not None  # type: ignore[attr-defined]
    if output.shape != y.shape and (has_noise or output.shape != (*y.shape[:-1], 2 * y.shape[-1])):
        raise ValueError(
            f"the targets in `held_out` have shape {tuple(y.shape)}, and the model returns {tuple(output.shape)}: it "
            "must be means of the shape of the targets, or twice as many, with log variances; (N,) and (N, 1) differ, "
            "see Tensor.unsqueeze"
        )
    residuals = y - output[..., : y.shape[-1]]
    if residuals.abs().max() <= EXACT * y.abs().max():
        raise ValueError(
            "the model is exact on all rows of `held_out`, so that no noise is small enough: it was trained on these "
            "rows, or is given the target; take rows that it has not seen"
        )
    if has_noise or output.shape != y.shape or type(likelihood) is not Gaussian:
        return likelihood
    return replace(likelihood, log_variance=residuals.square().mean(0).clamp(min=1e-12).log())


def _judged(network: FrozenNetwork, rows: Rows, likelihood: Likelihood) -> tuple[Tensor, dict[str, Tensor], str]:
    """Choose one rate and learn one for each site on some folds, let the others score them, and keep what gains."""
    plain = network.outputs(rows.x, _same(network, NEVER))
    scores = {
        AS_IT_IS: _log_likelihood(likelihood, plain, rows.y),
        TEMPERATURE: _log_likelihood(_tempered(likelihood, plain, rows.y), plain, rows.y),
    }
    likelihoods, by_rate = [], []
    for logit in GRID:
        draws = network.outputs(rows.x, _same(network, logit))
        likelihoods.append(_tempered(likelihood, draws, rows.y))
        by_rate.append(_log_likelihood(likelihoods[-1], draws, rows.y))
    one, one_scores, each, each_draws = [], [], [], []
    for fold in (folds := torch.arange(len(rows.y)).tensor_split(FOLDS)):
        others = torch.cat([other for other in folds if other is not fold])
        best = max(range(len(GRID)), key=lambda i: float(by_rate[i][others].mean()))
        one.append(_same(network, GRID[best]))
        one_scores.append(by_rate[best][fold])
        each.append(_learned(network, rows.some(others), likelihoods[best], GRID[best]))
        each_draws.append(network.outputs(rows.some(fold).x, each[-1]))
    scores[ONE_RATE], draws = torch.cat(one_scores), torch.cat(each_draws, dim=1)
    scores[EACH_LAYER] = _log_likelihood(_tempered(likelihood, draws, rows.y), draws, rows.y)
    kept, logits = TEMPERATURE, _same(network, NEVER)
    for name, found in ((ONE_RATE, one), (EACH_LAYER, each)):
        if is_beyond_chance(scores[name] - scores[kept]):
            kept, logits = name, torch.stack(found).mean(0)
    return logits, scores, kept


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
