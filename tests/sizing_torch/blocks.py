"""Small transformers in plain PyTorch, written as the public implementations are: GPT-2, Llama and BERT."""

# PyTorch is not among the project's dependencies, so there is nothing to check types against.
# mypy: ignore-errors

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from webhook.catalog.models import ModelSpec
from webhook.sizing.training import Attention


def dropout(x: Tensor, share: float) -> Tensor:
    """As on a GPU, with a mask of one byte; on the CPU nn.Dropout keeps one as wide as its input."""
    return torch.native_dropout(x, share, True)[0] if share else x


class RMSNorm(nn.Module):
    """Written out as Llama's is: the input goes to 32 bits and back."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class SelfAttention(nn.Module):
    def __init__(self, spec: ModelSpec, attention: Attention, *, causal: bool) -> None:
        super().__init__()
        bias = spec.style.attention_bias == "All"
        self.spec, self.attention, self.causal = spec, attention, causal
        self.query = nn.Linear(spec.hidden, spec.query, bias=bias)
        self.key = nn.Linear(spec.hidden, spec.key_value, bias=bias)
        self.value = nn.Linear(spec.hidden, spec.key_value, bias=bias)
        self.out = nn.Linear(spec.query, spec.hidden, bias=bias)
        self.dropout = 0.1 if spec.style.dropout else 0.0

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        spec = self.spec

        def heads(y: Tensor, count: int) -> Tensor:
            return y.view(batch, length, count, spec.head_dim).transpose(1, 2)

        query = heads(self.query(x), spec.heads)
        key, value = heads(self.key(x), spec.kv_heads), heads(self.value(x), spec.kv_heads)
        if spec.kv_heads != spec.heads:
            key, value = (one.repeat_interleave(spec.heads // spec.kv_heads, 1) for one in (key, value))
        if self.attention is Attention.EAGER:
            scores = query @ key.transpose(-1, -2) * spec.head_dim**-0.5
            if self.causal:
                scores = scores + torch.full((length, length), -1e4, dtype=scores.dtype).triu(1)
            if spec.style.norm == "RMS":
                weights = functional.softmax(scores, -1, dtype=torch.float32).to(x.dtype)
            else:
                weights = functional.softmax(scores, -1)
            mixed = dropout(weights, self.dropout) @ value
        else:
            # The kernel of a GPU drops out inside and saves a seed.
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, spec.query))


class MLP(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        bias = spec.style.mlp_bias
        self.gate = nn.Linear(spec.hidden, spec.ffn, bias=bias) if spec.style.gated else None
        self.up = nn.Linear(spec.hidden, spec.ffn, bias=bias)
        self.down = nn.Linear(spec.ffn, spec.hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.gelu(self.up(x)) if self.gate is None else functional.silu(self.gate(x)) * self.up(x)
        return self.down(inner)


class Block(nn.Module):
    """One layer; BERT normalizes after each residual, the others before."""

    def __init__(self, spec: ModelSpec, attention: Attention) -> None:
        super().__init__()
        self.post = spec.style.pooler
        norm = RMSNorm if spec.style.norm == "RMS" else nn.LayerNorm
        self.first, self.second = norm(spec.hidden), norm(spec.hidden)
        self.attention = SelfAttention(spec, attention, causal=not self.post)
        self.mlp = MLP(spec)
        self.share = 0.1 if spec.style.dropout else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if self.post:
            x = self.first(x + dropout(self.attention(x), self.share))
            return self.second(x + dropout(self.mlp(x), self.share))
        x = x + dropout(self.attention(self.first(x)), self.share)
        return x + dropout(self.mlp(self.second(x)), self.share)


class Model(nn.Module):
    """Tables, layers, final norm and head of one spec."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        norm = RMSNorm if spec.style.norm == "RMS" else nn.LayerNorm
        self.tokens = nn.Embedding(spec.vocab, spec.hidden)
        self.positions = nn.Embedding(spec.positions, spec.hidden) if spec.positions else None
        self.types = nn.Embedding(spec.token_types, spec.hidden) if spec.token_types else None
        self.embedded = norm(spec.hidden) if spec.style.embedding_norm else None
        self.layers = nn.ModuleList(Block(spec, Attention.SDPA) for _ in range(spec.layers))
        self.final = None if spec.style.pooler else norm(spec.hidden)
        self.pooler = nn.Linear(spec.hidden, spec.hidden) if spec.style.pooler else None
        self.head = None if spec.tied or spec.style.pooler else nn.Linear(spec.hidden, spec.vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1]))
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids))
        if self.embedded is not None:
            x = self.embedded(x)
        for layer in self.layers:
            x = layer(x)
        if self.pooler is not None:
            return torch.tanh(self.pooler(x[:, 0]))
        assert self.final is not None
        x = self.final(x)
        return x @ self.tokens.weight.T if self.head is None else self.head(x)


def saved_bytes(block: nn.Module, x: Tensor, *, recompute: bool) -> int:
    """Bytes that one pass through `block` keeps for the backward pass, each storage once, parameters left out."""
    known = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    storages: dict[int, int] = {}
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        if recompute:
            checkpoint(block, x, use_reentrant=False)
        else:
            block(x)
    return sum(storages.values())
