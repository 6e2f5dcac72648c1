"""Learned rates where a network has dropout: the adapters of a frozen BERT, and the paths of a ResNet and a ViT.

No pre-trained weights can be fetched here, so the BERT is a small one that has learned the sentiment of phrases. LoRA
adapters and a new head learn that of whole sentences, with rates that are fixed, learned or those of masks on the
adapters' ranks. The paths of the others are dropped by the usual rule, rates that rise with depth, or at learned rates,
whose entropy held-out rows weigh: a path has a single unit (`docs/method.md`).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="rates for LoRA adapters on few sentences, and for the paths of a ResNet and a ViT beside the linear rule",
    minutes=(60, 2),
    source="none; Huang et al. 2016 (arXiv:1603.09382) have the linear rule, DALorRA (arXiv:2607.02182) masks of ranks",
    data=("mnist", "sst"),
)


class Settings(BaseSettings):
    seeds: int = flag(5, least=1, quick=1)
    """Samples of sentences, and adapters trained on each."""
    few: int = flag(500, least=32, quick=60)
    """Sentences to adapt to."""
    more: int = flag(2000, least=32, quick=80)
    """The same, for a second time."""
    base_steps: int = flag(1000, least=1, quick=20)
    """Steps in which the BERT learns phrases."""
    steps: int = flag(400, least=1, quick=4)
    """Steps of the adapters."""
    images: int = flag(1000, least=50, quick=60)
    """Images to train on."""
    image_seeds: int = flag(3, least=1, quick=1)
    """Samples of images, and networks trained on each."""
    epochs: int = flag(10, least=1, quick=1)
    """Passes over them."""
