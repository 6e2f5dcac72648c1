"""A table model as a graph: from the columns of the table, in their own units, to numbers in those of the target."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.export.errors import ExportError
from gumdrop.export.graphs import Graph, Variant, classes, gaussian, gaussian_parts, named
from gumdrop.export.table_encoding import TableEncoder
from gumdrop.layers import dropout_blocks
from gumdrop.likelihoods import PLAIN, Categorical, Gaussian, HurdlePrediction, RegressionPrediction
from gumdrop.likelihoods.hurdle import atom_draws, beside_atoms
from gumdrop.likelihoods.scaled_mixture import draw_moments, mixed_moments
from gumdrop.networks.dense import DenseFunctions
from gumdrop.prediction.predict import predict_regression
from gumdrop.tables.model import TableModel
from gumdrop.tables.schema.columns import CategoryColumn

QUANTILES = 16
"""Draws that stand for a Gaussian of means that was propagated."""
TAILS = 100
"""Sizes of the noise that one draw is given one of."""


def _scaled_erfc(u: np.ndarray) -> np.ndarray:
    """Log of erfcx(z) / t at u = 2 t - 1, where t = 1 / (1 + z / 2) is in (0, 1]: smooth, also where z is infinite."""
    z = torch.from_numpy(2 / np.clip((u + 1) / 2, 1e-6, 1) - 2)
    return (torch.special.erfcx(z).log() + torch.log1p(z / 2)).numpy()


POWERS = np.polynomial.Chebyshev.interpolate(_scaled_erfc, 12).convert(kind=np.polynomial.Polynomial).coef.tolist()


def log_ndtr(value: Tensor) -> Tensor:
    """Log of the normal distribution function, also where it is 0 in float32."""
    z = value.abs() * math.sqrt(0.5)
    t = 1 / (1 + z / 2)
    u = 2 * t - 1
    power = torch.full_like(u, POWERS[-1])
    for coefficient in reversed(POWERS[:-1]):
        power = power * u + coefficient
    tail = power + t.log() - z.square() - math.log(2)  # log of the probability beyond
    return torch.where(value < 0, tail, torch.log1p(-tail.exp()))


class ScaledMoments(nn.Module):
    """What `RegressionEnsemble.predict` makes of the draws of its members, for a fixed number of draws of them all."""

    tails: Tensor
    quantiles: Tensor

    def __init__(self, ensemble: RegressionEnsemble, num_draws: int) -> None:
        super().__init__()
        self.scaling = ensemble.scaling
        self.register_buffer("tails", ensemble.noise.tail_factors(num_draws))
        levels = (torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES
        normal = torch.special.ndtri(levels)
        self.register_buffer("quantiles", (normal / normal.std(correction=0)).float().view(-1, 1, 1))

    def forward(self, means: Tensor, variances: Tensor, logits: Tensor) -> RegressionPrediction:
        """Mix draws, (S, N, 1), as the networks see the target, and logits of K atoms, into standardised moments."""
        tailed = variances * self.tails
        latent = self._latent(means, tailed * (variances.mean(0) / tailed.mean(0)))
        moments, scale = mixed_moments(*latent, self.scaling.scale, log_ndtr), self.scaling.scale
        if not scale.atoms:
            return RegressionPrediction(*moments, None, None)
        mean, shares, of_draws = moments[0], atom_draws(logits), draw_moments(*latent, scale, log_ndtr)[0]
        if scale.kind == "censored":
            shares = log_ndtr((scale.floor - latent[0]) / latent[1].sqrt()).exp()
        parts = beside_atoms(mean, moments[1] + moments[2], of_draws, shares, scale.atoms)
        return HurdlePrediction(*parts, None, None, draw_atoms=shares)

    def spread(self, parts: list[RegressionPrediction]) -> tuple[Tensor, Tensor]:
        """Draws, shape (S, N, 1), with the moments that were propagated through each member."""
        means = [part.mean + self.quantiles * part.epistemic.sqrt() for part in parts]
        return torch.cat(means), torch.cat([part.aleatoric.expand(QUANTILES, -1, -1) for part in parts])

    def of_one(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of standardised targets under one draw, shape (1, N, 1) each."""
        return draw_moments(*self._latent(mean, variance), self.scaling.scale, log_ndtr)

    def _latent(self, means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
        return means * self.scaling.spread + self.scaling.center, variances * self.scaling.spread**2


PLAIN_NOISE = Gaussian()


class TableGraph(Graph):
    """The ensemble of a table with its encoding before it and the units of the target behind it.

    The variant ``"draw"`` picks a network at random, and then its masks and how large its noise is. The other variants
    give moments, as `TableModel.predict` does: of a target that ends at 0 those of what is not cut off, or of the root
    or logarithm that the networks see. (Single draws all count alike there, where moments weigh each by what is left of
    it.) Of such scales the noise of ``"noise"`` has as many rows as the example: the tail of the noise belongs to a
    number of draws. Draws are spread evenly over the networks, rounded up. Numbers are float64 if the target needs it.

    Shape:
        ``columns`` (N, C) in float64, as `gumdrop.export.export_table` says.
    """

    tails: Tensor
    units: Tensor

    def __init__(self, model: TableModel, *, variant: Variant, num_samples: int) -> None:
        super().__init__(variant, num_samples)
        self.table = model
        if model.schema.target.known:
            raise ExportError(
                f"'{model.schema.target.name}' is known in part, and its medians cannot be exported: "
                "predict with `gumdrop predict` or `TableModel.predict`"
            )
        if model.schema.target.atoms and variant in ("deterministic", "draw"):
            raise ExportError(
                f"'{model.schema.target.name}' has values that many rows share, and the variant {variant!r} does not "
                "give their probabilities; export the variant 'moments' or 'noise'"
            )
        count = len(model.ensemble.members)
        if variant in ("moments", "noise"):
            self.num_samples = -(-num_samples // count)
        self.encode = TableEncoder(model.schema)
        # A tensor, since ONNX rounds numbers in a graph to float32.
        target = model.schema.target
        # The shift is in units of the deviation: the exporter takes a constant below 1e-8 for 0, and leaves it out.
        self.register_buffer("units", torch.tensor([target.std, target.mean / target.std], dtype=torch.float64))
        dense = DenseFunctions.of(list(model.ensemble.members))
        if dense is None:
            raise ExportError("the networks of `model` have hooks or frozen weights; export what `gumdrop fit` left")
        self.dense = dense
        self.noise = model.ensemble.noise if isinstance(model.ensemble, RegressionEnsemble) else None
        self.scaled: ScaledMoments | None = None
        if isinstance(model.ensemble, RegressionEnsemble) and model.ensemble.scaling.scale != PLAIN:
            draws = QUANTILES if variant == "deterministic" else self.num_samples
            self.scaled = ScaledMoments(model.ensemble, draws * count)
            self.any_draws = False
        if variant == "draw" and self.noise is not None:
            self.register_buffer("tails", self.noise.tail_factors(TAILS))
        if variant == "deterministic" and self.noise is None:
            raise ExportError(
                "`variant='deterministic'` propagates moments to numbers, and this model predicts classes; export the "
                "variant 'noise', whose answers are the same for the same noise"
            )
        self.num_noise = count * sum(dense.units) + (variant == "draw")  # the last column picks network and tail
        self.input_names = ["columns", "noise"] if variant == "noise" else ["columns"]

    @property
    def draws_of_a_call(self) -> int:
        """How many functions a call draws, from all networks together."""
        return super().draws_of_a_call * (len(self.table.ensemble.members) if self.variant == "moments" else 1)

    def forward(self, *tensors: Tensor) -> dict[str, Tensor]:
        """Encode, ask every network, mix, and go back to the units of the target."""
        if self.variant == "deterministic":
            x = self.encode(tensors[0])
            parts = [predict_regression(m, x, method="moments") for m in self.table.ensemble.members]
            return self._mixed(x, parts) if self.scaled is None else self._scaled(x, *self.scaled.spread(parts))
        (columns,), noise = self.split_noise(tensors)
        x = self.encode(columns)
        of_members = noise[:, : noise.shape[1] - (self.variant == "draw")].unflatten(1, (len(self.dense.p_logits), -1))
        factors = self.dense.factors(of_members.movedim(1, 0).split(self.dense.units, dim=2))
        outputs = self.dense.outputs(x, factors).flatten(0, 1)  # of the draws of all networks
        if self.variant == "draw":
            return self._one_draw(x, outputs, noise[0, -1:])
        if self.scaled is not None:
            return self._scaled(x, *gaussian_parts(outputs, PLAIN_NOISE))
        if self.noise is None:
            return named(classes(outputs, Categorical()))
        return self._mixed(x, [gaussian(outputs, PLAIN_NOISE)])

    def _mixed(self, x: Tensor, parts: Sequence[RegressionPrediction]) -> dict[str, Tensor]:
        assert self.noise is not None
        mixture = RegressionPrediction.mixture(parts)
        return named(self._in_units(mixture.scale_noise(self.noise(x, mixture.mean))))

    def _scaled(self, x: Tensor, means: Tensor, variances: Tensor) -> dict[str, Tensor]:
        assert self.scaled is not None
        assert self.noise is not None
        means, logits = means.split([1, means.shape[2] - 1], dim=2)
        return named(self._in_units(self.scaled(means, variances[..., :1] * self.noise(x, means.mean(0)), logits)))

    def _in_units(self, prediction: RegressionPrediction) -> RegressionPrediction:
        parts = {name: self._exact(getattr(prediction, name)) for name in ("mean", "epistemic", "aleatoric")}
        std, shift = self.units
        return replace(prediction, **parts).rescale(1.0, shift).rescale(std, 0.0)  # type: ignore[arg-type]

    def _exact(self, value: Tensor) -> Tensor:
        return value.double() if self.table.schema.target.needs_float64 else value

    def _one_draw(self, x: Tensor, outputs: Tensor, uniform: Tensor) -> dict[str, Tensor]:
        index = (uniform * (len(outputs) * TAILS)).long()
        chosen = outputs.index_select(0, index // TAILS)
        if self.noise is None:
            return {"probabilities": torch.softmax(chosen[0], dim=-1)}
        # The noise depends on the mean of the mixture, which one draw does not know: that without dropout stands in.
        undropped = self.dense.outputs(x, [x.new_ones(1, 1, 1, 1)] * len(self.dense.units))[:, 0]
        means, _ = gaussian_parts(undropped, PLAIN_NOISE)
        factor = self.noise(x, means.mean(0)) * self.tails.index_select(0, index % TAILS)[0]
        mean, variance = gaussian_parts(chosen, PLAIN_NOISE)
        variance = variance * factor
        if self.scaled is not None:
            mean, variance = self.scaled.of_one(mean, variance)
        mean, variance = self._exact(mean), self._exact(variance)
        std, shift = self.units
        return {"mean": (mean[0] + shift) * std, "variance": variance[0] * std**2}

    def description(self) -> dict[str, object]:
        """Describe schema, likelihood, rates and noise."""
        members = self.table.ensemble.members
        sites = [(f"members.{block.name}", block.site) for block in dropout_blocks(members)]
        return {
            "likelihood": self.table.task.likelihood.name,
            "schema": self.table.schema.to_json(),
            "rates": {name: site.p.tolist() for name, site in sites},
            "noise": {name: site.num_units for name, site in sites},
            "num_members": len(members),
        }

    def examples(self, num_rows: int) -> Tensor:
        """Rows like those of the table, with a few cells missing and a few categories unknown, to compare with."""
        generator = torch.Generator().manual_seed(0)
        rows = []
        for column in self.table.schema.columns:
            if isinstance(column, CategoryColumn):
                rows.append(torch.randint(-1, len(column.categories), (num_rows,), generator=generator).double())
            else:
                normal = torch.randn(num_rows, generator=generator, dtype=torch.float64)
                rows.append(normal * column.std + column.mean)
        columns = torch.stack(rows, dim=1)
        columns[torch.rand(columns.shape, generator=generator) < 0.05] = torch.nan
        return columns

    def reference(self, inputs: Sequence[Tensor], seed: int) -> dict[str, Tensor]:
        """Predict with the ensemble itself; one draw has no counterpart there, and runs as it stands."""
        if self.variant == "draw":
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.default_generator.manual_seed(seed)
                return self(*inputs)
        x = self.encode(inputs[0])
        prediction = self.table.ensemble.predict(x, num_samples=self.draws_of_a_call, seed=seed)
        if isinstance(prediction, RegressionPrediction):
            prediction = self._in_units(prediction)
        return named(prediction)
