"""log(1 + exp(-y z)) with y in {-1, 1} (section 6.2); its second derivative is at most 1/4."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from scipy.special import expit

from errorfeedback.core import Integers, Lifted, PerRow
from errorfeedback.keyed import GOLDEN, unit
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.dual import DualStep, Keys, Rows, add_row, first_draw, row_product

LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
ROUND = 1.5 * 2.0**52
"""v + ROUND holds the integer nearest to v in its low bits."""
LN2, ROOT2_LESS_1 = 0.6931471805599453, 0.41421356237309503
LIMIT = 708.0
"""exp(708) is finite."""
FLAT = 1e-8
"""Up to there tanh(h) / h is 1 to the last digits."""
CLOSEST, TRIES, LEFT = 1e-15, 60, 1e-13
"""How near a dual variable may come to 0 and 1; how often its equation is tried, and what may be left of it."""


@dataclass(frozen=True)
class Logistic(Loss, DualStep):
    """log(1 + exp(-b z)) of a score z and a label b = -1 or 1.

    >>> Logistic().values(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(4)
    array([0.6931, 0.1269])
    """

    curvature: float = 0.25
    quadratic: bool = False

    @property
    def steepest(self) -> float:
        return 1.0

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        out = np.empty_like(z)
        _values(z, b, out)
        return out

    def bends(self, z: PerRow, b: PerRow) -> PerRow:
        share = expit(z)
        return share * (1.0 - share)

    def above(self, z: PerRow, b: PerRow) -> PerRow:
        half = 0.5 * np.abs(z)  # tanh(h) / (4 h), h = |z| / 2: it touches at z and at -z (Jaakkola and Jordan 2000)
        return np.divide(np.tanh(half), 4.0 * half, out=np.full_like(z, self.curvature), where=half > FLAT)

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        _slopes(z, b, shares, out)

    def ascend(
        self, rows: Rows, ends: Integers, keys: Keys, epochs: int, weights: PerRow, b: PerRow, w: Lifted, dual: PerRow
    ) -> None:
        _ascend(rows, ends, keys, epochs, weights, b, w, dual)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _values(z: PerRow, y: PerRow, out: PerRow) -> None:
    """out = log(1 + exp(-v)), v = y z, which is max(-v, 0) + log(1 + e), e = exp(-|v|), in strips as in `_slopes`, where exp
    is explained.

    log(1 + e) is that of fdlibm's log1p (Sun Microsystems): the logarithm of 1 + f with f = e, or f = (e - 1) / 2 and ln 2
    more where 1 + e is above the root of 2, and with s = f / (2 + f) a polynomial in s^2.
    """
    strip = 256
    argument, scale = np.empty(strip), np.empty(strip)
    exponent = scale.view(np.int64)
    for start in range(0, len(z), strip):
        size = min(strip, len(z) - start)
        zs, ys, o = z[start : start + size], y[start : start + size], out[start : start + size]
        for k in range(size):
            v = np.float64(ys[k] * zs[k])
            argument[k] = v
            scale[k] = max(-abs(v), -LIMIT) * LOG2E + ROUND
        for k in range(size):
            exponent[k] = (exponent[k] + 1023) << 52
        for k in range(size):
            v = argument[k]
            w = max(-abs(v), -LIMIT)
            n = (w * LOG2E + ROUND) - ROUND
            r = (w - n * LN2_HIGH) - n * LN2_LOW
            rr = r * r
            p = r * ((1.26177193074810590878e-4 * rr + 3.02994407707441961300e-2) * rr + 1.0)
            q = ((3.00198505138664455042e-6 * rr + 2.52448340349684104192e-3) * rr + 2.27265548208155028766e-1) * rr + 2.0
            e = scale[k] * ((q + p) / (q - p))
            large = e > ROOT2_LESS_1
            f = 0.5 * (e - 1.0) if large else e
            s = f / (2.0 + f)
            t = s * s
            above = 2.222219843214978396e-01 + t * (
                1.818357216161805012e-01 + t * (1.531383769920937332e-01 + t * 1.479819860511658591e-01)
            )
            R = t * (6.666666666666735130e-01 + t * (3.999999999940941908e-01 + t * (2.857142874366239149e-01 + t * above)))
            half = 0.5 * f * f
            log = f - (half - s * (half + R)) + (LN2 if large else 0.0)
            o[k] = log + max(-v, 0.0) if v == v else v  # noqa: PLR0124 - nan stays nan


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _slopes(z: PerRow, y: PerRow, shares: PerRow, out: PerRow) -> None:
    """out = -y shares / (1 + exp(y z)), in strips so that every loop runs in vector registers
    (a check for division by zero, numba's default, would prevent that).

    exp(v) = 2^k exp(r) with k = round(v / ln 2) and the rational approximation exp(r) = (q + p) / (q - p) of the Cephes
    library (Moshier), so that 1 / (1 + exp(v)) = (q - p) / ((q - p) + 2^k (q + p)): one division.
    No step is reassociated: a number's result does not depend on its place in the strip.
    """
    strip = 256
    argument, scale = np.empty(strip), np.empty(strip)
    exponent = scale.view(np.int64)
    for start in range(0, len(z), strip):
        size = min(strip, len(z) - start)
        zs, ys, ws, o = (
            z[start : start + size],
            y[start : start + size],
            shares[start : start + size],
            out[start : start + size],
        )
        for k in range(size):
            v = min(max(ys[k] * zs[k], -LIMIT), LIMIT)
            argument[k] = v
            scale[k] = v * LOG2E + ROUND
        for k in range(size):
            exponent[k] = (exponent[k] + 1023) << 52  # the bits of 2^round(v / ln 2)
        for k in range(size):
            v = argument[k]
            n = (v * LOG2E + ROUND) - ROUND
            r = (v - n * LN2_HIGH) - n * LN2_LOW
            rr = r * r
            p = r * ((1.26177193074810590878e-4 * rr + 3.02994407707441961300e-2) * rr + 1.0)
            q = ((3.00198505138664455042e-6 * rr + 2.52448340349684104192e-3) * rr + 2.27265548208155028766e-1) * rr + 2.0
            o[k] = -ys[k] * ws[k] * (q - p) / ((q - p) + (q + p) * scale[k])


@numba.njit(cache=True, nogil=True)
def _ascend(
    rows: Rows, ends: Integers, keys: Keys, epochs: int, weights: PerRow, b: PerRow, w: Lifted, dual: PerRow
) -> None:
    """u = y a with 0 < a < 1."""
    for i in range(len(ends) - 1):
        state, m = first_draw(keys, i), ends[i + 1] - ends[i]
        for _ in range(epochs * m):
            state += GOLDEN
            row = ends[i] + np.int64(unit(state) * m)
            z, length = row_product(rows, row, w)
            after = b[row] * _share(b[row] * dual[row], b[row] * z, weights[row] * length)
            add_row(rows, row, weights[row] * (after - dual[row]), w)
            dual[row] = after


@numba.njit(cache=True, nogil=True)
def _share(last: float, z: float, q: float) -> float:
    """The a with log(a/(1 - a)) + z + q (a - last) = 0: Newton's method, and bisection where it leaves the bracket."""
    lo, hi = CLOSEST, 1.0 - CLOSEST
    a = last if lo < last < hi else 0.5
    for _ in range(TRIES):
        h = np.log(a / (1.0 - a)) + z + q * (a - last)
        if abs(h) < LEFT or hi - lo < CLOSEST:
            break
        lo, hi = (lo, a) if h > 0.0 else (a, hi)
        a -= h / (1.0 / (a * (1.0 - a)) + q)
        if not lo < a < hi:
            a = 0.5 * (lo + hi)
    return a
