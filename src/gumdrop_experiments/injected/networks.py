"""Plain networks, as people train them."""

import itertools

from torch import Tensor, nn

from gumdrop_experiments.data.texts import Vocabulary


def perceptron(inputs: int, *, width: int = 128, depth: int = 3) -> nn.Sequential:
    """Build a dense network that gives one number, without dropout."""
    sizes = [inputs, *[width] * depth]
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def small_digit_network() -> nn.Sequential:
    """Build a network for 8 x 8 digits, without dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class Reader(nn.Module):
    """An LSTM that reads sentences from their ends, with dropout of what it reads and of what it has read."""

    def __init__(self, num_words: int, *, size: int = 100, hidden: int = 128, rate: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, size, padding_idx=Vocabulary.PADDING)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.before, self.after = nn.Dropout(rate), nn.Dropout(rate)
        self.lstm, self.head = nn.LSTM(size, hidden, batch_first=True), nn.Linear(hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Give logits, shape (N, 2), for sentences as numbers, shape (N, T), 0 behind their ends."""
        read, _ = self.lstm(self.before(self.embedding(words.flip(1))))
        return self.head(self.after(read[:, -1]))
