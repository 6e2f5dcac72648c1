"""Extrapolating CO2."""
