"""Learned dropout with skorch: the objective goes into ``get_loss``, and prediction into ``predict_proba``.

Run with ``python docs/recipes/skorch_net.py``; needs skorch and scikit-learn.
"""

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.networks import mlp


class ConcreteDropoutNet(NeuralNetClassifier):
    """A skorch classifier whose module has learned dropout."""

    def initialize_criterion(self):
        """Remember nothing: the loss is that of the library."""
        self.criterion_ = nn.CrossEntropyLoss()
        return self

    def get_loss(self, y_pred: Tensor, y_true: Tensor, X=None, training: bool = False) -> Tensor:
        """Negative ELBO while training, plain negative log likelihood elsewhere."""
        nll = gd.categorical_nll(y_pred, y_true)
        if not training:
            return nll.mean()
        return gd.negative_elbo(nll, self.module_, num_data=self.num_data_, likelihood="categorical").total

    def fit(self, X, y, **fit_params):
        """Count the rows first: the KL is divided by their number."""
        self.num_data_ = len(X)
        return super().fit(X, y, **fit_params)

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities averaged over drawn functions."""
        prediction = gd.predict_classification(self.module_, torch.as_tensor(X), num_samples=50, seed=0)
        return prediction.probabilities.numpy()


def main(max_epochs: int = 30) -> dict[str, object]:
    """Cross-validate a pipeline, fit it, and read the rates."""
    x, y = load_breast_cancer(return_X_y=True)
    x, y = x.astype(np.float32), y.astype(np.int64)
    torch.manual_seed(0)
    net = ConcreteDropoutNet(
        mlp,
        module__num_inputs=x.shape[1],
        module__num_outputs=2,
        module__hidden=[32],
        max_epochs=max_epochs,
        batch_size=64,
        lr=5e-3,
        optimizer=torch.optim.Adam,
        train_split=None,
        verbose=0,
    )
    pipeline = make_pipeline(StandardScaler(), net)
    scores = cross_val_score(pipeline, x, y, cv=3, scoring="neg_log_loss")
    pipeline.fit(x, y)
    return {"neg_log_loss": scores.tolist(), "rates": gd.dropout_rates(net_of(pipeline))}


def net_of(pipeline) -> nn.Module:
    """Take the trained module out of a pipeline."""
    return pipeline[-1].module_


if __name__ == "__main__":
    print(main())
