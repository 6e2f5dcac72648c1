"""The flags of `camvid`."""

from dataclasses import dataclass, field, replace
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, check_regularisers, known

VARIANTS = ("none", "fixed 0.2", "learned", "learned, aleatoric head")
"""Ways to set the rates."""
ALL_VARIANTS = (*VARIANTS, "learned from 0.05", "learned from 0.01")
"""With those that are trained only when asked for."""
BY_CLASS = {
    "none": ("none", "no_draws"),
    "fixed 0.2, draws": ("fixed 0.2", "draws"),
    "learned, no draws": ("learned", "no_draws"),
    "learned, draws": ("learned", "draws"),
}
"""What is shown class by class: a variant, and whether its functions are drawn, by what stands in a legend."""


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `camvid`."""

    network: str = "small"
    """FC-DenseNet 56, 67 or 103 as published, small for computers without a GPU, or unet, a plain U-Net."""
    height: int = 180
    """Pixels that pictures are brought to."""
    width: int = 240
    """The same for their width."""
    crop: int = 96
    """Height and width of the random crops to train with."""
    epochs: int = 30
    """Passes over the pictures, a crop of each."""
    seeds: int = 3
    """Networks trained in each way; with an aleatoric head, which is only shown beside them, one."""
    fits: int = 3
    """Networks trained with learned rates, to see whether these come out alike; at least seeds of them."""
    batch_size: int = 4
    """Crops in a batch."""
    num_samples: int = 10
    """Functions drawn for a prediction."""
    pictures: int | None = None
    """Use this many pictures of each part; all if None."""
    lengthscale: float = 1.0
    """Of the prior."""
    regularisers: tuple[float, float] | None = None
    """Factors on the squared weights and on the entropy of the masks, for learned rates, in the place of the prior and
    of the ELBO's own: 1e-8 1 in the report."""
    bfloat16: bool = False
    """Train and predict in bfloat16 where that is safe."""
    validate_every: int = 3
    """Epochs from one look at the validation pictures to the next. A look costs two fifths of an epoch."""
    variants: tuple[str, ...] = field(default=(), metadata={"recorded": False})
    """Ways to train now, in this order: none, fixed 0.2, learned and learned, aleatoric head, by default; also learned
    from 0.05 and learned from 0.01, which begin with other rates than .1. More of them can be added with --resume."""
    threads: int | None = field(default=1, metadata={"recorded": False})
    """Of the processor; as torch would have it if None."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "height", "width", "crop", "epochs", "seeds", "fits", "batch_size", "num_samples", "pictures")
        at_least(self, 1, "validate_every")
        check_regularisers(self.regularisers)
        if self.crop > min(self.height, self.width):
            raise ValueError(
                f"`crop` must be at most `height` and `width`, got {self.crop} for {self.height} x {self.width}"
            )

    def for_run(self, options: RunOptions) -> Self:
        """Check the names."""
        from gumdrop_experiments.camvid.networks import NETWORKS

        known("network", (self.network,), NETWORKS)
        known("variant", self.variants, ALL_VARIANTS)
        return super().for_run(options)

    def quick(self) -> Self:
        """Return settings for one network of each kind, on two dozen small pictures."""
        return replace(
            self,
            height=90,
            width=120,
            crop=64,
            epochs=min(self.epochs, 2),
            seeds=1,
            fits=1,
            num_samples=min(self.num_samples, 4),
            pictures=min(self.pictures or 24, 24),
        )
