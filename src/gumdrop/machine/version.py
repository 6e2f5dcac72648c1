"""The version of the package, in a file that needs no import of torch to read."""

VERSION = "0.1.0"
