"""What did it look at: FIDO beside Captum's methods (Chang et al. 2019; Korsch, Shadaydeh & Denzler 2023).

On planted evidence the truth is known: a matched filter whose only evidence is one square. On digits, curves of
insertion and deletion compare methods under the same infill. The photographs have no labels, so their network tells
crops of pictures apart, and its masks show by what it does.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="which pixels suffice for a prediction and which destroy it, beside Captum's methods",
    minutes=(14, 3),
    source="Chang et al. 2019 (arXiv:1807.08024); Korsch et al. 2023 (arXiv:2307.14825); no table on these data",
    data=("mnist", "images"),
    threads=None,
)


class Settings(BaseSettings):
    num_images: int = flag(60, least=1, quick=20)
    """Digits for the curves; the first twenty are shown."""
    iterations: int = flag(100, least=1, quick=40)
    """Steps of each search for masks."""
