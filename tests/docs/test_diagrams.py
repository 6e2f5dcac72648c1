"""The diagrams of the theory show the networks that are trained."""

from torch import nn

from gumdrop import learn_dropout
from gumdrop.layers import dropout_blocks
from gumdrop_experiments.networks.convolutional import tutorial_lenet

import builders.generated  # noqa: F401  which lets the modules of docs/figures be imported

import diagrams  # isort: skip


def test_the_diagram_of_lenet_is_that_of_the_network() -> None:
    lenet = tutorial_lenet()
    drawn = [channels for name, _, channels, _ in diagrams.LENET if name not in ("image", "max pooling")]
    layers = [module for module in lenet.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert drawn == [getattr(layer, "out_channels", None) or layer.out_features for layer in layers]
    learn_dropout(lenet, report=lambda report: None)
    units = [block.site.num_units for block in dropout_blocks(lenet)]
    said = [int(dropped.split()[0].replace(",", "")) for *_, dropped in diagrams.LENET if dropped]
    assert said == units[-3:]


def test_a_thinned_network_has_a_mask_for_each_layer() -> None:
    assert [len(of_layer) for of_layer in diagrams.KEPT] == list(diagrams.WIDTHS)
    assert all(diagrams.KEPT[-1])
