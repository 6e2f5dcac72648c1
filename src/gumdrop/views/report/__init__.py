"""The page that a fit leaves behind: its results in, one self-contained `report.html` out.

The words are in `templates/report.html.j2`; here are the numbers in them, and the verdicts that rest on them.
"""

from gumdrop.views.report.lead import verdict_words
from gumdrop.views.report.page import render, write_report

__all__ = ["render", "verdict_words", "write_report"]
