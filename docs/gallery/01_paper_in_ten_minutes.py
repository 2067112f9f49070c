r"""
The paper in ten minutes
========================

*Error Feedback Shines when Features are Rare* (Richtárik, Gasanov, Burlachenko 2023) asks when a client that sends
one number per round may take steps as long as those of gradient descent. The answer has two small integers in it,
:math:`c` and :math:`r`, which can be counted on the data before anything is run. This page counts them, computes the
step of Theorem 1, runs it, and checks the theorem on every round of the run.

We minimise :math:`f(x) = \frac1n \sum_i f_i(x)` over :math:`x \in \mathbb{R}^d`; client :math:`i` alone knows
:math:`f_i`. In EF21 every client keeps an estimate :math:`g_i` of its gradient and sends a compressed correction of
it:

.. math::

   x^{t+1} = x^t - \gamma g^t, \qquad g_i^{t+1} = g_i^t + C(\nabla f_i(x^{t+1}) - g_i^t), \qquad g^t = \frac1n \sum_i g_i^t.

With :math:`C` = Top1 a message is one number and its index.
"""

import numpy as np
from matplotlib import pyplot as plt

import errorfeedback as ef

# %%
# Who owns which feature
# ----------------------
# A client that never sees a feature has no opinion about it: the rows of its data are zero there, so is its gradient,
# and nothing has to be sent. The paper's generator of regression problems puts every feature on exactly :math:`c` of
# the :math:`n` clients.

problem = ef.synthetic(n=100, d=500, m=12, c=5)
support = problem.support
print(problem)

# %%
# Two numbers describe the pattern. A row below is a client, a column a feature. :math:`c` is the longest column (how
# many clients share a feature at most), :math:`r` the longest row (how many features a client has at most).

client = np.repeat(np.arange(support.n), support.sizes)
row, column = np.argmax(support.sizes), 250
figure, axes = plt.subplots(figsize=(7.2, 3.2))
axes.scatter(support.indices, client, s=3, color="C6", alpha=0.6, linewidths=0)
for chosen, colour in ((client == row, "C1"), (support.indices == column, "C2")):
    axes.scatter(support.indices[chosen], client[chosen], s=26, color=colour, linewidths=0)
axes.annotate(f"r = {support.r} features of client {row}", (505, row), color="C1", va="center")
axes.annotate(f"c = {support.c} clients have feature {column}", (column, 104), color="C2", ha="center")
axes.set(xlabel="feature", ylabel="client", xlim=(-5, 660), ylim=(-2, 112))
axes.set_title("A dot: this client has this feature")
axes.grid(visible=False)
plt.show()

# %%
# What the theorem makes of it
# ----------------------------
# Theorem 1: with
#
# .. math::
#
#    \gamma \le \frac{1}{L + L_+ \sqrt{c/n}\; \xi(\alpha)}, \qquad \alpha = \frac{K}{r}, \qquad
#    \xi(\alpha) = \frac{\sqrt{1-\alpha} + 1 - \alpha}{\alpha},
#
# the gradients of a run of :math:`T` rounds satisfy
#
# .. math::
#
#    \frac1T \sum_{t<T} \|\nabla f(x^t)\|^2
#    \;\le\; \frac{2 (f(x^0) - f^*)}{\gamma T} + \frac{c}{n} \cdot \frac{G^0}{\theta T}.
#
# The older analysis has :math:`\tilde L` in the place of :math:`L_+ \sqrt{c/n}` and :math:`K/d` in the place of
# :math:`K/r`: it pays for features that a client does not have. ``ef.analyse`` computes every constant and says how
# (exactly, or as a bound):

theory = ef.analyse(problem, ef.TopK(1))
print(theory)

# %%
# Here rare features make the proved step hundreds of times longer; where every client has every feature (:math:`c = n`)
# they are of the same size, as they must be.

method = ef.EF21(ef.TopK(1))
rules = {"standard (2021)": ef.EF21Standard(), "Theorem 1": ef.RareFeatures(), "the largest that is proved": ef.Best()}
shared_by = [2, 5, 10, 20, 40, 70, 100]
theories = [ef.analyse(ef.synthetic(n=100, d=500, m=12, c=c), ef.TopK(1)) for c in shared_by]

figure, axes = plt.subplots()
for (name, rule), mark in zip(rules.items(), "os^", strict=True):
    axes.loglog(np.array(shared_by) / 100, [rule.gamma(each, method) for each in theories], marker=mark, label=name)
axes.set(xlabel="c/n: share of the clients that have a feature", ylabel="step size")
axes.set_title("What each analysis allows EF21 with Top1")
axes.legend()
plt.show()

# %%
# A run, and what it costs
# ------------------------
# ``ef.solve`` runs the algorithm; every bit that a message takes is counted, with its index, its head and its check.
# Three runs of 4,000 rounds:

runs = {name: ef.solve(problem, method, rule, rounds=4_000) for name, rule in rules.items()}
gradient_descent = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=160)
found = ef.solve(problem, method, ef.Automatic(), rounds=300)

figure, axes = plt.subplots()
others = {"gradient descent, 1/L": gradient_descent, "a step that is found while it runs": found}
for name, result in (runs | others).items():
    h = result.history
    axes.semilogy(h["uplink_bits"] / 8 / 1024 / problem.n, h["grad_norm2"], label=name)
axes.set(xlabel="sent by a client so far (KiB)", ylabel=r"$\|\nabla f(x^t)\|^2$", xlim=(0, 50))
axes.set_title("The step decides, and theory is careful")
axes.legend()
plt.show()

# %%
# Three things to see.
#
# - The new step turns an algorithm that stands still into one that converges, with the same messages.
# - Gradient descent that sends *only the features a client has* is ahead of every proved step by bytes. With Top1 the
#   theory never promises fewer numbers than that (:doc:`/theory`, section 8).
# - A theorem covers the worst problem of its class. On this one a step some 50 times as long works, and with it one
#   number a round beats gradient descent by far. Nobody can know that beforehand; ``ef.Automatic`` finds it while the
#   run goes on, from slopes and losses that the clients tell (and that are in the bytes above).
#   ``errorfeedback train`` adds few bits for every number and curvature to that (:doc:`/training`).

gamma = ef.RareFeatures().gamma(theory, method)
print(f"the step that was found, over Theorem 1's: {np.median(found.history['gamma']) / gamma:.0f}")

# %%
# A certificate
# -------------
# The proof has a function that falls in every round, :math:`\Psi^{t+1} \le \Psi^t - \frac{\gamma}{2}\|\nabla
# f(x^t)\|^2`. The run recorded it, so that the theorem can be checked as it stands, on this run:

result = runs["Theorem 1"]
print(result.certificate)

# %%
# The mean of all gradients so far, and what Theorem 1 allows it to be, which is five times as much at the end:

rounds = np.arange(1, 4_001)
mean = np.cumsum(result.history["grad_norm2"][:-1]) / rounds
bound = 2 * result.history["lyapunov"][0] / (result.history["gamma"][0] * rounds)

figure, axes = plt.subplots()
axes.loglog(rounds, bound, color="C1", linestyle="--", label="Theorem 1")
axes.loglog(rounds, mean, color="C0", label="the run")
axes.fill_between(rounds, mean, bound, color="C0", alpha=0.12, linewidth=0)
axes.set(xlabel="rounds T", ylabel=r"mean of $\|\nabla f(x^t)\|^2$ over t < T")
axes.set_title("What was promised, and what happened")
axes.legend()
plt.show()

# %%
# A check that cannot fail is worth nothing. At 160 times the step the run no longer descends, and the check says since
# when:

reckless = ef.solve(problem, method, ef.Constant(160 * gamma), rounds=200)
print(reckless.certificate)
print(ef.verify(reckless))

# %%
# What to take from it
# --------------------
# - Count :math:`c` and :math:`r` first: ``errorfeedback inspect YOUR.csv`` does, and says what every theorem promises
#   on your data.
# - A single feature that everybody has (an intercept) makes :math:`c = n`. ``ef.ExactOnCommon`` sends such features
#   exactly and keeps :math:`c` for the others.
# - The paper's own limitations: many real data sets are not sparse enough for a small :math:`c/n`, and deep networks
#   have nonzero weights from the second layer on. See :doc:`/explanation/limits`.
