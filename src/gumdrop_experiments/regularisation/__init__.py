"""Dropout as a regulariser."""
