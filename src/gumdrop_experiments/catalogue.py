"""Published results, one file each, to be read top to bottom; `gumdrop reproduce NAME` runs one.

An experiment is a function of `gumdrop_experiments.harness.options.RunOptions` and of flags of its own. It opens a
`gumdrop_experiments.harness.run.Run` with a ``with`` statement, computes its parts, draws its figures from them and
finishes with its results and its page. Its entry in `EXPERIMENTS` makes it a command.
"""

from dataclasses import dataclass

__all__ = ["EXPERIMENTS", "Experiment"]


@dataclass(frozen=True)
class Experiment:
    """What there is to say of an experiment before it is run."""

    name: str
    """Its name on the command line."""
    shows: str
    """What it shows, in one line."""
    minutes: float
    """How long it takes on two CPU cores."""
    quick_minutes: float
    """How long it takes with `--quick`."""
    source: str
    """Where the published figures come from."""
    function: str
    """The function, as ``module:name``, imported when it is run."""


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="line",
        shows="a noisy line from 10 to 10,000 points: noise, ignorance and the learned rates against the truth",
        minutes=20,
        quick_minutes=1,
        source="stored runs of Gal, Hron & Kendall 2017 (arXiv:1705.07832), Fig. 1",
        function="gumdrop_experiments.line.study:line",
    ),
    Experiment(
        name="uci",
        shows="learned dropout with nothing to tune against a grid search over rate and noise, on UCI regression",
        minutes=60,
        quick_minutes=2,
        source="Gal, Hron & Kendall 2017, table 1; Gal & Ghahramani 2016, its authors' clean grid search of 2018",
        function="gumdrop_experiments.uci.study:uci",
    ),
    Experiment(
        name="tuning",
        shows="how the default for tables was chosen: variants of it, on training parts alone",
        minutes=60,
        quick_minutes=2,
        source="none; the candidates and their reasons are in docs/method.md",
        function="gumdrop_experiments.tuning.study:tuning",
    ),
    Experiment(
        name="tables",
        shows="the estimators as they come beside Gaussian processes, linear models, boosted trees and MC dropout",
        minutes=40,
        quick_minutes=1,
        source="none; scikit-learn's models in the same run",
        function="gumdrop_experiments.tables.study:tables",
    ),
    Experiment(
        name="decisions",
        shows="what uncertainty is good for: which rows to label next, which to distrust, and what more data change",
        minutes=15,
        quick_minutes=1,
        source="none; plain choices and scikit-learn's detectors in the same run",
        function="gumdrop_experiments.decisions.study:decisions",
    ),
    Experiment(
        name="attribution",
        shows="which pixels suffice for a prediction and which destroy it, beside Captum's methods",
        minutes=15,
        quick_minutes=3,
        source="Chang et al. 2019 (arXiv:1807.08024); Korsch et al. 2023 (arXiv:2307.14825); no table on these data",
        function="gumdrop_experiments.attribution.study:attribution",
    ),
    Experiment(
        name="gradients",
        shows="bias, variance and norms of gradient estimators for dropout rates, and whether they matter",
        minutes=6,
        quick_minutes=2,
        source="supplement of Korsch et al. 2023 (arXiv:2307.14825): norms over 100 steps of 30 runs, as curves",
        function="gumdrop_experiments.gradients.study:gradients",
    ),
    Experiment(
        name="transformers",
        shows="a small BERT on film reviews and a small GPT on sums in words: no, fixed and learned dropout",
        minutes=80,
        quick_minutes=1,
        source="none: nobody has learned dropout in transformers",
        function="gumdrop_experiments.transformers.study:transformers",
    ),
    Experiment(
        name="mnist",
        shows="learned rates against searched ones on MNIST, from a thousand images to sixty thousand",
        minutes=30,
        quick_minutes=1,
        source="Gal, Hron & Kendall 2017, section 4.3 (98.6 %, from memory); a replication report (98 %)",
        function="gumdrop_experiments.mnist.study:mnist",
    ),
    Experiment(
        name="regularisation",
        shows="test errors of dense networks and LeNet over training: no dropout, fixed rates, learned rates",
        minutes=170,
        quick_minutes=1,
        source="Xu, Zhao & Zhao's tutorial: 187, 166 and 127 errors, LeNet 110 and 70; Hinton et al. 2012 "
        "(arXiv:1207.0580): 160, 130 and 110, from memory",
        function="gumdrop_experiments.regularisation.study:regularisation",
    ),
    Experiment(
        name="rotation",
        shows="a digit that turns: softmax inputs and outputs of drawn functions, and where the doubt comes from",
        minutes=6,
        quick_minutes=1,
        source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.2: a figure, no numbers",
        function="gumdrop_experiments.rotation.study:rotation",
    ),
    Experiment(
        name="co2",
        shows="extrapolating CO2 by drawn functions and Gaussian processes, scored against what came to pass",
        minutes=10,
        quick_minutes=1,
        source="Gal & Ghahramani 2016 (arXiv:1506.02142), section 5.1: a figure, no numbers",
        function="gumdrop_experiments.co2.study:co2",
    ),
    Experiment(
        name="cartpole",
        shows="a pole swung up from few trials, in a model whose learned rates fall as the data grow",
        minutes=50,
        quick_minutes=1,
        source="Gal, McAllister & Rasmussen 2016, DeepPILCO: a cumulative reward near 16.5 of 25",
        function="gumdrop_experiments.cartpole.study:cartpole",
    ),
    Experiment(
        name="camvid",
        shows="street scenes: an FC-DenseNet that shows where it is unsure, with no, fixed and learned dropout",
        minutes=300,
        quick_minutes=2,
        source="Gal, Hron & Kendall 2017, section 4; Jégou et al. 2017 (arXiv:1611.09326)",
        function="gumdrop_experiments.camvid.study:camvid",
    ),
    Experiment(
        name="g2p",
        shows="from letters to phones (CMUdict): fixed, broken and learned rates, and doubt that announces errors",
        minutes=150,
        quick_minutes=3,
        source="a replication report on Concrete Dropout in LSTMs; literature on CMUdict",
        function="gumdrop_experiments.g2p.study:g2p",
    ),
    Experiment(
        name="sentiment",
        shows="an LSTM on film reviews (SST-2): learned rates, of word types too, against a grid of fixed ones",
        minutes=90,
        quick_minutes=1,
        source="Socher et al. 2013; Gal & Ghahramani 2016 (arXiv:1512.05287)",
        function="gumdrop_experiments.sentiment.study:sentiment",
    ),
)
"""All of them, in the order of the list."""
