"""Learned rates against searched ones on MNIST."""
