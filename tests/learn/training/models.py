"""Small models and records for tests."""

import torch
from torch import Tensor, nn

from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.rows import RowKind, TrainingRows
from discreet.learn.training.summing import LocalSummer

LOSS = nn.CrossEntropyLoss(reduction="none")
BOUND = 1 << 60


class Words(nn.Module):
    """Embedding, layer norm, and an output that shares the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.hidden, self.norm = nn.Embedding(40, 16), nn.Linear(16, 16), nn.LayerNorm(16)
        self.out = nn.Linear(16, 40, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.norm(self.hidden(self.embed(tokens)))).transpose(1, 2)


class Bag(nn.Module):
    """An embedding whose rows are touched several times by one record."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(200, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.relu(self.embed(tokens)).mean(1))


class Centred(nn.Module):
    """A mutant: it subtracts the mean of the batch, so a record's gradient depends on the others."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.out(rows - rows.mean(0))


def make_mlp(inputs: int = 6, hidden: int = 40, classes: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 20), nn.ReLU(), nn.Linear(20, classes))


def make_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.ReLU(inplace=True), nn.Conv2d(8, 16, 2, dilation=2),
        nn.ReLU(), nn.Flatten(), nn.Linear(16 * 4, 5),
    )  # fmt: skip


F32 = torch.float32
CASES: dict[str, tuple[nn.Module, RowKind]] = {
    "mlp": (make_mlp(), RowKind((6,), F32, classes=3)),
    "wide": (nn.Linear(700, 3), RowKind((700,), F32, classes=3)),
    "cnn": (make_cnn(), RowKind((1, 8, 8), F32, classes=5)),
    "words": (Words(), RowKind((7,), torch.int64, (7,), tokens=40, classes=40)),
    "bag": (Bag(), RowKind((9,), torch.int64, tokens=200, classes=3)),
}


def make_summer(
    model: nn.Module, kind: RowKind, clip: float = 1.0, chunk: int = 16, method: str | None = None
) -> LocalSummer:
    return LocalSummer(GradientModel.of(model, LOSS, clip, method), kind, chunk)  # type: ignore[arg-type]


def sum_of(summer: LocalSummer, features: Tensor, targets: Tensor, kind: RowKind) -> list[int]:
    """The exact sum over all these records, as Python integers."""
    summer.load(TrainingRows.of(features, targets, kind))
    return summer.sum(torch.arange(len(features)).numpy()).tolist()


def norm_squared(values: list[int]) -> int:
    return sum(each * each for each in values)
