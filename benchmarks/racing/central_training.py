"""A recommender trained with the rows of all users in one place: what training across their devices is held against.

Both trainers stop by hindsight on the validation rows: they give the validation and the test AUC of the point that had the
best of the former.
"""

from __future__ import annotations

import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits

from racing.feedback import TEST, TRAIN, VALID, Feedback, Rows

EPOCHS, BATCH = 20, 256
STEPS, EVERY = 150, 5
Scores = tuple[float, float]
"""AUC on the validation rows, and on the test rows."""


def auc(module: torch.nn.Module, rows: Rows) -> float:
    user, item, liked = rows
    with torch.no_grad():
        return float(roc_auc_score(liked, module(torch.tensor(user), torch.tensor(item)).numpy()))


def scores(module: torch.nn.Module, data: Feedback) -> Scores:
    return auc(module, data.rows(VALID)), auc(module, data.rows(TEST))


def adam(module: torch.nn.Module, data: Feedback, rate: float, decay: float) -> Scores:
    """torch.optim.Adam, looked at after every epoch."""
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, weight_decay=decay)
    user, item, liked = (torch.tensor(column) for column in data.rows(TRAIN))
    seen = []
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(user)).split(BATCH):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(module(user[batch], item[batch]), liked[batch]).backward()
            optimizer.step()
        seen.append(scores(module, data))
    return max(seen)


def adagrad(module: torch.nn.Module, data: Feedback, rate: float, l2: float) -> Scores:
    """Full-batch AdaGrad: what the run across devices is (`ef.Diagonal`), in full precision; looked at every few steps."""
    optimizer = torch.optim.Adagrad(module.parameters(), lr=rate, weight_decay=l2)
    user, item, liked = (torch.tensor(column) for column in data.rows(TRAIN))
    seen = []
    for k in range(1, STEPS + 1):
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(module(user, item), liked).backward()
        optimizer.step()
        if k % EVERY == 0:
            seen.append(scores(module, data))
    return max(seen)
