"""The page that a run leaves."""

from gumdrop_experiments.pages.axes import (
    GREY,
    band,
    dot,
    dots,
    dress,
    edges_of,
    legend_below,
    legend_of,
    log_ticks,
    name_rows,
    panels_of,
    subplots,
    ticks_at,
)
from gumdrop_experiments.pages.page import (
    Cell,
    Page,
    Picture,
    Table,
    cell,
    mean_and_error,
    mean_of,
    rounded,
    table_of,
    with_error,
)
