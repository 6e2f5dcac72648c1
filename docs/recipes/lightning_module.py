"""Learned dropout with Lightning: the objective goes into ``training_step``; the Trainer does the rest.

Run with ``python docs/recipes/lightning_module.py``; needs lightning and scikit-learn.
"""

import lightning
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import gumdrop as gd
from gumdrop.likelihoods import RegressionPrediction
from gumdrop.networks import mlp


class Regression(lightning.LightningModule):
    """A network with learned dropout for numbers, and its objective.

    Args:
        num_inputs: Columns of the input.
        num_data: Rows of the whole training set, over all devices.
    """

    def __init__(self, num_inputs: int, num_data: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = mlp(num_inputs, 2, hidden=[32])

    def forward(self, x: Tensor) -> Tensor:
        """Means and log variances."""
        return self.network(x)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Negative ELBO of a batch, in nats per example."""
        x, y = batch
        nll = gd.gaussian_nll(*self(x).chunk(2, dim=-1), y)
        loss = gd.negative_elbo(nll, self.network, num_data=self.hparams.num_data, likelihood="gaussian")
        self.log_dict({"train_nll": loss.nll, "train_kl": loss.kl}, on_step=False, on_epoch=True)
        return loss.total

    def on_train_epoch_end(self) -> None:
        """Show the rates among the metrics."""
        self.log_dict({f"rate_{name}": p for name, p in gd.dropout_rates(self.network).items()})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Keep weight decay away from the rates."""
        return torch.optim.AdamW(gd.parameter_groups(self.network), lr=5e-3)

    def predict_step(self, batch: list[Tensor], batch_idx: int) -> dict[str, Tensor]:
        """Draw functions; as a dict, because Lightning takes no frozen records apart."""
        return vars(gd.predict_regression(self.network, batch[0], num_samples=50, seed=0))


def main(max_epochs: int = 30, folder: str = "lightning-run") -> dict[str, object]:
    """Train, and predict with the same Trainer."""
    data, target = load_diabetes(return_X_y=True)
    x = torch.tensor((data - data.mean(0)) / data.std(0), dtype=torch.float32)
    y = torch.tensor((target - target.mean()) / target.std(), dtype=torch.float32).unsqueeze(1)
    lightning.seed_everything(0, verbose=False)
    train = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=32, shuffle=True)
    test = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=42)
    trainer = lightning.Trainer(
        max_epochs=max_epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    model = Regression(x.shape[1], num_data=400)
    trainer.fit(model, train)
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    parts = [RegressionPrediction(**part) for part in trainer.predict(model, test)]
    prediction = RegressionPrediction.joined(parts)
    return {"log_likelihood": prediction.log_prob(y[400:]).mean().item(), **metrics}


if __name__ == "__main__":
    print(main())
