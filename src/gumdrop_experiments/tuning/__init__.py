"""How the default for tables was chosen: candidates that differ from it in one thing, on training parts alone.

Of each UCI training part a fifth is held out and predicted; the test parts are never touched. Beside them stand
simulated sets, where the noise is known.
"""

from gumdrop_experiments.harness import About

ABOUT = About(
    shows="how the default for tables was chosen: variants of it, on training parts alone",
    minutes=(63, 2),
    source="none; the candidates and their reasons are in docs/method.md",
    data=("uci",),
)
