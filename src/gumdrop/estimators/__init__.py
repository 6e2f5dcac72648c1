"""A regressor and a classifier for scikit-learn, over ensembles of networks with learned dropout.

They standardise inputs and targets, choose everything that training needs, and work in pipelines, cross-validation and
grid searches. Equal rows count as one with the sum of their weights, and the order of the rows does not matter: the
same data give the same model. The inputs are never copied (`rows.py`). Imports `ensembles`, `tables` and what is below.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

from gumdrop.estimators.classifier import ConcreteDropoutClassifier
from gumdrop.estimators.intervals import predict_interval, predict_quantiles
from gumdrop.estimators.regressor import ConcreteDropoutRegressor

__all__ = ["ConcreteDropoutClassifier", "ConcreteDropoutRegressor", "predict_interval", "predict_quantiles"]
