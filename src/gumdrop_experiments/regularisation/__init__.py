"""Dropout as a regulariser: test errors of five networks over training, and of twins that learn their rates.

The five are those of a tutorial: a perceptron of 2 x 800 tanh units with three settings of dropout, and LeNet with and
without. The twins start from the networks without dropout; for one of each kind held-out images choose the strength.
All take plain stochastic gradient descent with batches of 128 and a constant learning rate, as the tutorial does.

References:
    Xu, Zhao & Zhao 2018, "Tutorial: Dropout as Regularization and Bayesian Approximation"
    (https://github.com/xuwd11/Dropout_Tutorial_in_PyTorch).
    Hinton et al. 2012, "Improving neural networks by preventing co-adaptation" (arXiv:1207.0580).
    LeCun, Bottou, Bengio & Haffner 1998, "Gradient-based learning applied to document recognition" (Proc. IEEE 86).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="test errors of dense networks and LeNet over training: no dropout, fixed rates, learned rates",
    minutes=(430, 1),
    source="Xu, Zhao & Zhao's tutorial: 187, 166 and 127 errors, LeNet 110 and 70; Hinton et al. 2012 "
    "(arXiv:1207.0580): 160, 130 and 110, from memory",
    data=("mnist",),
)

PUBLISHED = {
    "perceptron-none": "189.0 → 187.4",
    "perceptron-both": "135.4 → 126.7",
    "perceptron-hidden": "175.4 → 165.8",
    "lenet-none": "109.7",
    "lenet-half": "69.7",
}
"""Errors in the tutorial's own record, mlp1_test_errors.txt and lenet1_test_errors.txt: means of epochs 191 to 200 and
1,491 to 1,500, of LeNet the latter."""


class Settings(BaseSettings):
    epochs: int | None = flag(None, least=1)
    """Passes over the training images for the perceptrons; 200 by default, 2 with --quick."""
    lenet_epochs: int | None = flag(None, least=1)
    """The same for LeNet, which takes four times as long; 60 by default, 2 with --quick."""
    lenet_lr: float = flag(0.1, positive=True)
    """Learning rate of LeNet. The tutorial has .01 and 1,500 epochs."""
    networks: tuple[str, ...] = flag(
        (), recorded=False, known=("network", "gumdrop_experiments.regularisation.study.NETWORKS")
    )
    """Networks to train now, such as lenet-none; all by default. More of them can be added with --resume."""
