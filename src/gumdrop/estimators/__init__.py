"""A regressor and a classifier for scikit-learn, over ensembles of networks with learned dropout.

They standardise inputs and targets themselves, choose everything that training needs, and work in pipelines,
cross-validation and grid searches. Rows that are equal count as one row with the sum of their weights, and the
order of the rows does not matter: the same data give the same model. The inputs are never copied: rows are taken out of
them, and standardised, when a step needs them.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

from gumdrop.estimators.classifier import ConcreteDropoutClassifier
from gumdrop.estimators.regressor import ConcreteDropoutRegressor

__all__ = ["ConcreteDropoutClassifier", "ConcreteDropoutRegressor"]
