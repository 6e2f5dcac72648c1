"""Ways to tell rows that are like none of the data: what functions disagree on, and distances of features.

References:
    Lee et al. 2018, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks"
    (NeurIPS, arXiv:1807.03888), for a Gaussian of each class with one covariance.
    Mukhoti et al. 2021, "Deep Deterministic Uncertainty: A Simple Baseline" (arXiv:2102.11582), for one with its own.
    Sun et al. 2022, "Out-of-Distribution Detection with Deep Nearest Neighbors" (ICML, arXiv:2204.06507).
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import ClassificationPrediction, Likelihood
from gumdrop.prediction import FeatureDistance
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.injected.tasks import Task
from gumdrop_experiments.shared import auroc

Score = Callable[[Tensor], Tensor]
DOUBT, DENSITY, OWN_DENSITY, NEAREST, DISTANCE = "doubt", "tied density", "density", "nearest", "distance"
FAR = {
    DOUBT: "entropy, or variance",
    "fit_rates": "epistemic, rates of fit_rates",
    "Laplace": "epistemic, Laplace",
    "ensemble": "epistemic, ensemble",
    DENSITY: "last features, classes share a covariance",
    OWN_DENSITY: "last features, each class with its own",
    NEAREST: "last features, nearest neighbours",
    DISTANCE: "distance of fit_rates",
}
NEIGHBOUR = 5
"""Training row whose distance counts, from the nearest one on."""
ALARM = 0.05
ROWS_AT_ONCE = 500


def epistemic(likelihood: Likelihood, outputs: Score, x: Tensor) -> Tensor:
    """Say what drawn functions disagree on: the mutual information of classes, the variance of means of numbers."""
    draws = outputs(x)
    prediction = likelihood.predict([draws], len(draws))
    has_classes = isinstance(prediction, ClassificationPrediction)
    spread: Tensor = prediction.mutual_information if has_classes else prediction.epistemic
    return spread.flatten(1).mean(1) if spread.ndim > 1 else spread


def far_scores(task: Task, network: nn.Module, distance: FeatureDistance | None, scores: Mapping[str, Score]) -> Plain:
    """Score each way by the area under the curve, and ours by its alarms at 5 %; rivals fit training rows."""
    scores = dict(scores)
    layers = [module for module in network.modules() if type(module) is nn.Linear]
    if layers:
        scores |= _of_last_features(network, layers[-1], task)
    results: Plain = {way: {"auroc": auroc(score(task.test[0]), score(task.strange))} for way, score in scores.items()}
    if distance is not None:
        rows = task.test[0], task.strange
        known, strange = (distance.scores(network, x, ROWS_AT_ONCE) for x in rows)
        false, found = ((distance.p_values(network, x, ROWS_AT_ONCE) <= ALARM).float().mean().item() for x in rows)
        results[DISTANCE] = {"auroc": auroc(known, strange), "false_alarms": false, "found": found}
    return results


@torch.no_grad()
def _of_last_features(network: nn.Module, layer: nn.Linear, task: Task) -> dict[str, Score]:
    def features(x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        hook = layer.register_forward_pre_hook(lambda layer, args: seen.append(args[0].detach()))
        for part in x.split(ROWS_AT_ONCE):
            network.eval()(part)
        hook.remove()
        return torch.cat(seen).double()

    known, y = features(task.train[0]), task.train[1]
    classes = y if task.has_classes else torch.zeros(len(known), dtype=torch.long)
    unit = nn.functional.normalize(known)

    def nearest(x: Tensor) -> Tensor:
        return torch.cdist(nn.functional.normalize(features(x)), unit).kthvalue(NEIGHBOUR, dim=1).values.float()

    shared, own = (gaussians(known, classes, is_shared=each) for each in (True, False))
    return {
        DENSITY: lambda x: shared(features(x)),
        OWN_DENSITY: lambda x: own(features(x)),
        NEAREST: nearest,
    }


def gaussians(known: Tensor, classes: Tensor, *, is_shared: bool) -> Score:
    """Fit a Gaussian to each class with shrunken covariances: the nearest one, or their mixture, gives the score."""
    from sklearn.covariance import LedoitWolf

    groups = [known[classes == each] for each in classes.unique() if (classes == each).sum() > 1]
    means = torch.stack([group.mean(0) for group in groups])
    centred = [group - mean for group, mean in zip(groups, means, strict=True)]
    parts = [torch.cat(centred)] if is_shared else centred
    covariances = [torch.as_tensor(LedoitWolf(assume_centered=True).fit(part.numpy()).covariance_) for part in parts]
    tiny = 1e-9 * torch.eye(known.shape[1], dtype=torch.float64)
    of_groups = [
        torch.distributions.MultivariateNormal(mean, covariances[0 if is_shared else i] + tiny)
        for i, mean in enumerate(means)
    ]
    shares = torch.tensor([len(group) / len(known) for group in groups], dtype=torch.float64).log()

    def score(features: Tensor) -> Tensor:
        log_p = torch.stack([each.log_prob(features) for each in of_groups], dim=1)
        return -(log_p.max(1).values if is_shared else (log_p + shares).logsumexp(1))

    return score
