"""The page that a run leaves."""

from gumdrop_experiments.pages.axes import GREY, dot, dress, legend_below, legend_of, name_rows, panels_of, subplots
from gumdrop_experiments.pages.numbers import mean_and_error, rounded, with_error
from gumdrop_experiments.pages.page import Cell, Page, Picture, Table, table_of
