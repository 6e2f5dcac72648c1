r"""Dense networks of one architecture as one program whose gradients are written out, for networks that are small.

A step of a small network is a few thousand multiplications and, under `torch.func.vmap` and autograd, some hundred
operations that cost more than these. Here all members' weights lie in one block of memory, and a step is a dozen
operations a layer. `gumdrop.training.together.Together` is the readable twin that any architecture takes, and the test.

With :math:`s = z / (1 - p)` the factor on a unit, :math:`y = a s` what a layer reads and :math:`g` the gradient of
:math:`y`, the gradient of the logit of :math:`p` is :math:`\sum y g (p - (1 - z) / t)`, as in
`gumdrop.functional.fused_masks`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.functional.fused_masks import LARGEST_LOGIT, power
from gumdrop.functional.noise import bulk_noise
from gumdrop.layers import SITE, UNIT
from gumdrop.networks.rates import RATE_EPS
from gumdrop.objective.kl import CAPS, Lengthscale, check_lengthscale, precision_of
from gumdrop.training.dense_layers import ACTIVATIONS, Parts, site_of
from gumdrop.training.settings import Likelihood

__all__ = ["DenseStack"]

LEAST_NOISE = 2**-25
"""Below any positive uniform number: none is 0, which has no odds."""


class _Pass(NamedTuple):
    """What the way forward leaves for the way back, of each layer, (M, B, K)."""

    read: list[Tensor]
    """What it read, ``a s``."""
    before: list[Tensor]
    """What the activation in front of it took; not of the first."""
    scales: list[Tensor]
    """Factors ``s`` of its site."""
    lost: list[Tensor]
    """``z - 1`` of its site, exact where nothing is dropped."""
    output: Tensor
    """Of the last layer, (M, B, D)."""


class _Views(NamedTuple):
    """Parts of a block of weights, or of their gradients."""

    matrices: list[Tensor]
    """Of each layer, (M, O, K)."""
    biases: list[Tensor]
    """Of each layer, (M, O)."""
    all_biases: Tensor
    """Side by side."""

    @classmethod
    def of(cls, block: Tensor, shapes: Sequence[torch.Size], outputs: Sequence[int]) -> "_Views":
        parts = block.split([shape.numel() for shape in shapes])
        *matrices, biases = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
        return cls(matrices, list(biases.split(list(outputs), dim=1)), biases)


class _Rates(NamedTuple):
    """The rates in the forms in which they enter, each of shape (M, L)."""

    logit: Tensor
    p: Tensor
    odds: Tensor
    """p / (1 - p)."""
    full: Tensor
    """1 / (1 - p)."""


class DenseStack(nn.Module):
    """The parameters of M dense networks, and the losses and gradients of a step; the same calls as `Together`.

    Args:
        models: Networks of the same layers and shapes, on which training then has no effect until `states` is loaded.
        parts: What `gumdrop.training.dense_layers.dense_layers_of` gives for them.
        lengthscale: Prior, see `gumdrop.kl_divergence`.

    Raises:
        ValueError: If ``lengthscale`` is neither positive nor a name.
    """

    def __init__(self, models: Sequence[nn.Module], parts: Sequence[Parts], lengthscale: Lengthscale) -> None:
        super().__init__()
        check_lengthscale(lengthscale, 1)
        first = parts[0]
        names = {id(module): name for name, module in models[0].named_modules()}
        self._names = [names[id(layer)] for layer in first.layers]
        self._noise_name = None if first.noise is None else names[id(first.noise)]
        self._encoding = [first.encoding]  # in a list: not a part of this one
        self._act, self._act_backward = ACTIVATIONS[first.activation]
        self._is_fixed, self._temperature = first.fixed
        self._units = [layer.in_features for layer in first.layers]
        outputs = [layer.out_features for layer in first.layers]
        values = [torch.stack([each.layers[i].weight for each in parts]) for i in range(len(outputs))]
        values.append(torch.stack([torch.cat([layer.bias for layer in each.layers]) for each in parts]))
        self.weights = nn.Parameter(torch.cat([value.detach().flatten() for value in values]))
        self.weights.grad = torch.zeros_like(self.weights)  # the same memory for all steps, like that of the views
        shapes = [value.shape for value in values]
        self._values = _Views.of(self.weights.detach(), shapes, outputs)
        self._gradients = _Views.of(self.weights.grad, shapes, outputs)
        logits = [torch.stack([site_of(layer).scaled_logit.detach() for layer in each.layers]) for each in parts]
        self.scaled_logits = nn.Parameter(torch.stack(logits), requires_grad=not self._is_fixed)
        self.scaled_logits.grad = torch.zeros_like(self.scaled_logits)
        self.log_variances: nn.Parameter | None = None
        if first.noise is not None:
            variances = torch.stack([each.noise.log_variance.detach() for each in parts if each.noise is not None])
            self.log_variances = nn.Parameter(variances, requires_grad=first.noise.log_variance.requires_grad)
        device = self.weights.device
        self._precisions = torch.tensor([precision_of(lengthscale, units) for units in self._units], device=device)
        self._of_biases = torch.cat([p.expand(o) for p, o in zip(self._precisions, outputs, strict=True)])
        strengths = torch.tensor([[site_of(layer).strength for layer in each.layers] for each in parts], device=device)
        self._entropies = strengths * torch.tensor(self._units, device=device)
        cap = CAPS.get(str(lengthscale))
        self._cap = None if cap is None else 2 * cap * len(models) / self.weights.numel()

    @torch.no_grad()
    def backward(self, x: Tensor, y: Tensor, num_data: Tensor, nll_of: Likelihood) -> tuple[Tensor, Tensor]:
        """Set the gradients to those of the sum of the losses, each of a model on a batch of its own.

        Args:
            x: Inputs, shape (M, B, F).
            y: Targets, shape (M, B, D) for the Gaussian, (M, B) for classes.
            num_data: Size of the training set of each model, shape (M,).
            nll_of: The Gaussian or the categorical likelihood of `LIKELIHOODS`.

        Returns:
            Mean negative log likelihood and KL per datum, each of shape (M,).
        """
        rates = self._rates()
        gone = self._forward(x, rates)
        nll, g = self._likelihood(gone.output, y)
        of_rates = self._back(gone, g, rates)
        kl = self._kl(rates, num_data, of_rates)
        if not self._is_fixed:
            assert self.scaled_logits.grad is not None
            # Into memory laid out like the rates, which fused optimisers take for granted.
            torch.div(of_rates, UNIT, out=self.scaled_logits.grad)
        return nll, kl

    def _rates(self) -> _Rates:
        logit = self.scaled_logits.detach() * UNIT
        odds = logit.clamp(max=LARGEST_LOGIT).exp_()
        full = odds + 1
        return _Rates(logit, odds / full, odds, full)

    def _forward(self, x: Tensor, rates: _Rates) -> _Pass:
        """Run all models on relaxed masks, or on drawn ones where the rates are fixed."""
        a = x if self._encoding[0] is None else self._encoding[0](x)
        sizes = [len(a) * a.shape[1] * units for units in self._units]
        noise = bulk_noise((sum(sizes),), dtype=a.dtype, device=a.device).clamp_(min=LEAST_NOISE)
        keep, lost = self._masks(noise, sizes, rates)
        shapes = [(len(a), a.shape[1], units) for units in self._units]
        scales = [part.view(shape) for part, shape in zip(keep.split(sizes), shapes, strict=True)]
        lost_of = [part.view(shape) for part, shape in zip(lost.split(sizes), shapes, strict=True)]
        read: list[Tensor] = []
        before: list[Tensor] = []
        for i, (scale, matrix, bias) in enumerate(zip(scales, self._values.matrices, self._values.biases, strict=True)):
            if i:
                before.append(a)
                a = self._act(a)
            scale.mul_(rates.full[:, i, None, None])
            read.append(a * scale)
            a = torch.baddbmm(bias.unsqueeze(1), read[-1], matrix.mT)
        return _Pass(read, before, scales, lost_of, a)

    def _masks(self, noise: Tensor, sizes: list[int], rates: _Rates) -> tuple[Tensor, Tensor]:
        """Masks ``z`` of all sites from uniform noise, in place of it, and ``z - 1``."""
        if self._is_fixed:
            for i, part in enumerate(noise.split(sizes)):
                part.view(len(rates.p), -1).ge_(rates.p[:, i, None])
            return noise, noise
        ratio = noise.reciprocal_().sub_(1)
        for i, part in enumerate(ratio.split(sizes)):
            part.view(len(rates.p), -1).mul_(rates.odds[:, i, None])
        keep = power(ratio, 1 / self._temperature, spare=torch.empty_like(ratio)).add_(1).reciprocal_()
        return keep, keep - 1

    def _likelihood(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean negative log likelihood of each model, (M,), and the gradient of its output."""
        rows = output.shape[1]
        if self.log_variances is None:
            log_p = torch.log_softmax(output, dim=-1)
            index = y.long().unsqueeze(-1)
            g = log_p.exp().scatter_add_(2, index, output.new_full((), -1.0).expand(index.shape))
            return -log_p.gather(2, index).mean((1, 2)), g.div_(rows)
        log_variances = self.log_variances.detach()
        error = output - y.to(output.dtype)
        precise = error * (-log_variances).exp_().unsqueeze(1)
        square = (precise * error).mean(1)
        if self.log_variances.requires_grad:
            self.log_variances.grad = (1 - square) / 2
        return (log_variances + square).sum(1).add_(y.shape[2] * math.log(2 * math.pi)).div_(2), precise.div_(rows)

    def _back(self, gone: _Pass, g: Tensor, rates: _Rates) -> Tensor:
        """Set the gradients of the weights, that of the likelihood alone; give those of the logits, (M, L)."""
        sums, slopes = torch.zeros(2, *rates.p.mT.shape, device=g.device)
        for i in reversed(range(len(gone.read))):
            torch.bmm(g.mT, gone.read[i], out=self._gradients.matrices[i])
            torch.sum(g, 1, out=self._gradients.biases[i])
            if i == 0 and self._is_fixed:
                break
            g = torch.bmm(g, self._values.matrices[i])
            if not self._is_fixed:
                product = gone.read[i].mul_(g).flatten(1)
                torch.sum(product, 1, out=sums[i])
                torch.linalg.vecdot(product, gone.lost[i].flatten(1), out=slopes[i])
            if i:
                g = self._act_backward(g.mul_(gone.scales[i]), gone.before[i - 1])
        return torch.addcmul(slopes.mT / self._temperature, rates.p, sums.mT)

    def _kl(self, rates: _Rates, num_data: Tensor, of_rates: Tensor) -> Tensor:
        """KL of each model per datum, (M,); its gradients are added to those that are there."""
        each = 1 / num_data
        scale = each if self._cap is None else (self._cap * num_data).clamp_(max=1.0) * each
        precisions = scale[:, None] * self._precisions
        squares = torch.empty(rates.p.mT.shape, device=each.device)
        coefficients = precisions * rates.full  # of W^2 / 2, (M, L)
        for i, matrix in enumerate(self._values.matrices):
            flat = matrix.flatten(1)
            torch.linalg.vecdot(flat, flat, out=squares[i])
            self._gradients.matrices[i].addcmul_(matrix, coefficients[:, i, None, None])
        half = 0.5 * squares.mT
        biases = self._values.all_biases
        pull = biases * self._of_biases * scale[:, None]
        self._gradients.all_biases.add_(pull)
        softplus = torch.nn.functional.softplus
        entropy = softplus(rates.logit) - rates.p * rates.logit
        units = self._entropies * each[:, None]
        if not self._is_fixed:
            slope = units * rates.logit * rates.p / rates.full
            of_rates += (precisions * half * rates.odds).add_(slope)
        return (coefficients * half - units * entropy).sum(1) + 0.5 * torch.linalg.vecdot(pull, biases)

    @torch.no_grad()
    def drawn(self, x: Tensor, num_samples: int = 1) -> Tensor:
        """Outputs under Bernoulli masks, another one for each row and sample: (M, S B, ...), sample by sample."""
        p, full = self._rates()[1::2]
        a = x if self._encoding[0] is None else self._encoding[0](x)
        a = a.repeat(1, num_samples, 1)
        for i, (matrix, bias) in enumerate(zip(self._values.matrices, self._values.biases, strict=True)):
            a = self._act(a) if i else a
            noise = bulk_noise(a.shape, dtype=a.dtype, device=a.device)
            a = torch.baddbmm(
                bias.unsqueeze(1), a * noise.ge_(p[:, i, None, None]).mul_(full[:, i, None, None]), matrix.mT
            )
        if self.log_variances is None:
            return a
        return torch.cat([a, self.log_variances.detach().unsqueeze(1).expand_as(a)], dim=-1)

    def noises(self) -> list[Tensor]:
        """Log variances of the `gumdrop.HomoscedasticNoise` of the models, each of shape (D,); not copies."""
        return [] if self.log_variances is None else list(self.log_variances.detach())

    def groups(self, weight_decay: float, rate_lr: float) -> list[dict[str, Any]]:
        """The parameter groups of one model, with stacked parameters in them, see `gumdrop.parameter_groups`."""
        groups: list[dict[str, Any]] = [{"params": [self.weights], "weight_decay": weight_decay}]
        rates = [] if self._is_fixed else [self.scaled_logits]
        groups.append({"params": rates, "weight_decay": 0.0, "lr": rate_lr, "eps": RATE_EPS})
        if self.log_variances is not None and self.log_variances.requires_grad:
            groups.append({"params": [self.log_variances], "weight_decay": 0.0})
        return groups

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model."""
        return [dict(zip(self._names, row, strict=True)) for row in self._rates().p.tolist()]

    def states(self) -> list[dict[str, Tensor]]:
        """What is trained of each model, under the names of a single one; slices, not copies."""
        stacked = {f"{n}.weight": w for n, w in zip(self._names, self._values.matrices, strict=True)}
        stacked |= {f"{n}.bias": b for n, b in zip(self._names, self._values.biases, strict=True)}
        logits = self.scaled_logits.detach().unbind(1)
        stacked |= {f"{n}.{SITE}.scaled_logit": p for n, p in zip(self._names, logits, strict=True)}
        if self.log_variances is not None:
            stacked[f"{self._noise_name}.log_variance"] = self.log_variances.detach()
        return [{name: value[i] for name, value in stacked.items()} for i in range(len(self.scaled_logits))]
