"""Which pixels suffice for a prediction and which destroy it."""
