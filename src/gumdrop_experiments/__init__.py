"""Published results, run again with ``gumdrop reproduce NAME``: the first users of the library.

Each package is an experiment; `harness/` runs it in parts that can be stopped, `pages/` shows what it found, `data/`
reads published data sets and `networks/` builds published architectures. Nothing of the library imports this.
"""
