"""``gumdrop reproduce``: the published experiments, each a command of its own."""

from typing import Annotated

from cyclopts import App, Parameter

from gumdrop.views.terminal import out_console, say
from gumdrop_experiments.catalogue import EXPERIMENTS, package_of
from gumdrop_experiments.harness.reproduce import command
from gumdrop_experiments.harness.settings import RunOptions

Parameter(name="*", negative="")(RunOptions)  # its fields are flags of every experiment, --seed and not --options.seed
reproduce = App(
    default_parameter=Parameter(consume_multiple=True),
    name="reproduce",
    help="Run a published experiment again, and see its figures beside the published.",
)
for _name in EXPERIMENTS:
    reproduce.command(command(package_of(_name)), name=_name)


@reproduce.default
def _experiments(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
) -> None:
    """Run a published experiment again, and see its figures beside the published.

    Args:
        words: A name that is no experiment, and what follows it.
        list_: Say what each experiment shows, how long it takes, which data it needs and where its published figures
            come from.

    Raises:
        ValueError: If there is no such experiment.
    """
    if words:
        names = ", ".join(EXPERIMENTS)
        raise ValueError(f"there is no experiment {words[0]!r}; there are: {names}. See `gumdrop reproduce --list`.")
    for name, about in EXPERIMENTS.items():
        estimated = ", an estimate: not run to its end" * about.estimated
        times = f"{about.minutes[0]:,g} minutes{estimated}; {about.minutes[1]:g} with --quick"
        out_console.print(f"[bold]{name}[/bold]  ({times})")
        data = ", ".join(about.data) or "none to be fetched"
        say(f"  {about.shows}\n  Data: {data}\n  Published figures: {about.source}")
    say("Minutes are those of one core of an ordinary machine. Data are folders in that of --data, or in the cache,")
    say("where co2, g2p, mnist and sst are downloaded; the others are to be put there.")
    say("Run one with  gumdrop reproduce NAME, see its flags with  gumdrop reproduce NAME --help")
