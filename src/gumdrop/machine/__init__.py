"""What has nothing to do with networks: whole files, threads, versions, and numbers that a person can read.

Imports nothing of the library.
"""
