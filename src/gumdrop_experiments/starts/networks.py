"""Networks of `starts`: with a rate that begins somewhere, and with a temperature that is learned."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.layers import UNIT, ConcreteDropout, dropout_blocks
from gumdrop.networks import mlp
from gumdrop_experiments.training import seeded

UNIFORM = "logits in [-2, 0]"
STARTS: dict[str, float | None] = {f"{p:g}": p for p in (0.01, 0.05, 0.1, 0.2, 0.5)} | {UNIFORM: None}
"""Rates of all layers at the beginning; None draws a logit for each layer, uniform in [-2, 0]: rates of .12 to .5."""
DEFAULT = "0.1"
"""Where rates begin unless told otherwise."""


def network(
    num_inputs: int, num_classes: int, hidden: tuple[int, ...], *, seed: int, start: str = DEFAULT, temperature: float
) -> nn.Sequential:
    """Build a dense network; the same seed gives the same weights whatever the start."""
    with seeded(seed):
        built = mlp(num_inputs, num_classes or 1, hidden=hidden, homoscedastic_noise=not num_classes)
        for block in dropout_blocks(built):
            block.site.temperature = temperature  # not through `mlp`, which warns of high ones
            p = STARTS[start]
            block.site.start_at(torch.sigmoid(-2 * torch.rand(())).item() if p is None else p)
    return built


class LearnedTemperature(nn.Module):
    """A network whose relaxed masks have one temperature, which is learned with the weights."""

    def __init__(self, network: nn.Module, start: float) -> None:
        super().__init__()
        self.network = network
        self.scaled_log = nn.Parameter(torch.tensor(start).log() / UNIT)
        self._sites = [block.site for block in dropout_blocks(network)]

    @property
    def temperature(self) -> Tensor:
        """The temperature; its logarithm is learned in units of ten, as logits are."""
        return torch.exp(UNIT * self.scaled_log)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the output, under relaxed masks in training where nobody else gives factors."""
        mine = self.training and all(site.factor_source is None for site in self._sites)
        for site in self._sites if mine else ():
            site.factor_source = self._factor
        try:
            output: Tensor = self.network(x)
        finally:
            for site in self._sites if mine else ():
                site.factor_source = None
        return output

    def _factor(self, site: ConcreteDropout, x: Tensor) -> Tensor:
        noise = site.fresh_noise(site.rows_of(x), x.device)
        decision = (torch.logit(noise, eps=1e-7) - site.p_logit) / self.temperature
        return torch.exp(F.logsigmoid(decision) + F.softplus(site.p_logit))
