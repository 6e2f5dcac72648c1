"""The network that reads a sentence."""

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from gumdrop_experiments.data.texts import Vocabulary


class SentenceReader(nn.Module):
    """An LSTM over words, and a class from its last state."""

    def __init__(self, num_words: int, *, size: int = 100, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, size, padding_idx=Vocabulary.PADDING)
        # Small, so that an untrained network says nothing; N(0, 1) would let it know sentences by their words at once.
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.lstm = nn.LSTM(size, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Give logits, shape (N, 2), for sentences as numbers, shape (N, T), 0 behind their ends."""
        lengths = (words != Vocabulary.PADDING).sum(1)
        embedded = self.embedding(words[:, : int(lengths.max())])
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        return self.head(state[-1])
