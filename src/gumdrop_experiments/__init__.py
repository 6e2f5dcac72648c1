"""Published results, run again with ``gumdrop reproduce NAME``: the first users of the library.

Each package is an experiment; `harness/` runs it in parts that can be stopped, `pages/` shows what it found, `data/`
reads published data sets, `networks/` builds published architectures, and `shared.py` has the steps and scores of many.
Nothing of the library imports this, and this imports the faces of its rooms alone: `gumdrop.training`, not
`gumdrop.training.single`.

The shape of an experiment
--------------------------
A package with the name of its command, in this order of reading:

``__init__.py``
    What it asks, as docstring; ``ABOUT`` (`gumdrop_experiments.harness.settings.About`), what there is to say before it
    is run; ``PUBLISHED``, the figures to hold ours against; and where it has flags, ``Settings``, which extends
    `gumdrop_experiments.harness.settings.BaseSettings`. A field is a flag, and its docstring the help;
    `gumdrop_experiments.harness.settings.flag` gives its range and what it is in a quick run, which is recorded. No
    setting is written anywhere else. A field that is None where the flag is not given is filled in by the study, which
    may look at ``run.options.quick``. Imports no torch, so that the list of all is quick.
``study.py``
    ``study(settings, run) -> results``: reads the data, asks ``run`` (`gumdrop_experiments.harness.run.Run`) for parts,
    and returns what `results.json` holds. A part is a function without arguments that returns plain data. Parts that
    need no other go to ``run.parts`` together, by keys such as (set, seed), and can be computed several at a time; one
    that needs others is asked for after them with ``run.part``: that is why this is a function and not a table of
    parts. All that can fail on account of flags or data comes before the first part, as until then nothing is written.
    Other files, such as trained weights, are written by a part into ``run.folder``. A study whose figures show more
    than `results.json` holds returns `gumdrop_experiments.harness.plain.WithPictures`. What the parts say together
    (means, tests, choices) stands below.
``page.py``
    ``page(found)`` returns a `gumdrop_experiments.pages.page.Page` of what the study returned. A figure is drawn where
    it gets its name and caption, with what `gumdrop_experiments.pages.axes` has for all; captions and notes are
    constants at the top.

What else is its own has a noun of its own: `methods.py`, `peers.py`, `scores.py`. A name without an underscore is for
other files; docstrings say shapes where they are not plain, and no more. `line` is the one to copy. The one
driver is `gumdrop_experiments.harness.reproduce`, which also makes the command; an experiment joins by its name in
`gumdrop_experiments.catalogue`. Its test is `tests/experiments/test_NAME.py`, and goes through the command line.
"""
