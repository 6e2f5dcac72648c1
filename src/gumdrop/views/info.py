"""What a folder of ``gumdrop fit`` holds, for the terminal."""

from collections.abc import Sequence

from gumdrop.machine.environment import in_words
from gumdrop.machine.numerals import readable
from gumdrop.tables.info import TableInfo, rates_in_words
from gumdrop.tables.results import FitResults, Ranking, Score, TableFacts
from gumdrop.tables.scoring import Evaluation
from gumdrop.views.html import with_unit
from gumdrop.views.terminal import Voice, shown_score

NAMES = {"relu": "ReLU", "silu": "SiLU"}
"""Activations, as they are written."""


def show_info(voice: Voice, known: TableInfo) -> None:
    """Show what is known of a model in a terminal."""
    target, networks = known.target, known.networks
    name = with_unit(f"'{target.name}'", target.unit)
    voice.say(f"{target.task} of {name} from {len(known.columns)} columns")
    if target.classes:
        voice.say(f"classes: {', '.join(target.classes)}")
    if target.steps is not None:
        voice.say(f"recorded in {target.steps.words}")
    if (table := known.table) is not None:
        voice.say(
            f"table: {table.name}, {table.rows:,} rows: {table.train_rows:,} to train, {_tested(table, 'to test')}"
        )
    hidden = " and ".join(map(str, networks.hidden))
    bins = f" behind {networks.num_bins} bins of the inputs" if networks.num_bins else ""
    voice.say(f"likelihood: {known.likelihood}")
    for note in known.scale:
        voice.say(note)
    voice.say(
        f"networks: {networks.members} with {hidden} hidden units ({NAMES[networks.activation]}){bins}, "
        f"{networks.parameters:,} parameters, {networks.draws} draws"
    )
    uses = "unknown cells are drawn from and explanations compare with"
    voice.say(f"kept with the model: {known.background_rows} encoded training rows, which {uses}")
    versions = known.environment or {}
    voice.say(f"made with: gumdrop {known.gumdrop}" + "".join(f", {k} {in_words(v)}" for k, v in versions.items()))
    if known.stopped:
        voice.say(f"stopped by hand after {known.stopped.done} of {known.stopped.planned} epochs")
    columns = [(column.name, column.kind, column.what) for column in known.columns]
    voice.show("Columns", ("name", "kind", "training values"), columns, numbers_from=3)
    _show_rates(voice, known)
    if known.scores and known.table:
        show_models(voice, known.scores, f"Held-out figures, {_tested(known.table, 'test rows')}")


def _show_rates(voice: Voice, known: TableInfo) -> None:
    rates = [(rate.label, f"{rate.p:.3f}", f"{rate.least:.3f} to {rate.most:.3f}") for rate in known.rates]
    voice.show("Learned dropout rates", ("layer", "mean", "range over the networks"), rates)
    if note := rates_in_words(known.rates, known.networks.members):
        voice.say(note)


def show_scores(voice: Voice, results: FitResults) -> None:
    """Show how well a fit did, and the rates that it learned."""
    show_models(voice, results.scores, _tested(results.table, "test rows"))
    voice.say(f"Learned dropout rates: {', '.join(f'{rate.label} {rate.p:.3f}' for rate in results.rates)}")
    if results.rates_note:
        voice.say(results.rates_note)


def show_evaluation(voice: Voice, evaluation: Evaluation, fitted: FitResults | None) -> None:
    """Show how well a model does on a table, beside how well it did on the test part of its fit."""
    beside = [] if fitted is None else [f"test part of the fit ({fitted.table.test_rows:,} rows)"]
    scores = [
        (name, shown_score(value), *(shown_score(before) for _ in beside))
        for name, value, before in scores_beside(evaluation, fitted)
    ]
    voice.show(f"{evaluation.rows:,} rows", ("", "this table", *beside), scores)


def scores_beside(evaluation: Evaluation, fitted: FitResults | None) -> list[tuple[str, float | None, float | None]]:
    """Scores of a table by name, beside those of the test part of a fit; None if that is not known."""
    before = {}
    if fitted is not None:
        before = next(score.values for score in fitted.scores if score.ours) | _ranked(fitted.ranking)
    scores = evaluation.scores | _ranked(evaluation.ranking)
    return [(name, value, before.get(name)) for name, value in scores.items()]


def _ranked(ranking: Ranking | None) -> dict[str, float | None]:
    """How well a probability ranks the rows, by names that both tables have."""
    if ranking is None:
        return {}
    numbers: dict[str, float | None] = {f"AUROC of '{ranking.name}'": ranking.auroc}
    numbers |= {f"average precision of '{ranking.name}'": ranking.average_precision}
    for cut in (each for each in ranking.thresholds if each.suggested):
        of = f"of '{ranking.name}' from {readable(cut.probability, 3)} on"
        numbers |= {f"precision {of}": cut.found / cut.flagged if cut.flagged else None}
        numbers |= {f"recall {of}": cut.found / ranking.rows}
    return numbers


def _tested(table: TableFacts, words: str) -> str:
    return f"{table.test_rows:,} {words}" + (f": {table.split}" if table.split else "")


def show_models(voice: Voice, scores: Sequence[Score], title: str) -> None:
    """Show the scores of all models, a line for each."""
    names = list(scores[0].values)
    rows = [(score.name, *(shown_score(score.values[name]) for name in names)) for score in scores]
    voice.show(title, ["", *map(_heading, names)], rows, whole_names=True)  # headings have several words, and give way


def _heading(name: str) -> str:
    return name.removesuffix(" interval").replace("coverage of", "coverage").replace("log probability of", "log p of")
