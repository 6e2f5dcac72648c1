"""What people see: words in a terminal, figures, pages.

Imports anything of the library but the command line; nothing but the command line and the experiments imports it.
"""
