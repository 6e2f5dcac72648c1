"""Which part decides between two near classes: a 4 or a 9, a 3 or a 5, a 1 or a 7?

A digit and the nearest digit of the other class are two pictures that a mask can mix. FIDO is asked which pixels have
to be those of the other for the answer to change. Every method is judged in one way: the share of pixels, most relevant
first, that have to be replaced before the answer changes.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="which pixels decide between a 4 and a 9, a 3 and a 5, a 1 and a 7, and how few they are",
    minutes=(5, 1),
    source="none on these data; the question is that of Korsch, Shadaydeh & Denzler 2023 (arXiv:2307.14825)",
    data=("mnist",),
)


class Settings(BaseSettings):
    images: int = flag(4, least=1, quick=2)
    """Test images of each digit of a pair."""
    iterations: int = flag(100, least=1, quick=40)
    """Steps of each search for masks."""
    classifier_steps: int = flag(900, least=1, quick=200)
    """Batches that the classifier is trained on."""
