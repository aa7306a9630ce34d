"""The sequence encoders from their equations and torch's own layers: one sequence [n, d] at a time, without padding."""

import math

import torch
from torch.nn import functional as F  # noqa: N812


def slow_lstm(encoder, inputs):
    """The last output of a stack of LSTMs."""
    return encoder.lstm(inputs)[0][-1]


def attention(layer, x):
    """Attention of a sequence [n, d] to itself."""
    return layer.self_attn(x, x, x, need_weights=False)[0]


def sinusoids(place, width):
    """The embedding [d] of one place: sines, then cosines."""
    half = (width + 1) // 2
    waves = [place / 10_000 ** (i / max(half - 1, 1)) for i in range(half)]
    return torch.tensor([*map(math.sin, waves), *map(math.cos, waves)][:width], dtype=torch.float64)


def slow_transformer(encoder, inputs):
    """The mean of the outputs of a Transformer."""
    n, width = inputs.shape
    places = torch.stack([sinusoids(i, width) for i in range(n)])
    return encoder.stack(inputs + places.to(inputs.dtype)).mean(0)


def ponder(encoder, inputs):
    """The output, N and R of each token of a Universal Transformer."""
    n, width = inputs.shape
    layer, h = encoder.layer, list(inputs)
    halted = [False] * n
    chances, states = [[] for _ in range(n)], [[] for _ in range(n)]
    for t in range(1, encoder.max_steps + 1):
        x = torch.stack([h[i] + sinusoids(i, width) + sinusoids(t, width) for i in range(n)])
        a = layer.norm1(x + attention(layer, x))
        new = layer.norm2(a + layer.linear2(F.gelu(layer.linear1(a))))
        for i in range(n):
            if not halted[i]:
                h[i] = new[i]
                states[i].append(new[i])
                chances[i].append(torch.sigmoid(encoder.halting.weight[0] @ new[i] + encoder.halting_bias))
                halted[i] = sum(chances[i]).item() >= 1 - encoder.epsilon
    found = []
    for p, seen in zip(chances, states, strict=True):
        remainder = 1 - sum(p[:-1], torch.zeros((), dtype=inputs.dtype))
        output = sum((w * s for w, s in zip(p[:-1], seen[:-1], strict=True)), remainder * seen[-1])
        found.append((output, len(p), remainder))
    return found


def slow_universal_transformer(encoder, inputs):
    """The mean of the outputs of a Universal Transformer."""
    return torch.stack([output for output, _, _ in ponder(encoder, inputs)]).mean(0)


def slow_geometric(chances):
    """Geometric attention [n, n] of match probabilities [n, n], walking outwards from each position."""
    n = len(chances)
    rows = []
    for i in range(n):
        row = [torch.zeros_like(chances[0, 0])] * n
        missed = torch.ones_like(chances[0, 0])
        for distance in range(1, n):
            for j in (i + distance, i - distance):
                if 0 <= j < n:
                    row[j] = chances[i, j] * missed
                    missed = missed * (1 - chances[i, j])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def slow_ndr(encoder, x):
    """The state of the last token of a Neural Data Router."""
    n, width = x.shape
    size = width // encoder.heads
    for _ in range(encoder.layers):
        q, (k, v) = encoder.query(x), encoder.key_value(x).chunk(2, -1)
        left, right = encoder.direction(x).chunk(2, -1)
        read = []
        for head in range(encoder.heads):
            own = slice(head * size, (head + 1) * size)
            scores = [
                encoder.alpha * (q[i, own] @ k[j, own])
                + encoder.beta * (right if j > i else left)[i, head]
                + encoder.gamma
                for i in range(n)
                for j in range(n)
            ]
            read.append(slow_geometric(torch.sigmoid(torch.stack(scores)).view(n, n)) @ v[:, own])
        middle = encoder.norm(x + encoder.merge(torch.cat(read, -1)))
        update = encoder.update_norm(encoder.update_out(torch.relu(encoder.update_in(middle))))
        gate = torch.sigmoid(encoder.gate_out(torch.relu(encoder.gate_in(middle))) + encoder.gate_bias)
        x = gate * update + (1 - gate) * x
    return x[-1]


def on_lstm_states(encoder, inputs):
    """Outputs [n, d] of the last layer, and the distances [n] of each layer."""
    distances = []
    for layer in encoder.layers:
        m, width = layer.chunks, layer.width
        h = c = torch.zeros_like(inputs[0])
        outputs, apart = [], []
        for token in inputs:
            mf, mi, f, i, o, g = (layer.of_input(token) + layer.of_state(h)).split([m, m, *[width] * 4])
            f_master = torch.softmax(mf, 0).cumsum(0)
            i_master = 1 - torch.softmax(mi, 0).cumsum(0)
            apart.append(1 - f_master.mean().item())
            f_master, i_master = (each.repeat_interleave(width // m) for each in (f_master, i_master))
            overlap = f_master * i_master
            f_hat = torch.sigmoid(f) * overlap + (f_master - overlap)
            i_hat = torch.sigmoid(i) * overlap + (i_master - overlap)
            c = f_hat * c + i_hat * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        inputs = torch.stack(outputs)
        distances.append(apart)
    return inputs, distances


def slow_on_lstm(encoder, inputs):
    """The last output of an ON-LSTM."""
    return on_lstm_states(encoder, inputs)[0][-1]
