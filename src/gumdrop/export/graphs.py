"""What an exported file computes: the variants of a stochastic model, as modules with named inputs and outputs."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gumdrop.export.draws import Draws
from gumdrop.export.errors import ExportError
from gumdrop.functional.floats import widened
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import Categorical, ClassificationPrediction, Gaussian, HurdlePrediction, RegressionPrediction
from gumdrop.likelihoods.gaussian import gaussians_of
from gumdrop.prediction.predict import predict, predict_regression, sample

Variant = Literal["draw", "moments", "noise", "deterministic"]
"""One draw a call; S draws a call and their moments; the same with the noise as an input; moments without draws."""


class Graph(nn.Module):
    """A module to be exported: tensors in, named tensors out. A call takes ``num_samples`` draws, or one."""

    input_names: list[str]
    """Names of the inputs, in order; the noise, if it is one, comes last."""
    num_noise: int
    """Columns of noise of a draw."""
    any_draws = True
    """Whether noise that is an input may have any number of rows."""

    def __init__(self, variant: Variant, num_samples: int) -> None:
        super().__init__()
        if num_samples < 2 and variant in ("moments", "noise"):
            raise ExportError(f"`num_samples` must be at least 2, because variances are taken of it, got {num_samples}")
        self.variant = variant
        self.num_samples = num_samples if variant in ("moments", "noise") else 1

    @property
    def is_random(self) -> bool:
        """Whether two calls with the same inputs differ."""
        return self.variant in ("draw", "moments")

    @property
    def draws_of_a_call(self) -> int:
        """How many functions a call draws; 0 where that is not the file's to say."""
        return self.num_samples if self.is_random else 0

    def split_noise(self, tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], Tensor]:
        """Part the inputs from the noise, shape (S, ``num_noise``), which is drawn here unless it is an input."""
        if self.variant == "noise":
            return tensors[:-1], tensors[-1]
        # One table for all sites: onnxruntime seeds the generators of two tables with two neighbouring numbers.
        return tensors, torch.rand(self.num_samples, self.num_noise)

    def description(self) -> dict[str, object]:
        """What a reader of the file should know, as plain data for its metadata."""
        raise NotImplementedError

    def reference(self, inputs: Sequence[Tensor], seed: int) -> dict[str, Tensor]:
        """Compute the outputs as the library does, in eager mode, without the graph."""
        raise NotImplementedError


class ModelGraph(Graph):
    """A model of one's own, as a graph; inputs are examples, and None for the likelihood leaves the output as it is."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
        *,
        variant: Variant,
        num_samples: int,
        likelihood: Gaussian | Categorical | None,
    ) -> None:
        super().__init__(variant, num_samples)
        names = tuple(inputs) if isinstance(inputs, Mapping) else None
        count = 1 if isinstance(inputs, Tensor) else len(inputs)
        self.input_names = list(names or (["x"] if count == 1 else [f"x{i}" for i in range(count)]))
        self.likelihood = likelihood
        model = copy.deepcopy(model).cpu()
        if not all(site.num_units for site in sites_of(model)):
            sample(model, inputs, num_samples=1, seed=0, output=_tensor)  # sites count the units of what they see
        self.draws = Draws(model, names=names)
        self.num_noise = self.draws.num_noise
        if variant == "moments" and not self.is_random:
            self.num_samples = 2  # all functions are one, and so many have a variance of 0
        if variant == "noise":
            if self.draws.has_own_noise:
                raise ExportError(
                    "`variant='noise'` needs every mask to come from a learned rate, and the model has nn.Dropout "
                    "modules with noise of their own; convert or remove them, or export the variant 'moments'"
                )
            self.input_names.append("noise")
        if variant == "deterministic" and (likelihood != Gaussian() or names is not None or count > 1):
            raise ExportError(
                "`variant='deterministic'` needs `likelihood='gaussian'` and a single input, because moments are "
                f"propagated to means and log variances alone; got {likelihood} and {count} inputs by "
                f"{'position' if names is None else 'name'}"
            )
        self._original = [model]  # in a list, so that it is no child

    @property
    def is_random(self) -> bool:
        """Whether two calls with the same inputs differ; where all rates are 0, they do not."""
        return super().is_random and (self.draws.has_own_noise or self.draws.drops)

    def forward(self, *tensors: Tensor) -> dict[str, Tensor]:
        """Draw, and summarise the draws, or propagate moments."""
        if self.variant == "deterministic":
            return named(predict_regression(self._original[0], tensors[0], method="moments"))
        inputs, noise = self.split_noise(tensors)
        return self._outputs(self.draws(inputs, noise))

    def _outputs(self, draws: Tensor) -> dict[str, Tensor]:
        if self.likelihood is None and self.variant != "draw":
            return {"mean": draws.mean(0), "variance": draws.var(0, correction=0)}
        if self.likelihood is None:
            return {"output": draws[0]}
        if isinstance(self.likelihood, Gaussian):
            if self.variant == "draw":
                means, variances = gaussian_parts(draws, self.likelihood)
                return {"mean": means[0], "variance": variances[0]}
            return named(gaussian(draws, self.likelihood))
        if self.variant == "draw":
            return {"probabilities": self.likelihood.log_probabilities(draws)[0].exp()}
        return named(classes(draws, self.likelihood))

    def description(self) -> dict[str, object]:
        """Describe the likelihood, the rates and where the noise of each site stands."""
        name = None if self.likelihood is None else self.likelihood.name
        return {"likelihood": name, "rates": self.draws.rates, "noise": self.draws.layout}

    def reference(self, inputs: Sequence[Tensor], seed: int) -> dict[str, Tensor]:
        """Predict with the functions of the library."""
        names = self.draws.names
        x: Any = tuple(inputs) if names is None else dict(zip(names, inputs, strict=True))
        options: dict[str, Any] = {"num_samples": self.num_samples, "seed": seed, "output": _tensor}
        (model,) = self._original
        if self.variant == "draw" or self.likelihood is None:
            return {name: value.detach() for name, value in self._outputs(sample(model, x, **options)).items()}
        return named(predict(model, x, self.likelihood, **options))


def _tensor(result: Any) -> Tensor:
    return result["logits"] if isinstance(result, Mapping) else result


def gaussian_parts(draws: Tensor, likelihood: Gaussian) -> tuple[Tensor, Tensor]:
    """Read means and noise variances, (S, N, D) each, out of outputs."""
    return gaussians_of(widened(draws), likelihood.log_variance, likelihood.temperature)


def gaussian(draws: Tensor, likelihood: Gaussian) -> RegressionPrediction:
    """Moments of draws of a regression, (S, N, ...), without the draws."""
    means, variances = gaussian_parts(draws, likelihood)
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), None, None)


def classes(draws: Tensor, likelihood: Categorical) -> ClassificationPrediction:
    """Averages over draws of logits, (S, N, C, ...)."""
    log_p = likelihood.log_probabilities(draws)
    entropy = -(log_p.exp() * log_p).sum(2).mean(0)
    count = log_p.new_full((), draws.shape[0])  # not math.log, which would fix the draws of an exported model
    return ClassificationPrediction(torch.logsumexp(log_p, dim=0) - count.log(), entropy)


def named(prediction: RegressionPrediction | ClassificationPrediction) -> dict[str, Tensor]:
    """Outputs of a file, by name."""
    names: tuple[str, ...] = ("probabilities", "predictive_entropy", "expected_entropy", "mutual_information")
    if isinstance(prediction, RegressionPrediction):
        names = ("mean", "epistemic", "aleatoric")
        names += ("atom_probabilities",) if isinstance(prediction, HurdlePrediction) else ()
    return {name: getattr(prediction, name) for name in names}
