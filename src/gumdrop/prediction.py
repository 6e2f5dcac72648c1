"""Monte-Carlo prediction: draw functions from the dropout posterior and average what they say.

One mask per draw is shared by all rows: a draw is one function, so predictions depend neither on the order of
the rows nor on how they are split into batches. Masks are Bernoulli draws; the relaxed ones are for training.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (ICML 2016, arXiv:1506.02142).
    Kendall & Gal 2017, "What Uncertainties Do We Need" (arXiv:1703.04977).
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional import split_gaussian, uniform_noise
from gumdrop.layers import ConcreteDropout

__all__ = [
    "ClassificationPrediction",
    "RegressionPrediction",
    "draw",
    "predict_classification",
    "predict_regression",
    "sample",
    "sampling",
]

Model = TypeVar("Model", bound=nn.Module)
Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]


class _MaskNoise:
    """Noise for the dropout of a model, from one generator for each site, so that sites do not interleave."""

    def __init__(self, sites: list[nn.Module], seed: int | None, *, shared: bool, pinned: bool) -> None:
        master = torch.Generator()
        self.seed = master.seed() if seed is None else seed
        master.manual_seed(self.seed)
        seeds = torch.randint(2**62, (len(sites),), generator=master).tolist()
        self._generators = {id(site): torch.Generator().manual_seed(s) for site, s in zip(sites, seeds, strict=True)}
        self._shared = shared
        self._pinned: dict[tuple[int, tuple[int, ...]], Tensor] | None = {} if pinned else None

    def renew(self) -> None:
        """Release the pinned masks: the next call draws another function."""
        if self._pinned is not None:
            self._pinned.clear()

    def __call__(self, site: nn.Module, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        generator = self._generators[id(site)]
        size = (1 if self._shared else rows, *shape)
        if self._pinned is None:
            return uniform_noise(size, dtype=dtype, generator=generator)
        key = (id(site), shape)
        if key not in self._pinned:
            self._pinned[key] = uniform_noise(size, dtype=dtype, generator=generator)
        return self._pinned[key]


def _mask_site(noise: _MaskNoise, site: ConcreteDropout, rows: int) -> Tensor:
    dtype = torch.promote_types(site.p_logit.dtype, torch.float32)
    return noise(site, rows, (site.num_units,), dtype)


def _mask_output(noise: _MaskNoise, site: _DropoutNd, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """Forward hook: give an ``nn.Dropout*``, which is in eval, the masks of a draw."""
    x = output
    batched = x.ndim > {nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 4}.get(type(site), 1)
    if not batched:
        x = x.unsqueeze(0)
    trailing = tuple(x.shape[1:])
    if not isinstance(site, nn.Dropout):  # whole channels
        trailing = (trailing[0],) + (1,) * (len(trailing) - 1)
    keep = noise(site, len(x), trailing, torch.float32).to(x.device) >= site.p
    x = x * keep / (1 - site.p) if site.p < 1 else torch.zeros_like(x)
    return x if batched else x.squeeze(0)


def _has_dropout_inside(module: nn.Module) -> bool:
    """Tell whether a module drops by a flag of its own, in code that cannot be given masks."""
    if isinstance(module, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
        return module.p > 0
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, nn.RNNBase) and module.dropout > 0 and module.num_layers > 1


@contextlib.contextmanager
def _masked(model: nn.Module, seed: int | None, *, shared: bool, pinned: bool) -> Iterator[_MaskNoise]:
    """Switch on the dropout of a model and nothing else; restore every flag and the caller's random state."""
    modules = list(model.modules())
    learned = [m for m in modules if isinstance(m, ConcreteDropout)]
    plain = [m for m in modules if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)) and m.p > 0]
    inside = [m for m in modules if _has_dropout_inside(m)]
    if not (learned or plain or inside):
        raise ValueError(
            "`model` has no dropout, so all draws would be the same; convert it with `gumdrop.learn_dropout(model)`"
        )
    noise = _MaskNoise([*learned, *plain], seed, shared=shared, pinned=pinned)
    flags = [(module, module.training) for module in modules]
    sources = [(site, site.noise_source) for site in learned]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[d.index for d in devices]))
        torch.manual_seed(noise.seed)
        # The fused path of transformer layers would skip their dropout.
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        for module, flag in flags:
            stack.callback(setattr, module, "training", flag)
            module.training = module in inside
        for site, source in sources:
            stack.callback(setattr, site, "noise_source", source)
            site.noise_source = functools.partial(_mask_site, noise)
        for dropout in plain:
            handle = dropout.register_forward_hook(functools.partial(_mask_output, noise))
            stack.callback(handle.remove)
        yield noise


@contextlib.contextmanager
def sampling(model: Model, *, seed: int | None = None, shared: bool = True) -> Iterator[Model]:
    """Context in which each call of a model draws fresh Bernoulli masks.

    Dropout sites and ``nn.Dropout*`` modules are switched on and nothing else: all other modules, batch
    normalisation among them, are in eval. On leaving, every flag is as it was, and so is torch's random state.
    Dropout that a model's own code applies with ``torch.nn.functional.dropout`` is not reached.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        seed: Makes the draws reproducible; different ones each time if None.
        shared: One mask for all rows of a call, rather than one for each row.

    Yields:
        The model.

    Raises:
        ValueError: If nothing in the model is stochastic.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.5)
        >>> x = torch.ones(1, 8)
        >>> with sampling(model, seed=0):
        ...     bool(model(x) == model(x))
        False
    """
    with _masked(model, seed, shared=shared, pinned=False):
        yield model


@contextlib.contextmanager
def draw(model: Model, *, seed: int | None = None) -> Iterator[Model]:
    """Context in which a model is one function drawn from the posterior: the same masks for every input.

    A mask of an ``nn.Dropout`` belongs to one input shape; another shape gets a mask of its own. Dropout inside
    attention weights and between the layers of an unconverted recurrent module has no mask that can be kept, and
    is off.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        seed: Names the function; another one each time if None.

    Yields:
        The model.

    Raises:
        ValueError: If nothing in the model is stochastic.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.5)
        >>> x = torch.ones(1, 8)
        >>> with draw(model, seed=0):
        ...     bool(model(x) == model(x))
        True
    """
    with _masked(model, seed, shared=True, pinned=True):
        for module in model.modules():
            module.training = False
        yield model


def _rows(x: Inputs) -> list[Tensor]:
    return [x] if isinstance(x, Tensor) else list(x.values()) if isinstance(x, Mapping) else list(x)


def _call(model: nn.Module, x: Inputs, rows: slice) -> Any:
    if isinstance(x, Tensor):
        return model(x[rows])
    if isinstance(x, Mapping):
        return model(**{name: value[rows] for name, value in x.items()})
    return model(*(value[rows] for value in x))


def _draws(
    model: nn.Module,
    x: Inputs,
    num_samples: int,
    seed: int | None,
    batch_size: int | None,
    output: Callable[[Any], Tensor] | None,
) -> Iterator[Tensor]:
    """Yield the output of one drawn function after the other, for all rows."""
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1, got {num_samples}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}; None takes all rows at once")
    lengths = {len(value) for value in _rows(x)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"`x` must hold tensors with the same number of rows, at least 1, got {sorted(lengths)}")
    (length,) = lengths
    step = batch_size or length
    with torch.no_grad(), _masked(model, seed, shared=True, pinned=True) as noise:
        for _ in range(num_samples):
            parts = []
            for start in range(0, length, step):
                result = _call(model, x, slice(start, start + step))
                result = result if output is None else output(result)
                if not isinstance(result, Tensor):
                    raise TypeError(
                        f"the model returned a {type(result).__name__}; pass `output`, a function that takes the "
                        "tensor out of it, as in output=lambda result: result.logits"
                    )
                parts.append(result)
            yield parts[0] if len(parts) == 1 else torch.cat(parts)
            noise.renew()


def sample(
    model: nn.Module,
    x: Inputs,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    output: Callable[[Any], Tensor] | None = None,
) -> Tensor:
    """Evaluate functions drawn from the posterior.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        x: Input with rows in dimension 0; a tuple or mapping of tensors is passed as arguments.
        num_samples: Number of functions, S.
        seed: Same seed, same functions.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the result.
        output: Takes the output tensor out of what the model returns.

    Returns:
        Outputs, shape (S, N, ...).

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows, or nothing in the model is stochastic.
        TypeError: If the model does not return a tensor and ``output`` is None.
    """
    return torch.stack(list(_draws(model, x, num_samples, seed, batch_size, output)))


class _RunningMoments:
    """Mean and population variance of draws that come one at a time (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, value: Tensor) -> None:
        self.count += 1
        deviation = value - self.mean
        self.mean = self.mean + deviation / self.count
        self._squares = self._squares + deviation * (value - self.mean)

    @property
    def variance(self) -> Any:
        return self._squares / self.count


@dataclass(frozen=True)
class RegressionPrediction:
    """A mixture of Gaussians for each row, one component for each drawn function; N rows, D outputs, S draws."""

    mean: Tensor
    """Predictive mean, shape (N, D), in units of the target."""
    epistemic: Tensor
    """Variance of the drawn functions' means, (N, D), squared units: what more data would remove."""
    aleatoric: Tensor
    """Mean of the drawn functions' noise variances, (N, D), squared units: what more data would not remove."""
    draw_means: Tensor | None
    """Mean of each draw, (S, N, D); None if the draws were not kept."""
    draw_variances: Tensor | None
    """Noise variance of each draw, (S, N, D); None if the draws were not kept."""

    @property
    def variance(self) -> Tensor:
        """Total predictive variance, ``epistemic + aleatoric``, shape (N, D)."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Tensor:
        """Predictive standard deviation, shape (N, D), in units of the target."""
        return self.variance.sqrt()

    def _components(self) -> tuple[Tensor, Tensor]:
        if self.draw_means is None or self.draw_variances is None:
            raise ValueError("the draws were not kept; predict with `keep_draws=True`")
        return self.draw_means, self.draw_variances

    def log_prob(self, target: Tensor) -> Tensor:
        r"""Log density of observations under the mixture, per row, in nats.

        .. math:: \log \frac1S \sum_s \prod_d N(y_d; \mu_{sd}, \sigma^2_{sd})

        Args:
            target: Observations, shape (N, D).

        Returns:
            Shape (N,).

        Raises:
            ValueError: If the shape differs or the draws were not kept.
        """
        if target.shape != self.mean.shape:
            raise ValueError(f"`target` must have shape {tuple(self.mean.shape)}, got {tuple(target.shape)}")
        means, variances = self._components()
        log_density = -0.5 * (math.log(2 * math.pi) + variances.log() + (target - means).square() / variances)
        return torch.logsumexp(log_density.flatten(2).sum(2), dim=0) - math.log(len(means))

    def cdf(self, value: Tensor) -> Tensor:
        """Probability that the target is at most a value, for each row and output.

        Args:
            value: Broadcasts to shape (N, D).

        Returns:
            Shape (N, D), in [0, 1].

        Raises:
            ValueError: If the draws were not kept.
        """
        means, variances = self._components()
        return torch.special.ndtr((value - means) / variances.sqrt()).mean(0)

    def quantile(self, probability: float) -> Tensor:
        """Quantile of the mixture, by bisection of its distribution function.

        Args:
            probability: In (0, 1).

        Returns:
            Shape (N, D), in units of the target.

        Raises:
            ValueError: If ``probability`` is out of range or the draws were not kept.
        """
        if not 0 < probability < 1:
            raise ValueError(f"`probability` must be strictly between 0 and 1, got {probability}")
        means, variances = self._components()
        normal = torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)).item()
        components = means + normal * variances.sqrt()  # the mixture's quantile lies between its components'
        low, high = components.amin(0), components.amax(0)
        for _ in range(40):
            middle = (low + high) / 2
            below = self.cdf(middle) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds the target with a given probability.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Lower and upper ends, each of shape (N, D).

        Raises:
            ValueError: If ``coverage`` is out of range or the draws were not kept.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def predict_regression(
    model: nn.Module,
    x: Inputs,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    log_variance: Tensor | float | None = None,
    keep_draws: bool = True,
    output: Callable[[Any], Tensor] | None = None,
) -> RegressionPrediction:
    """Predict a Gaussian mixture for each row.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, whose output holds means and log variances
            in the halves of its last dimension.
        x: Input with rows in dimension 0; a tuple or mapping of tensors is passed as arguments.
        num_samples: Number of draws, S.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the result.
        log_variance: Noise of a model whose output is the mean alone: a number, or shape (D,).
        keep_draws: Keep each draw's mean and variance, 2 S N D numbers, for `log_prob` and `quantile`.
        output: Takes the output tensor out of what the model returns.

    Returns:
        Mean and variances, split into what the model does not know and what is noise.

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows, the output cannot be split, or nothing in
            the model is stochastic.
        TypeError: If the model does not return a tensor and ``output`` is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 2), p=0.2)
        >>> prediction = predict_regression(model, torch.randn(5, 8), seed=0)
        >>> prediction.mean.shape, prediction.epistemic.shape
        (torch.Size([5, 1]), torch.Size([5, 1]))
    """
    moments, noise = _RunningMoments(), _RunningMoments()
    kept: list[tuple[Tensor, Tensor]] = []
    for result in _draws(model, x, num_samples, seed, batch_size, output):
        if log_variance is None:
            mean, log_noise = split_gaussian(result)
        else:
            mean, log_noise = result, torch.as_tensor(log_variance, dtype=result.dtype, device=result.device)
        variance = log_noise.exp().expand_as(mean)
        moments.add(mean)
        noise.add(variance)
        if keep_draws:
            kept.append((mean, variance))
    means, variances = (torch.stack(part) for part in zip(*kept, strict=True)) if kept else (None, None)
    return RegressionPrediction(moments.mean, moments.variance, noise.mean, means, variances)


@dataclass(frozen=True)
class ClassificationPrediction:
    """Class probabilities averaged over drawn functions, and how much those disagree; N rows, C classes.

    Entropies are in nats and have the shape of the rows and positions, (N, ...).
    """

    log_probabilities: Tensor
    """Log of the averaged probabilities, shape (N, C, ...)."""
    expected_entropy: Tensor
    """Mean entropy of the draws: ambiguity that more data would not remove."""

    @property
    def probabilities(self) -> Tensor:
        """Averaged probabilities, shape (N, C, ...)."""
        return self.log_probabilities.exp()

    @property
    def predictive_entropy(self) -> Tensor:
        """Entropy of the averaged probabilities: total uncertainty."""
        return torch.special.entr(self.probabilities).sum(1)

    @property
    def mutual_information(self) -> Tensor:
        """Information that the label would give about the function: what more data would remove."""
        return (self.predictive_entropy - self.expected_entropy).clamp(min=0)

    @property
    def label(self) -> Tensor:
        """Most probable class, shape (N, ...)."""
        return self.log_probabilities.argmax(1)

    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability of observed classes, in nats.

        Args:
            target: Class indices, shape (N, ...).

        Returns:
            The shape of ``target``.

        Raises:
            ValueError: If the shape differs.
        """
        expected = self.expected_entropy.shape
        if target.shape != expected:
            raise ValueError(f"`target` must have shape {tuple(expected)}, got {tuple(target.shape)}")
        return self.log_probabilities.gather(1, target.unsqueeze(1)).squeeze(1)


def predict_classification(
    model: nn.Module,
    x: Inputs,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    output: Callable[[Any], Tensor] | None = None,
) -> ClassificationPrediction:
    """Predict class probabilities for each row, averaged over draws; memory does not grow with their number.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, that returns logits of shape (N, C, ...).
        x: Input with rows in dimension 0; a tuple or mapping of tensors is passed as arguments.
        num_samples: Number of draws.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the result.
        output: Takes the logits out of what the model returns.

    Returns:
        Probabilities and entropies.

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows, there are fewer than two classes, or nothing
            in the model is stochastic.
        TypeError: If the model does not return a tensor and ``output`` is None.
    """
    total: Tensor | None = None
    entropy = _RunningMoments()
    for logits in _draws(model, x, num_samples, seed, batch_size, output):
        if logits.ndim < 2 or logits.shape[1] < 2:
            raise ValueError(
                f"the model must return logits of shape (N, C, ...) with C >= 2, got {tuple(logits.shape)}"
            )
        log_p = torch.log_softmax(logits, dim=1)
        total = log_p if total is None else torch.logaddexp(total, log_p)
        entropy.add(torch.special.entr(log_p.exp()).sum(1))
    assert total is not None
    return ClassificationPrediction(total - math.log(num_samples), entropy.mean)
