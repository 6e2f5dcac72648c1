"""Segment street scenes (CamVid): no, fixed and learned dropout in an FC-DenseNet that shows where it is unsure.

Beside them stand networks with learned rates and an aleatoric head.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="street scenes: an FC-DenseNet that shows where it is unsure, with no, fixed and learned dropout",
    minutes=(300, 2),
    source="Gal, Hron & Kendall 2017, section 4; Jégou et al. 2017 (arXiv:1611.09326)",
    data=("camvid",),
    threads=None,
)

VARIANTS = ("none", "fixed 0.2", "learned", "learned, aleatoric head")
ALL_VARIANTS = (*VARIANTS, "learned from 0.05", "learned from 0.01")
"""With those that are trained only when asked for."""
BY_CLASS = {
    "none": ("none", "no_draws"),
    "fixed 0.2, draws": ("fixed 0.2", "draws"),
    "learned, no draws": ("learned", "no_draws"),
    "learned, draws": ("learned", "draws"),
}
"""What is shown class by class: a variant, and whether its functions are drawn, by what stands in a legend."""


class Settings(BaseSettings):
    network: str = flag("small", known=("network", "gumdrop_experiments.networks.segmentation.NETWORKS"))
    """FC-DenseNet 56, 67 or 103 as published, small for computers without a GPU, or unet, a plain U-Net."""
    height: int = flag(180, least=1, quick=90)
    """Pixels that pictures are brought to."""
    width: int = flag(240, least=1, quick=120)
    """The same for their width."""
    crop: int = flag(96, least=1, quick=64)
    """Height and width of the random crops to train with."""
    epochs: int = flag(30, least=1, quick=2)
    """Passes over the pictures, a crop of each."""
    seeds: int = flag(3, least=1, quick=1)
    """Networks trained in each way."""
    batch_size: int = flag(4, least=1)
    """Crops in a batch."""
    num_samples: int = flag(10, least=1, quick=4)
    """Functions drawn for a prediction."""
    pictures: int | None = flag(None, least=1, quick=24)
    """Use this many pictures of each part; all if None."""
    lengthscale: float = 1.0
    """Of the prior."""
    regularisers: tuple[float, float] | None = flag(None, positive=True)
    """Factors on the squared weights and on the entropy of the masks, for learned rates, in the place of the prior and
    of the ELBO's own: 1e-8 1 in the report."""
    bfloat16: bool = False
    """Train and predict in bfloat16 where that is safe."""
    validate_every: int = flag(3, least=1)
    """Epochs from one look at the validation pictures to the next. A look costs two fifths of an epoch."""
    variants: tuple[str, ...] = flag((), recorded=False, known=("variant", "gumdrop_experiments.camvid.ALL_VARIANTS"))
    """Ways to train now, in this order: none, fixed 0.2, learned and learned, aleatoric head, by default; also learned
    from 0.05 and learned from 0.01, which begin with other rates than .1. More of them can be added with --resume."""
    draws: bool = flag(False, recorded=False)
    """Score networks with fixed 0.2 and with learned rates also by other statistics of their batch normalisation, by
    averages of probabilities and of logits, and by fewer draws."""
    threads: int | None = flag(1, recorded=False)
    """Of the processor; as torch would have it if None."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.crop > min(self.height, self.width):
            raise ValueError(
                f"`crop` must be at most `height` and `width`, got {self.crop} for {self.height} x {self.width}"
            )
