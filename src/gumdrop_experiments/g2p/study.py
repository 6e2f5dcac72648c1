"""Say written words (CMUdict): the report's network with its broken setting and ours, and one that is worth using.

The report's learned dropout failed: its regulariser was never added to the loss and a new mask was drawn at each time
step. Here the same network stands in both settings beside fixed rates. The second network attends to the letters; drawn
functions rank its ways to say a word, and where they disagree it tends to be wrong.
"""

import functools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import fix_dropout, learn_dropout
from gumdrop.objective.kl import Lengthscale
from gumdrop.prediction import predict_classification
from gumdrop.training import FitResult, fit
from gumdrop_experiments.data.texts import CMUDICT, Pronunciation, Vocabulary, part_of_word, read_cmudict
from gumdrop_experiments.g2p import figures
from gumdrop_experiments.g2p.decoding import beam_search, count_errors, judge
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import START, part_name, rate_of
from gumdrop_experiments.networks.spellers import ByLength, PerStepDropout, PooledReader, Speller, phone_nll

__all__ = ["g2p"]

BATCH_SIZE, MAX_NORM = 128, 5.0
NO_KL = 10**12
"""So many data that the KL of each counts for nothing: how the report forgot it."""
BEAM, WORDS_AT_ONCE, VALIDATION_WORDS = 5, 200, 1000
POOLED = ("fixed 0", "fixed 0.1", "fixed 0.2", "fixed 0.3", "fixed 0.4", "broken", "learned")
SPELLERS = ("learned", "fixed 0.2")

Result = dict[str, Any]


def g2p(
    options: RunOptions = RunOptions(),
    *,
    stress: bool = False,
    words: int | None = None,
    pooled_epochs: int = 5,
    epochs: int = 16,
    num_samples: int = 20,
    test_words: int = 2000,
    lengthscale: Lengthscale = 7.0,
) -> None:
    """Turn letters into phones: the report's network at fixed, broken and learned rates, and one with attention.

    Args:
        options: The flags that all experiments share.
        stress: Keep the digits that mark stress on vowels.
        words: Train on so many pronunciations; all if None.
        pooled_epochs: Passes over the data for each setting of the report's network.
        epochs: Passes over the data for the network with attention.
        num_samples: Functions drawn to judge ways to say a word.
        test_words: Words to test with, the first of the test part.
        lengthscale: Of the prior of the network with attention: a number, fan_in or weak.

    Raises:
        ValueError: If a number is below 1.
    """
    if min(words or 1, pooled_epochs, epochs, num_samples, test_words) < 1:
        raise ValueError(
            "`words`, `pooled_epochs`, `epochs`, `num_samples` and `test_words` must be at least 1, got "
            f"{words}, {pooled_epochs}, {epochs}, {num_samples} and {test_words}"
        )
    if options.quick:
        words, pooled_epochs, epochs = min(words or 6000, 6000), min(pooled_epochs, 1), min(epochs, 4)
        num_samples, test_words = min(num_samples, 5), min(test_words, 200)
    folder = data_folder(options, "g2p", sources=CMUDICT, files=[CMUDICT[0].name])
    own: dict[str, Any] = {"stress": stress, "words": words, "pooled_epochs": pooled_epochs, "epochs": epochs}
    own |= {"num_samples": num_samples, "test_words": test_words, "lengthscale": lengthscale}
    with Run("g2p", options, own) as run, limited_threads(1):
        data = _Data(folder, stress, words, test_words)
        # The longest comes first, so that with several processes the others share the rest.
        work = {
            part_name("speller", arm): functools.partial(
                _train_speller, run, data, arm, epochs, num_samples, lengthscale
            )
            for arm in SPELLERS
        }
        work |= {part_name(arm): functools.partial(_pooled, run, data, arm, pooled_epochs) for arm in POOLED}
        done = run.parts(work)
        results = {
            "data": data.counts,
            "pooled": {arm: done[part_name(arm)] for arm in POOLED},
            "spellers": {arm: done[part_name("speller", arm)] for arm in SPELLERS},
        }
        run.figure("g2p-pooled", figures.pooled(results))
        run.figure("g2p-spellers", figures.spellers(results))
        run.figure("g2p-doubt", figures.doubt(results))
        run.finish(results, figures.page(results))


class _Data:
    """Words and phones as numbers, in the parts that SHA-256 puts words into."""

    def __init__(self, folder: Path, stress: bool, words: int | None, test_words: int) -> None:
        entries = read_cmudict(folder, stress=stress)
        parts: dict[str, list[Pronunciation]] = {"train": [], "validation": [], "test": []}
        for entry in entries:
            parts[part_of_word(entry.word)].append(entry)
        self.counts = {name: len(part) for name, part in parts.items()}
        self._letters = Vocabulary([entry.word for entry in entries])
        names = sorted({phone for entry in entries for phone in entry.phones})
        self.phones = ("", "start", "end", *names)
        self._numbers = {name: number for number, name in enumerate(self.phones)}
        self.width = max(len(entry.word) for entry in entries)
        self.longest = max(len(entry.phones) for entry in entries) + 1
        train = parts["train"]
        # Evenly over the dictionary, which is sorted.
        self.train = train if words is None else train[:: max(1, len(train) // words)][:words]
        self.validation = parts["validation"][:: max(1, len(parts["validation"]) // VALIDATION_WORDS)]
        self.references: dict[str, list[tuple[int, ...]]] = {}
        for entry in parts["test"]:
            self.references.setdefault(entry.word, []).append(self._said(entry))
        step = max(1, len(self.references) // test_words)
        self.test_words = list(self.references)[::step][:test_words]

    @property
    def num_letters(self) -> int:
        return len(self._letters)

    def _said(self, entry: Pronunciation) -> tuple[int, ...]:
        return tuple(self._numbers[phone] for phone in entry.phones)

    def letters(self, words: Sequence[str]) -> Tensor:
        """Number the letters of words, shape (N, width)."""
        encoded = self._letters.encode(words)
        return nn.functional.pad(encoded, (0, self.width - encoded.shape[1]))

    def targets(self, entries: Sequence[Pronunciation]) -> Tensor:
        """Number the phones of words and their ends, shape (N, longest)."""
        rows = torch.zeros(len(entries), self.longest, dtype=torch.long)
        for row, entry in zip(rows, entries, strict=True):
            said = self._said(entry)
            row[: len(said) + 1] = torch.tensor([*said, Speller.END])
        return rows

    def spelled(self, entries: Sequence[Pronunciation]) -> tuple[Tensor, Tensor]:
        """Rows and targets of a `Speller`."""
        targets = self.targets(entries)
        start = torch.full((len(entries), 1), Speller.START)
        said = targets[:, :-1] * (targets[:, 1:] != 0)
        return torch.cat([self.letters([entry.word for entry in entries]), start, said], dim=1), targets

    def pooled(self, entries: Sequence[Pronunciation]) -> tuple[Tensor, Tensor]:
        """Rows and targets of a `PooledReader`."""
        return self.letters([entry.word for entry in entries]), self.targets(entries)


def _fit(
    run: Run,
    model: nn.Module,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    *,
    name: str,
    epochs: int,
    lr: float,
    lengthscale: Lengthscale,
    num_data: int | None = None,
) -> FitResult:
    x, y = train
    lengths = (x != 0).sum(1)
    loader = DataLoader(TensorDataset(x, y), sampler=ByLength(lengths, BATCH_SIZE), batch_size=None)
    return fit(
        model,
        loader,
        likelihood=phone_nll,
        epochs=epochs,
        validation=validation,
        validation_samples=5,
        num_data=num_data,
        lr=lr,
        max_norm=MAX_NORM,
        lengthscale=lengthscale,
        seed=run.options.seed,
        checkpoint=run.checkpoint(part_name(name)),
        progress=name,
    )


# The report's network


def _pooled(run: Run, data: _Data, arm: str, epochs: int) -> Result:
    """Train the report's network in one setting, and count the phones that it gets wrong."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.options.seed)
        per_step = [PerStepDropout(p=START) for _ in range(3)] if arm == "broken" else None
        model = PooledReader(data.num_letters, len(data.phones), steps=data.longest, per_step=per_step)
    model.to(run.options.device)
    learn_dropout(
        model,
        p=START if arm == "broken" else rate_of(arm),
        include=["head"] if arm == "broken" else ["encoder*", "decoder*", "head"],
        report=_quiet,
    )
    if arm.startswith("fixed"):
        fix_dropout(model)
    result = _fit(
        run,
        model,
        data.pooled(data.train),
        data.pooled(data.validation),
        name=arm,
        epochs=epochs,
        lr=5e-3,
        lengthscale=1.0,
        num_data=NO_KL if arm == "broken" else None,
    )
    letters = data.letters(data.test_words).to(run.options.device)
    drawn = predict_classification(
        model,
        letters,
        num_samples=10,
        seed=run.options.seed,
        batch_size=WORDS_AT_ONCE,
        output=lambda logits: logits.transpose(1, 2),
    )
    with torch.inference_mode():
        plain = torch.cat([model(part).argmax(-1) for part in letters.split(WORDS_AT_ONCE)])
    return {
        "history": _history(result),
        "rates": _rates(result),
        "per_step_rates": [site.p for site in per_step] if per_step else None,
        "hamming": {"no_draws": _hamming(plain, data), "draws": _hamming(drawn.label, data)},
    }


def _quiet(report: object) -> None:
    """Say nothing of a conversion."""


def _history(result: FitResult) -> dict[str, list[float | None]]:
    return {
        "nll": [record.nll for record in result.history],
        "validation_nll": [record.validation_nll for record in result.history],
    }


def _rates(result: FitResult) -> dict[str, list[float]]:
    return {name: [record.rates[name] for record in result.history] for name in result.history[0].rates}


def _hamming(labels: Tensor, data: _Data) -> float:
    """Positions that differ from the nearest way of the dictionary, on average over words; the shorter is filled up."""
    distances = []
    for row, word in zip(labels.tolist(), data.test_words, strict=True):
        said = _until_end(row)
        distances.append(min(_positions_that_differ(said, way) for way in data.references[word]))
    return statistics.fmean(distances)


def _positions_that_differ(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def _until_end(row: Sequence[int]) -> tuple[int, ...]:
    return tuple(row[: row.index(Speller.END)]) if Speller.END in row else tuple(row)


# The network with attention


def _train_speller(run: Run, data: _Data, arm: str, epochs: int, num_samples: int, lengthscale: Lengthscale) -> Result:
    """Train the network with attention, keep it in a file, and hear it say the test words."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.options.seed)
        model = Speller(data.num_letters, len(data.phones), width=data.width)
    learn_dropout(model, p=rate_of(arm), exclude=["letters", "phones"], report=_quiet)
    if arm != "learned":
        fix_dropout(model)
    result = _fit(
        run,
        model,
        data.spelled(data.train),
        data.spelled(data.validation),
        name=f"speller {arm}",
        epochs=epochs,
        lr=3e-3,
        lengthscale=lengthscale,
    )
    with replacing(run.folder / f"{part_name('speller', arm)}.pt", "wb") as file:
        torch.save(model.state_dict(), file)
    return {
        "history": _history(result),
        "rates": _rates(result),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "judged": _judged(model.eval(), data, num_samples, run.options.seed),
    }


def _judged(model: Speller, data: _Data, num_samples: int, seed: int) -> Result:
    """Say the test words, count errors, and see what announces them."""
    ways, log_p, doubts = [], [], []
    for start in range(0, len(data.test_words), WORDS_AT_ONCE):
        letters = data.letters(data.test_words[start : start + WORDS_AT_ONCE])
        found, scores = beam_search(model, letters, width=BEAM, longest=data.longest)
        prediction, disagreement = judge(model, letters, found, num_samples=num_samples, seed=seed)
        ways.append(found)
        log_p.append(torch.stack([scores, prediction.log_probabilities[:, :BEAM]]))
        best = prediction.log_probabilities[:, :BEAM].amax(1)
        doubts.append(torch.stack([disagreement, prediction.mutual_information, prediction.predictive_entropy, -best]))
    all_ways, by_beam_and_draws, doubt = torch.cat(ways), torch.cat(log_p, dim=1), torch.cat(doubts, dim=1)
    references = [data.references[word] for word in data.test_words]
    said = [[_until_end(way) for way in word] for word in all_ways.tolist()]
    results: Result = {"words": len(said)}
    for how, scores in zip(("no_draws", "draws"), by_beam_and_draws, strict=True):
        chosen = [word[best] for word, best in zip(said, scores.argmax(1).tolist(), strict=True)]
        errors = count_errors(chosen, references)
        results[how] = {"wer": errors.wrong.double().mean().item(), "per": errors.phone_errors}
    results["any_of_the_best"] = statistics.fmean(
        any(way in ways_of for way in word) for word, ways_of in zip(said, references, strict=True)
    )
    names = ("disagreement on phones", "mutual information of the list", "entropy of the list", "improbability")
    results["auroc"] = {name: _auroc(errors.wrong, row) for name, row in zip(names, doubt, strict=True)}
    results["doubt"] = doubt[0].tolist()
    results["wrong"] = errors.wrong.int().tolist()
    results["examples"] = _examples(data, said, by_beam_and_draws[1], errors.wrong, doubt[0])
    return results


def _auroc(wrong: Tensor, doubt: Tensor) -> float | None:
    """Chance that a wrong word has more doubt than a right one; None where there are not both."""
    return float(roc_auc_score(wrong, doubt)) if 0 < wrong.sum() < len(wrong) else None


def _examples(
    data: _Data, said: Sequence[Sequence[tuple[int, ...]]], log_p: Tensor, wrong: Tensor, doubt: Tensor
) -> list[Result]:
    """The words of most and of least doubt, with the best ways to say them."""
    order = doubt.argsort(descending=True).tolist()
    examples = []
    for i in order[:6] + order[-6:]:
        best = log_p[i].argsort(descending=True)[:3].tolist()
        examples.append(
            {
                "word": data.test_words[i],
                "ways": [[" ".join(data.phones[k] for k in said[i][b]), log_p[i, b].exp().item()] for b in best],
                "truth": [" ".join(data.phones[k] for k in way) for way in data.references[data.test_words[i]]],
                "wrong": bool(wrong[i]),
                "doubt": doubt[i].item(),
            }
        )
    return examples
