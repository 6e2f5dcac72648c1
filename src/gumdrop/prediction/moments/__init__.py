"""Mean and variance of outputs without sampling: single drops where they are rare, slopes elsewhere."""
