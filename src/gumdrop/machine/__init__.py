"""What has nothing to do with networks, and knows nothing of them.

Files that appear whole or not at all (`files.py`), the number of threads, the environment and the version that results
name, numerals that a person can read, and the steps that numbers are recorded in. Imports nothing of the library.
"""
