"""What people see: words in a terminal, figures, pages.

`plots/` draws figures from plain arrays, `report/` the page of a fit, `explore/` the interactive page with its server.
`explanation.py`, `info.py` and `picture.py` show what `tables` and `attribution` found. Computes nothing that a result
would hold. Imports everything but the commands and the experiments.
"""
