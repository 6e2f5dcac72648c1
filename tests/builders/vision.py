"""A ViT and a ConvNeXt of few lines that drop as timm's do."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DropPath(nn.Module):
    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = x.new_empty(x.shape[0], *[1] * (x.ndim - 1)).bernoulli_(1 - self.drop_prob)
        return x * keep / (1 - self.drop_prob)


class Attention(nn.Module):
    """Attention weights are dropped in a fused function, at a rate that a module holds."""

    def __init__(self, units: int, heads: int, drop: float) -> None:
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.attn_drop, self.proj_drop = nn.Dropout(drop), nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        return self.proj_drop(self.proj(x.transpose(1, 2).flatten(2)))


class Mlp(nn.Module):
    def __init__(self, units: int, drop: float) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(units, 2 * units), nn.GELU(), nn.Linear(2 * units, units)
        self.drop1, self.drop2 = nn.Dropout(drop), nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop2(self.fc2(self.drop1(self.act(self.fc1(x)))))


class ViTBlock(nn.Module):
    def __init__(self, units: int, heads: int, drop: float, path: float) -> None:
        super().__init__()
        self.norm1, self.attn, self.drop_path1 = nn.LayerNorm(units), Attention(units, heads, drop), DropPath(path)
        self.norm2, self.mlp, self.drop_path2 = nn.LayerNorm(units), Mlp(units, drop), DropPath(path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.attn(self.norm1(x)))
        return x + self.drop_path2(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, drop: float = 0.1, path: float = 0.2, units: int = 8) -> None:
        super().__init__()
        self.patches, self.drop = nn.Conv2d(3, units, 4, 4), nn.Dropout(drop)
        self.blocks = nn.Sequential(ViTBlock(units, 2, drop, 0.0), ViTBlock(units, 2, drop, path))
        self.head_drop, self.head = nn.Dropout(drop), nn.Linear(units, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.drop(self.patches(x).flatten(2).mT))
        return self.head(self.head_drop(x.mean(1)))


class ConvNeXtBlock(nn.Module):
    """Its layers work on channels in the last dimension, and its path on those in the first."""

    def __init__(self, units: int, drop: float, path: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(units, units, 3, padding=1, groups=units)
        self.norm, self.mlp, self.drop_path = nn.LayerNorm(units), Mlp(units, drop), DropPath(path)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop_path(self.mlp(self.norm(self.conv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2))


class ConvNeXt(nn.Module):
    def __init__(self, drop: float = 0.1, path: float = 0.2, units: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, units, 4, 4)
        self.blocks = nn.Sequential(ConvNeXtBlock(units, drop, path), nn.Dropout2d(drop), nn.ReLU())
        self.head = nn.Linear(units, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.mean(self.blocks(self.stem(x)), (2, 3)))
