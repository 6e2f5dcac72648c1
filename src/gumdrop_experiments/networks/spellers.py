"""From letters to phones: the report's network, and one with attention that is worth using.

Both take rows of numbers, shape (N, T), in which 0 fills up short words. Row and column 0 of their tables are never
used otherwise.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import Sampler

from gumdrop.functional import concrete_dropout


def phone_nll(logits: Tensor, phones: Tensor) -> Tensor:
    """Negative log likelihood of each word, (N,): the sum over its phones, in nats.

    Logits are (N, T, C), phones (N, T'), 0 where there is none; T' may be smaller than T, and larger where it holds 0
    alone.
    """
    phones = phones[:, : logits.shape[1]]
    nll = F.cross_entropy(logits[:, : phones.shape[1]].transpose(1, 2), phones, ignore_index=0, reduction="none")
    return nll.sum(1)


class ByLength(Sampler[list[int]]):
    """Batches of words of like length, in an order that torch's default generator draws anew for each epoch.

    Of a pool of so many batches the words are sorted by length together.
    """

    def __init__(self, lengths: Tensor, batch_size: int, *, pool: int = 50) -> None:
        self.lengths, self.batch_size, self.pool = lengths, batch_size, pool

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the batches of one epoch."""
        batches: list[Tensor] = []
        for rows in torch.randperm(len(self.lengths)).split(self.pool * self.batch_size):
            batches += rows[self.lengths[rows].argsort(stable=True)].split(self.batch_size)
        for i in torch.randperm(len(batches)):
            yield batches[int(i)].tolist()

    def __len__(self) -> int:
        """Count the batches of an epoch."""
        whole, rest = divmod(len(self.lengths), self.pool * self.batch_size)
        return whole * self.pool + -(-rest // self.batch_size)


class _Normalised(nn.Module):
    """Batch normalisation of the features of sequences, over the steps that are there."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[present] = self.norm(x[present])
        return out


class PerStepDropout(nn.Module):
    """The report's broken setting: a relaxed mask that is new at every time step, and a rate that no KL knows of."""

    def __init__(self, *, p: float) -> None:
        super().__init__()
        self.p_logit = nn.Parameter(torch.tensor(math.log(p) - math.log1p(-p)))

    @property
    def p(self) -> float:
        """Drop probability."""
        return torch.sigmoid(self.p_logit).item()

    def forward(self, x: Tensor) -> Tensor:
        """Drop units of every time step in training; pass the input on otherwise."""
        return concrete_dropout(x, self.p_logit) if self.training else x


class PooledReader(nn.Module):
    """The report's network: three recurrent layers read the letters, their average is said by two more.

    ``steps`` are the phones of the longest word; as many recurrent layers as ``num_norms`` get normalised inputs, from
    the first one on, and the report's own dropout stands in front of as many as there are in ``per_step``.
    """

    def __init__(
        self,
        letters: int,
        phones: int,
        *,
        steps: int,
        size: int = 100,
        num_norms: int = 3,
        per_step: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__()
        self.steps = steps
        self.per_step = nn.ModuleList(per_step)
        self.embedding = nn.Embedding(letters, size, padding_idx=0)
        self.norms = nn.ModuleList(_Normalised(size) for _ in range(num_norms))
        self.encoder = nn.ModuleList(nn.LSTM(size, size, batch_first=True) for _ in range(3))
        self.decoder = nn.ModuleList(nn.LSTM(size, size, batch_first=True) for _ in range(2))
        self.head = nn.Linear(size, phones)

    def forward(self, words: Tensor, said: Tensor | None = None) -> Tensor:
        """Give the logits of the phone at each position, (N, T, phones), of letters (N, L), 0 behind the end.

        ``said`` tells which positions hold a phone or the end, (N, T): those that are normalised in training; all of
        ``steps`` if None.
        """
        lengths = (words != 0).sum(1)
        words = words[:, : int(lengths.max())]
        present = words != 0
        x = self.embedding(words)
        for i, layer in enumerate(self.encoder):
            x, _ = layer(self._entering(i, x, present))
        pooled = (x * present.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)
        said = present.new_ones(len(words), self.steps) if said is None else said
        x = pooled.unsqueeze(1).expand(-1, said.shape[1], -1)
        for i, layer in enumerate(self.decoder, start=len(self.encoder)):
            x, _ = layer(self._entering(i, x, said))
        return self.head(x)

    def _entering(self, i: int, x: Tensor, present: Tensor) -> Tensor:
        """What the recurrent layer of this number reads."""
        if i < len(self.norms):
            x = self.norms[i](x, present)
        return self.per_step[i](x) if i < len(self.per_step) else x


class Speller(nn.Module):
    """An encoder that reads both ways, and a decoder that attends to it.

    One row holds the letters of a word, padded to ``width``, and then the phones said so far, of which the first is
    ``START``: so one tensor goes in, and a whole word is scored in one pass.
    """

    START, END = 1, 2

    def __init__(self, letters: int, phones: int, *, width: int, size: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.width = width
        self.letters = nn.Embedding(letters, size, padding_idx=0)
        self.phones = nn.Embedding(phones, size, padding_idx=0)
        self.encoder = nn.LSTM(size, hidden // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.decoder = nn.LSTM(size, hidden, batch_first=True)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.head = nn.Linear(hidden, phones)

    def forward(self, rows: Tensor) -> Tensor:
        """Give the logits of the phone after each one that was said, shape (N, T, phones)."""
        memory, present = self.read(rows[:, : self.width])
        said = rows[:, self.width :]
        logits, _ = self.say(said[:, : int((said != 0).sum(1).max())], memory, present, None)
        return logits

    def read(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Encode the letters of words (N, T): a vector for each, (N, T', hidden), and where there is one, (N, T')."""
        lengths = (words != 0).sum(1)
        words = words[:, : int(lengths.max())]
        packed = pack_padded_sequence(self.letters(words), lengths.cpu(), batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return memory, words != 0

    def say(
        self, said: Tensor, memory: Tensor, present: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Go on from phones (N, T): the logits of the next one after each, and the state of the decoder."""
        h, state = self.decoder(self.phones(said), state)
        scores = self.query(h) @ memory.transpose(1, 2)
        weights = scores.masked_fill(~present.unsqueeze(1), -torch.inf).softmax(-1)
        context = weights @ memory
        return self.head(torch.tanh(self.combine(torch.cat([h, context], -1)))), state
