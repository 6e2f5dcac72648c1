"""MNIST: rates that are learned against rates that are searched for, from a thousand images to all sixty thousand.

A network of 3 x 512 units learns its four rates with its weights; beside it stands fixed dropout, whose two rates
(inputs, hidden units) are chosen at each size on a part of the training images. Nothing is chosen on a test image.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832), section 4.3.
    Srivastava et al. 2014, "Dropout" (JMLR 15), for the fixed rates that are usual on MNIST.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Learned rates against searched ones on MNIST, from a thousand images to all of them.",
    shows="learned rates against searched ones on MNIST, from a thousand images to sixty thousand",
    minutes=50,
    quick_minutes=1,
    source="Gal, Hron & Kendall 2017, section 4.3 (98.6 %, from memory); a replication report (98 %)",
    data=("mnist",),
)
