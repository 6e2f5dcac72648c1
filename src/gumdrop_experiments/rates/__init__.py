"""What a wrong dropout rate costs: no dropout, fixed rates, a grid and learned ones, each on tables that want another.

No rate is right for every table. The regret of a method on a table is what it loses on the best rate for that table;
its worst regret over many tables is what a person risks who cannot tune.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="Log likelihood lost on the best rate of each table: no dropout, fixed rates, a grid of them, learned rates.",
    shows="what a wrong rate costs: none, fixed, a grid and learned ones, over tables that want different rates",
    minutes=85,
    quick_minutes=2,
    source="none; the tables are UCI's, airfoil, bike sharing, MNIST, those of scikit-learn and simulated ones",
    data=("tables", "uci", "mnist"),
)
