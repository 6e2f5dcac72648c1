"""MNIST: rates that are learned against rates that are searched for, from a thousand images to all sixty thousand.

A network of 3 x 512 units learns its four rates with its weights; beside it stands fixed dropout, whose two rates
(inputs, hidden units) are chosen at each size on a part of the training images. Nothing is chosen on a test image.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832), section 4.3.
    Srivastava et al. 2014, "Dropout" (JMLR 15), for the fixed rates that are usual on MNIST.
"""

from gumdrop_experiments.harness import About, BaseSettings, Plain, flag

ABOUT = About(
    shows="learned rates against searched ones on MNIST, from a thousand images to sixty thousand",
    minutes=(50, 1),
    source="Gal, Hron & Kendall 2017, section 4.3 (98.6 %, from memory); a replication report (98 %)",
    data=("mnist",),
)


class Settings(BaseSettings):
    sizes: tuple[int, ...] = ()
    """Numbers of training images; by default 1,000, 4,000, 15,000 and 60,000."""
    seeds: int = flag(3, least=1, quick=1)
    """Networks of each kind and size."""
    epochs: int | None = flag(None, least=1)
    """Passes over 60,000 images; more over fewer images. 12 by default, 1 with --quick."""
    num_samples: int = flag(30, least=1)
    """Draws of a prediction."""

    def recorded(self) -> Plain:
        """Return what identifies a run; no sizes are None, as the study chooses them."""
        return super().recorded() | {"sizes": self.sizes or None}
