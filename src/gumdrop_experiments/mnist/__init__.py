"""Learned rates against searched ones on MNIST."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Learned rates against searched ones on MNIST, from a thousand images to all of them.",
    shows="learned rates against searched ones on MNIST, from a thousand images to sixty thousand",
    minutes=30,
    quick_minutes=1,
    source="Gal, Hron & Kendall 2017, section 4.3 (98.6 %, from memory); a replication report (98 %)",
    data=("mnist",),
)
