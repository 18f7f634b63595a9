# SPDX-License-Identifier: Apache-2.0
"""Quantiles of conformity scores per task in loops: the twin of model/prediction/conformal.py.

Steps and letters are those of docs/intervals.md.
"""

import math

import numpy as np
from scipy.stats import chi2

COUNTS = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256]
LEAST = 1e-3


def quantile(pairs, level):
    """Least value of (value, weight) pairs with at least this part of the weight below."""
    total = sum(weight for _, weight in pairs)
    below = 0.0
    for value, weight in sorted(pairs):
        below += weight
        if below >= level * total - 1e-9:
            return value
    raise AssertionError


def population(values, variances):
    """Mean and spread by moments (DerSimonian and Laird)."""
    weights = [1.0 / max(own, 1e-100) for own in variances]
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    q = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True))
    scale = sum(weights) - sum(w * w for w in weights) / sum(weights)
    spread = max(0.0, (q - (len(values) - 1)) / scale) if scale > 0 else 0.0
    weights = [1.0 / (max(own, 1e-100) + spread) for own in variances]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights), spread


def upper_population(values, variances):
    """Mean, and spread at which Q is the lower quartile of its distribution; by bisection."""

    def centre_and_q(spread):
        w = [1.0 / (max(own, 1e-100) + spread) for own in variances]
        mean = sum(map(math.prod, zip(w, values, strict=True))) / sum(w)
        return mean, sum(own * (v - mean) ** 2 for own, v in zip(w, values, strict=True))

    low, high = 0.0, 0.0
    if len(values) > 1:
        quartile, mean = chi2.ppf(0.25, len(values) - 1), sum(values) / len(values)
        if centre_and_q(0.0)[1] > quartile:
            high = sum((v - mean) ** 2 for v in values) / quartile
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if centre_and_q(middle)[1] > quartile:
            low = middle
        else:
            high = middle
    return centre_and_q(high)[0], high


class Naive:
    def __init__(self, scores, alpha):
        self.level = 1.0 - alpha
        rng = np.random.default_rng(0)
        keys = rng.random(sum(map(len, scores)))
        self.scores, first = [], 0
        for own in scores:  # rows of a task in random order
            order = np.argsort(keys[first : first + len(own)])
            self.scores.append([float(own[row]) for row in order])
            first += len(own)
        self.m, self.c, self.relative = self.credibility()

    def credibility(self):
        known = [own for own in self.scores if own]
        means = [sum(own) / len(own) for own in known]
        squares = n_free = 0.0
        for own, mean in zip(known, means, strict=True):
            if len(own) > 1 and mean > 0:
                squares += sum((s - mean) ** 2 for s in own) / mean**2
                n_free += len(own) - 1
        relative = squares / n_free if n_free else 1.0
        m, spread = sum(map(sum, known)) / sum(map(len, known)), 0.0
        for _ in range(3):
            m, spread = upper_population(means, [relative * m * m / len(own) for own in known])
        return m, max(relative * m * m / spread, LEAST) if spread else math.inf, relative

    def scale(self, rows):
        if math.isinf(self.c):
            return self.m
        c, n = self.c, len(rows)
        if n:  # at most two standard deviations from m, of the population and by sampling
            spread = ((sum(rows) / n - self.m) / 2.0) ** 2 - self.relative * self.m**2 / n
            if spread * c > self.relative * self.m**2:
                c = max(LEAST, self.relative * self.m**2 / spread)
        return (c * self.m + sum(rows)) / (c + n)

    def ratios(self, own, n_others):
        """Each score over the scale by the next `n_others` rows, in a circle."""
        found = []
        for row, score in enumerate(own):
            others = [own[(row + 1 + k) % len(own)] for k in range(len(own) - 1)]
            found.append(score / self.scale(others[:n_others]))
        return found

    def pairs(self, ratios, kappa):
        weights = [1.0 if math.isinf(kappa) else kappa / (len(own) + kappa) for own in ratios]
        found = [(r, w) for own, w in zip(ratios, weights, strict=True) for r in own]
        return [*found, (math.inf, 1.0 if math.isinf(kappa) else kappa / (1.0 + kappa))]

    def kappa(self, ratios):
        kappa, variance = math.inf, self.level * (1.0 - self.level)
        for _ in range(3):
            bound = quantile(self.pairs(ratios, kappa), self.level)
            shares = [sum(r <= bound for r in own) / len(own) for own in ratios]
            _, spread = population(shares, [variance / len(own) for own in ratios])
            kappa = max(variance / spread - 1.0, LEAST) if spread else math.inf
        return kappa

    def of_task(self, task):
        own = self.scores[task] if task is not None else []
        count = max(c for c in COUNTS if c <= len(own)) if len(own) <= COUNTS[-1] else 10**9
        ratios = [self.ratios(other, count) for other in self.scores if other]
        kappa = self.kappa(ratios)
        pairs = self.pairs(ratios, kappa)
        if own and not math.isinf(kappa):
            total = sum(weight for _, weight in pairs)
            pairs = [(value, weight * kappa / total) for value, weight in pairs]
            pairs += [(ratio, 1.0) for ratio in self.ratios(own, 10**9)]
        return self.scale(own) * quantile(pairs, self.level)


def trend(scores):
    """Mean score by the number of scores, a line of logarithms; of all tasks 1 if it is level."""
    known = [[float(s) for s in own] for own in scores if len(own) and sum(own) > 0]
    if len(known) < 4 or len(set(map(len, known))) < 2:
        return [1.0] * len(scores)
    means = [sum(own) / len(own) for own in known]
    x, y = [math.log(len(own)) for own in known], [math.log(mean) for mean in means]
    pairs = zip(known, means, strict=True)
    squares = sum((s / mean - 1.0) ** 2 for own, mean in pairs for s in own)
    relative = squares / max(1.0, sum(map(len, known)) - len(known))
    variances, spread = [relative / len(own) for own in known], 0.0
    for _ in range(3):
        w = [1.0 / max(own + spread, 1e-12) for own in variances]
        x_mean, y_mean = (sum(map(math.prod, zip(w, v, strict=True))) / sum(w) for v in (x, y))
        sxx = sum(own * (a - x_mean) ** 2 for own, a in zip(w, x, strict=True))
        sxy = sum(o * (a - x_mean) * (b - y_mean) for o, a, b in zip(w, x, y, strict=True))
        slope = sxy / sxx
        rest = [b - slope * (a - x_mean) for a, b in zip(x, y, strict=True)]
        _, spread = population(rest, variances)
    if slope >= 0 or slope * slope * sxx <= 1:
        return [1.0] * len(scores)
    return [
        math.exp(slope * (math.log(len(own)) - x_mean)) if len(own) and sum(own) > 0 else 1.0
        for own in scores
    ]


def naive_quantiles(scores, alpha):
    """Quantile of each task, and that of an unknown one."""
    units, plain = trend(scores), Naive(scores, alpha)
    unknown = plain.of_task(None)
    naive = Naive([np.asarray(s) / unit for s, unit in zip(scores, units, strict=True)], alpha)
    found = [
        unit * naive.of_task(task) if len(scores[task]) else unknown
        for task, unit in enumerate(units)
    ]
    return found, unknown
