"""Modules and data that cannot be trained are refused with a reason, and what is left out is said."""

from __future__ import annotations

import subprocess
import sys

import pytest
from torch_modules import BY_ROW, Bags, Recommender, assert_is_the_module, bags, data, linear, nn, plain, torch

import errorfeedback as ef


class Double(torch.autograd.Function):
    """x -> 2x with the slope of 3x."""

    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


class WrongBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return Double.apply(self.out(x).squeeze(-1))


class Noise(nn.Linear):
    def forward(self, x):
        return super().forward(x).squeeze(-1) + torch.randn(len(x))


def with_integers():
    module = linear()
    module.count = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    return module


BAD = {
    "no parameters": (nn.Flatten, [plain()], "Flatten has no parameters that require gradients"),
    "integers": (with_integers, [plain()], "the parameter 'count' is of torch.int64; all must be of float64 or"),
    "mixed": (
        lambda: nn.Sequential(linear(), nn.Linear(1, 1)),
        [plain()],
        r"'1.weight' is of torch.float32 on cpu, but others",
    ),
    "half": (lambda: linear().half(), [plain()], "the parameter '0.weight' is of torch.float16"),
    "no clients": (linear, [], "there are no clients"),
    "no data": (linear, [plain(), plain(0)], "client 1 has no data"),
    "rows": (linear, [plain(), plain(3, 2)], r"client 1: inputs\[0\] has 3 rows, but the target 2"),
    "no pair": (linear, [plain()[0]], "client 0: its data is a Tensor; it must be a pair"),
    "no tensor": (linear, [([1.0, 2.0], plain()[1])], r"client 0: inputs\[0\] is a float; it must be a tensor"),
    "columns": (linear, [plain(), (torch.ones(3, 5).double(), plain()[1])], "cannot compute the data of client 1"),
    "nan": (linear, [plain(), (torch.full((3, 4), torch.nan).double(), plain()[1])], "client 1: its value at x0 is nan"),
    "dropout": (lambda: nn.Sequential(nn.Dropout(), linear()), [plain()], "'0' drops out at random .* module.eval()"),
    "batch norm": (
        lambda: nn.Sequential(nn.BatchNorm1d(4), linear()).double(),
        [plain()],
        "the buffer '0.running_mean' changes",
    ),
    "noise": (lambda: Noise(4, 1).double(), [plain()], "gives another loss for the same data"),
    "backward": (lambda: WrongBackward().double(), [plain()], r"client 0: the gradient at coordinate [0-4] is .*; mend it"),
    "max_norm": (lambda: Recommender(max_norm=1.0).double(), data(), "the embedding 'items' has max_norm"),
    "max": (lambda: Bags("max").double(), bags(), "has mode='max'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_modules_and_data_are_refused_with_a_reason(name):
    module, clients, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        ef.torch.problem(module(), BY_ROW, clients)


def test_a_loss_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="clients_per_call = 0; it must be a whole number of at least 1"):
        ef.torch.problem(linear(), BY_ROW, [plain()], clients_per_call=0)
    with pytest.raises(ValueError, match=r"the loss has shape \(2,\) for 3 rows"):
        ef.torch.problem(linear(), lambda out, target: out[:2], [plain()])
    with pytest.raises(ValueError, match="the loss doubles where every row of data is given twice: it is the sum"):
        ef.torch.problem(linear(), nn.BCEWithLogitsLoss(reduction="sum"), [plain()])
    with pytest.raises(ValueError, match="the loss is 3; it must be a tensor"):
        ef.torch.problem(linear(), lambda out, target: 3, [plain()])


def test_what_is_frozen_is_said():
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4), linear()).double().eval()
    module[2].weight.requires_grad_(False)
    problem = ef.torch.problem(module, BY_ROW, [plain(), plain(2)])
    for words in ("buffers are frozen: 0.running_mean", "parameters are frozen: 2.weight", "dropout is off (eval): 1"):
        assert words in str(problem)
    assert_is_the_module(problem, module, BY_ROW, [plain(), plain(2)])


def test_errorfeedback_does_not_bring_torch_along_and_says_how_to_get_it():
    program = """if True:
        import sys, errorfeedback as ef
        ef.solve
        assert "torch" not in sys.modules and "jax" not in sys.modules and "torch" in dir(ef)
        sys.modules["torch"] = None
        try:
            ef.torch
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ef.torch needs torch" in done.stdout
    assert "pip install 'errorfeedback[torch]'" in done.stdout
