"""Give sites the factors that they multiply their inputs by, in place of fresh ones: the only way to do so.

A site asks its ``factor_source``, whatever the mode of the model: a drawn function gives it Bernoulli masks of its own
stream of noise, many draws at once what they hold for it, an exported graph masks of the noise that is its input.
"""

import contextlib
from collections.abc import Callable, Iterator

from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers.site import ConcreteDropout, FactorSource, sites_of


def bernoulli_factors(noise: Callable[[ConcreteDropout, int], Tensor]) -> FactorSource:
    """Make a source of Bernoulli masks of the uniform noise of a site for some rows: (rows, K), or (1, K) to share."""

    def source(site: ConcreteDropout, x: Tensor) -> Tensor:
        return dropout_scale(site.p_logit, sent(noise(site, site.rows_of(x)), x.device), hard=True)

    return source


@contextlib.contextmanager
def factors_from(source: FactorSource | None, model: nn.Module) -> Iterator[None]:
    """Context in which the sites of a model multiply by given factors; None leaves that to the sites."""
    before = [(site, site.factor_source) for site in sites_of(model)]
    try:
        for site, _ in before:
            site.factor_source = source
        yield
    finally:
        for site, own in before:
            site.factor_source = own
