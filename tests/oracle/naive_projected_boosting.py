# SPDX-License-Identifier: Apache-2.0
"""The slow, obvious twin of cpp/core/boosting, in the order of joly2016, chapter 6.

Losses of many outputs are written as their definitions, one label after another. Labels have one
column per output; a NaN is a label that is unknown, and takes part in nothing.

Given the same cuts and projections it grows the same trees. Margins and residuals are float32, as
in the core, and so are components, added output by output. They are rounded as the core rounds
them: sums are then exact in float64, and a gain made of them by the same formula has the same bits,
so that ties end alike. What may differ is the last bit of an exponential, or of a leaf's sum, whose
order is another: a tree two of whose cuts gain almost the same is_doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from oracle.naive_forest import RandomStream

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

f32 = np.float32
ROWS, FEATURES_OF_TREE, FEATURES_OF_NODE, PROJECTION = 1, 2, 4, 6  # what a stream is for
LONGEST_STEP, MOST_LOG_ODDS = 1.79, 10.0
ALMOST = 1e-5


# Losses -------------------------------------------------------------------------------------------


def huber(u: Doubles, delta: float) -> Doubles:
    return np.where(np.abs(u) <= delta, u**2 / 2, delta * (np.abs(u) - delta / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One of the core's, over labels of shape (n_rows, n_outputs)."""

    name: str
    delta: float = 1.0

    def values(self, Y: Doubles, F: Doubles) -> Doubles:
        """Loss of each label, NaN where it is unknown; of softmax: of each row, in one column."""
        match self.name:
            case "squared":
                return (Y - F) ** 2 / 2
            case "absolute":
                return np.abs(Y - F)
            case "huber":
                return huber(Y - F, self.delta)
            case "logistic":
                return np.logaddexp(0, F) - Y * F
            case _:
                return np.logaddexp.reduce(F, axis=1, keepdims=True) - (Y * F).sum(1, keepdims=True)

    def mean(self, Y: Doubles, F: Doubles, W: Doubles) -> float:
        """Weighted mean over the known labels; of softmax: over the rows."""
        values = self.values(Y, F)
        known = np.isfinite(values)
        W = W[:, : values.shape[1]][known]
        return float((W * values[known]).sum() / W.sum()) if W.sum() > 0 else 0.0

    def residuals(self, Y: Doubles, F: Doubles) -> Doubles:
        """Minus the derivative in each margin; 0 where the label is unknown."""
        u = Y - F
        match self.name:
            case "squared":
                R = u
            case "absolute":
                R = np.sign(u)
            case "huber":
                R = np.clip(u, -self.delta, self.delta)
            case "logistic":
                R = Y - 1 / (1 + np.exp(-F))
            case _:
                R = Y - softmax(F)
        return np.nan_to_num(R, nan=0.0)

    def hessians(self, Y: Doubles, F: Doubles) -> Doubles:
        """Second derivative, or the bound that stands for it; 0 where the label is unknown."""
        match self.name:
            case "logistic":
                P = 1 / (1 + np.exp(-F))
                H = P * (1 - P)
            case "softmax":
                H = 2 * softmax(F) * (1 - softmax(F))
            case _:
                H = np.ones_like(F)
        return np.where(np.isnan(Y), 0.0, H)

    def initial(self, Y: Doubles, W: Doubles) -> Doubles:
        """The constant of each output with the smallest loss."""
        constants = np.zeros(Y.shape[1])
        for output, (y, w) in enumerate(zip(Y.T, W.T, strict=True)):
            known = ~np.isnan(y) & (w > 0)
            y, w = y[known], w[known]
            if len(y) == 0:
                continue
            bound = 1 / (2 * len(y))
            p = np.clip(w @ y / w.sum(), bound, 1 - bound)
            match self.name:
                case "squared":
                    constants[output] = w @ y / w.sum()
                case "absolute":
                    constants[output] = weighted_median(y, w)
                case "huber":
                    constants[output] = huber_step(y, np.ones_like(y), w, self.delta)
                case "logistic":
                    constants[output] = np.log(p / (1 - p))
                case _:
                    constants[output] = np.log(p)
        return constants


def softmax(F: Doubles) -> Doubles:
    P = np.exp(F - F.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


# Along a line: Σ w loss(u - t g) ------------------------------------------------------------------


def weighted_median(values: Doubles, weights: Doubles) -> float:
    """Where half the weight lies below; the middle of what fits, as for numpy.median."""
    order = np.argsort(values, kind="stable")
    values, sums = values[order], np.cumsum(weights[order])
    upper = int(np.argmax(2 * sums > sums[-1]))
    lower = int(np.argmax(2 * sums >= sums[-1]))
    return float((values[lower] + values[upper]) / 2)


def huber_step(u: Doubles, g: Doubles, w: Doubles, delta: float) -> float:
    """By bisection of the derivative; where it is 0 at the median it ends there."""
    u, g, w = u[g != 0], g[g != 0], w[g != 0]
    if len(u) == 0:
        return 0.0
    low, high = float((u / g).min()), float((u / g).max())

    def slope(t: float) -> float:
        return float((w * g * np.clip(u - t * g, -delta, delta)).sum())

    t = weighted_median(u / g, w * np.abs(g))
    if abs(slope(t)) <= 1e-13 * delta * (w * np.abs(g)).sum():
        return t
    return bisect(slope, low, high)


def bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    """Root of a function that falls."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def logistic_step(F: Doubles, g: Doubles, w: Doubles, y: Doubles, most: float) -> float:
    """By bisection of the derivative between two bounds; 0 where no row moves."""
    if not (w * g).any():
        return 0.0

    def slope(t: float) -> float:
        return float((w * g * (y - 1 / (1 + np.exp(-(F + t * g))))).sum())

    return bisect(slope, -most, most)


# Trees --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Arguments of _core.ComponentTreeParams and _core.ProjectedBoosting."""

    relabels: bool = True
    learning_rate: float = 0.1
    max_depth: int = 6
    max_leaf_nodes: int = 0
    min_samples_leaf: int = 1
    max_features: int = 2**32 - 1
    feature_weights: tuple[float, ...] | None = None
    subsample: float = 1.0
    colsample: float = 1.0
    seed: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    rows: Ints  # that it grew on
    others: Ints  # that only pass
    depth: int = 0
    path: int = 1
    number: int = 0  # in the order of growth
    gain: float = 0.0
    feature: int = 0
    bin: int = 0
    missing_left: bool = False
    children: list[Node] = field(default_factory=list)
    values: Doubles = field(
        default_factory=lambda: np.zeros(0)
    )  # of a leaf, learning rate included
    weight: float = 0.0

    def leaves(self) -> Iterator[Node]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def nodes(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.nodes()


def find_bins(X: Floats, cuts: list[Floats]) -> Ints:
    """Bin of each value: the number of cuts at or below it, the last one at most; -1 is missing."""
    bins = np.empty(X.shape, np.int64)
    for feature, own in enumerate(cuts):
        bins[:, feature] = np.minimum(np.searchsorted(own, X[:, feature], "right"), len(own) - 1)
    return np.where(np.isnan(X), -1, bins)


def draw_features(features: list[int], n: int, random: RandomStream) -> list[int]:
    n = min(max(n, 1), len(features))
    for i in range(n):
        other = i + random.below(len(features) - i)
        features[i], features[other] = features[other], features[i]
    return sorted(features[:n])


def draw_by_weight(
    features: list[int], weights: tuple[float, ...], n: int, random: RandomStream
) -> list[int]:
    """In the order of the draws: each with a probability in proportion to its weight, of the rest.

    What is drawn twice counts once. After some attempts the rest race each other: exponential
    times of arrival whose rates are the weights.
    """
    own = [weights[feature] for feature in features]
    n, sums, drawn = min(n, len(features)), np.cumsum(own), list[int]()
    for _ in range(n + len(features) // 4):
        if len(drawn) == n:
            return drawn
        at = np.searchsorted(sums, random.uniform() * sums[-1], side="right")
        feature = features[min(int(at), len(features) - 1)]
        if feature not in drawn:
            drawn.append(feature)
    if len(drawn) == n:
        return drawn
    arrivals = [
        (-math.log1p(-random.uniform()) / weights[feature], feature)
        for feature in features
        if feature not in drawn
    ]
    return drawn + [feature for _, feature in sorted(arrivals)[: n - len(drawn)]]


def rounded(values: Floats) -> tuple[Doubles, float]:
    """To 24 bits below the largest, and the unit of that."""
    most = np.abs(values).max(initial=0)
    if most == 0:
        return values.astype(float), 0.0
    unit = 2.0 ** (np.frexp(most)[1] - 24)
    return np.round(values.astype(float) / unit) * unit, float(unit)


class TreeGrower:
    """One tree on components times weights, (row, component), and weights."""

    def __init__(
        self, bins: Ints, cuts: list[Floats], C: Doubles, w: Doubles, noise: float, params: Params
    ) -> None:
        self.bins, self.cuts, self.C, self.w, self.params = bins, cuts, C, w, params
        self.sum_of_squared_units = noise
        self.is_doubtful = False

    def grow(self, rows: Ints, others: Ints, tree: int) -> Node:
        params, n_features = self.params, len(self.cuts)
        self.tree = tree
        weights = params.feature_weights or (1.0,) * n_features
        self.features = [feature for feature in range(n_features) if weights[feature] > 0]
        if params.colsample < 1:
            random = RandomStream(FEATURES_OF_TREE, params.seed, tree)
            n = int(params.colsample * len(self.features) + 0.5)
            self.features = draw_features(self.features, n, random)
        root = Node(rows=rows, others=others)
        self.find_cut(root)
        open_nodes, n_leaves = [root], 1
        while open_nodes := [node for node in open_nodes if node.gain > 0]:
            if params.max_leaf_nodes and n_leaves == params.max_leaf_nodes:
                break
            best = open_nodes[0]
            if params.max_leaf_nodes:
                best = max(open_nodes, key=lambda node: (node.gain, -node.number))
                self.doubt([node.gain for node in open_nodes], best.gain)
            open_nodes.remove(best)
            n_leaves += 1
            for left in (True, False):
                child = Node(
                    rows=best.rows[self.goes_left(best, best.rows) == left],
                    others=best.others[self.goes_left(best, best.others) == left],
                    depth=best.depth + 1,
                    path=2 * best.path + (0 if left else 1),
                    number=2 * n_leaves + (0 if left else 1),
                )
                best.children.append(child)
                self.find_cut(child)
            open_nodes += best.children
        return root

    def goes_left(self, node: Node, rows: Ints) -> Bools:
        bins = self.bins[rows, node.feature]
        return np.where(bins < 0, node.missing_left, bins <= node.bin)

    def doubt(self, gains: list[float], best: float) -> None:
        self.is_doubtful |= sum(gain > best * (1 - ALMOST) for gain in gains) > 1

    def gain(self, rows: Ints, is_left: Bools) -> float:
        left, right = rows[is_left], rows[~is_left]
        if min(len(left), len(right)) < self.params.min_samples_leaf:
            return 0.0
        weight, other = self.w[left].sum(), self.w[right].sum()
        inverse, inverse_of_other = 1 / weight, 1 / other
        squares = [0.0, 0.0]
        for k, (s, t) in enumerate(
            zip(self.C[left].sum(axis=0), self.C[right].sum(axis=0), strict=True)
        ):
            difference = s * inverse - t * inverse_of_other
            squares[k % 2] += difference * difference
        return float(weight * other / (weight + other) * (squares[0] + squares[1]))

    def find_cut(self, node: Node) -> None:
        params, rows = self.params, node.rows
        if node.depth == params.max_depth or len(rows) < 2:
            return
        features = self.features
        if params.max_features < len(features):
            random = RandomStream(FEATURES_OF_NODE, params.seed, self.tree, node.path % 2**64)
            if params.feature_weights is None:
                features = draw_features(list(features), params.max_features, random)
            else:
                weights = params.feature_weights
                features = sorted(draw_by_weight(features, weights, params.max_features, random))
        noise = self.sum_of_squared_units * len(rows) ** 2 / self.w[rows].sum()
        best = noise
        found: dict[bytes, float] = {}  # the gain of each division
        for feature in features:
            bins = self.bins[rows, feature]
            for cut in np.unique(bins[bins >= 0]):  # others divide as the one before
                for missing_left in (False, True):
                    is_left = np.where(bins < 0, missing_left, bins <= cut)
                    gain = self.gain(rows, is_left)
                    found[(is_left == is_left[0]).tobytes()] = gain
                    if gain > best:
                        best = gain
                        node.gain, node.feature, node.bin = gain, feature, int(cut)
                        node.missing_left = missing_left
        self.doubt(list(found.values()), best)
        self.is_doubtful |= 0.1 * noise < best < 10 * noise


# Boosting -----------------------------------------------------------------------------------------


class Boosting:
    """Joly's algorithms: ``projections`` gives the matrix Φ of each tree, None for the outputs."""

    def __init__(
        self,
        X: Floats,
        cuts: list[Floats],
        loss: Loss,
        Y: Doubles,
        W: Doubles,
        params: Params,
        projections: Callable[[int], Floats | None],
        constants: Floats | None = None,
    ) -> None:
        self.bins, self.cuts, self.loss, self.params = find_bins(X, cuts), cuts, loss, params
        self.Y, self.W = Y, np.where(np.isnan(Y), 0.0, W)
        self.projections = projections
        self.row_weights = self.W.mean(axis=1).astype(f32)
        start = loss.initial(Y, self.W) if constants is None else constants
        self.F = np.tile(start.astype(f32), (len(Y), 1))
        self.n_trees = 0
        self.is_doubtful = self.is_rounding = False

    def mean_loss(self) -> float:
        return self.loss.mean(self.Y, self.F.astype(float), self.W)

    def draw_rows(self) -> Bools:
        random = RandomStream(ROWS, self.params.seed, self.n_trees)
        is_drawn = np.ones(len(self.Y), bool)
        if self.params.subsample < 1:
            is_drawn = np.array([random.uniform() < self.params.subsample for _ in self.Y])
        return is_drawn & (self.row_weights > 0)

    def update(self) -> tuple[Node, Floats | None]:
        """One round: a tree and, without relabelling, the weights of the outputs."""
        is_drawn = self.draw_rows()
        rows, others = np.flatnonzero(is_drawn), np.flatnonzero(~is_drawn)
        R = self.loss.residuals(self.Y, self.F.astype(float)).astype(f32)
        root, weights = Node(rows=rows, others=others), None
        if len(rows) > 0:
            grower = self.grower(rows, self.W.astype(f32) * R)
            root = grower.grow(rows, others, self.n_trees)
            self.is_doubtful |= grower.is_doubtful
            for node in root.nodes():
                node.weight = float(grower.w[node.rows].sum())
        rate = self.params.learning_rate
        leaves = list(root.leaves())
        if self.params.relabels:
            for leaf in leaves:
                values = self.leaf_values(leaf.rows) if root.children else np.zeros(R.shape[1])
                leaf.values = (rate * values).astype(f32).astype(float)
                self.F[np.r_[leaf.rows, leaf.others]] += leaf.values.astype(f32)
        else:
            weights = np.zeros(R.shape[1], f32)
            for leaf in leaves:
                leaf.values = np.zeros(1)
            if root.children:
                g = np.zeros(len(R), f32)
                for leaf in leaves:
                    mean = grower.C[leaf.rows, 0].sum() / grower.w[leaf.rows].sum()
                    leaf.values = np.array([f32(mean)], float)
                    g[np.r_[leaf.rows, leaf.others]] = f32(mean)
                weights = (rate * self.line_search(g, rows)).astype(f32)
                self.F += g[:, None] * weights
        self.n_trees += 1
        return root, weights

    def grower(self, rows: Ints, G: Floats) -> TreeGrower:
        projection = self.projections(self.n_trees)
        if projection is None:
            C = G
        else:
            C = np.zeros((len(G), len(projection)), f32)
            for output in range(G.shape[1]):  # in float32, one after the other
                C += G[:, [output]] * projection[:, output]
        # What should be 0 leaves roundings: rows that are fitted to the last bit, classes whose
        # residuals add up to 0. Nothing is said of the trees that grow on them.
        sizes = np.nan_to_num(np.abs(self.F) + np.abs(self.Y))[rows].max(axis=0)
        sizes = sizes if projection is None else np.abs(projection) @ sizes
        self.is_rounding |= bool((np.abs(C[rows]).max(axis=0) < ALMOST * sizes).any())
        components, units = np.zeros(C.shape), []
        for k in range(C.shape[1]):
            components[rows, k], unit = rounded(C[rows, k])
            units.append(unit)
        weights = np.zeros(len(G))
        weights[rows], _ = rounded(self.row_weights[rows])
        noise = sum(unit**2 for unit in units)
        return TreeGrower(self.bins, self.cuts, components, weights, noise, self.params)

    def leaf_values(self, rows: Ints) -> Doubles:
        Y, F, W = self.Y[rows], self.F[rows].astype(float), self.W[rows]
        d = Y.shape[1]
        if self.loss.name in ("absolute", "huber"):
            return np.array([self.minimum(j, np.ones(len(rows)), rows) for j in range(d)])
        G = (W * self.loss.residuals(Y, F)).sum(axis=0)
        H = (W * self.loss.hessians(Y, F)).sum(axis=0)
        values = np.divide(G, H, out=np.zeros(d), where=H > 0)
        if self.loss.name == "squared":
            return values
        values = np.clip(values, -LONGEST_STEP, LONGEST_STEP)
        return shortened(values, 1.0) if self.loss.name == "softmax" else values

    def minimum(self, output: int, g: Doubles, rows: Ints) -> float:
        """Along the line g, of one output."""
        y, F = self.Y[rows, output], self.F[rows, output]
        w = self.W[rows, output]
        known = w > 0
        y, F, w, g = y[known], F[known], w[known], g[known]
        if len(y) == 0:
            return 0.0
        u = (y.astype(f32) - F).astype(float)
        match self.loss.name:
            case "absolute":
                moves = g != 0
                u, g, w = u[moves], g[moves], w[moves]
                return weighted_median(u / g, w * np.abs(g)) if len(u) else 0.0
            case "huber":
                return huber_step(u, g, w, self.loss.delta)
            case _:
                largest = float(np.abs(self.g_of_round).max())
                return logistic_step(F.astype(float), g, w, y, MOST_LOG_ODDS / largest)

    def line_search(self, g: Floats, rows: Ints) -> Doubles:
        Y, F, W, d = self.Y[rows], self.F[rows].astype(float), self.W[rows], self.Y.shape[1]
        self.g_of_round = g[rows].astype(float)
        if self.loss.name not in ("squared", "softmax"):
            return np.array([self.minimum(j, self.g_of_round, rows) for j in range(d)])
        along = self.g_of_round[:, None]
        G = (W * along * self.loss.residuals(Y, F)).sum(axis=0)
        H = (W * along**2 * self.loss.hessians(Y, F)).sum(axis=0)
        weights = np.divide(G, H, out=np.zeros(d), where=H > 0)
        if self.loss.name == "squared":
            return weights
        largest = float(np.abs(along).max())
        weights = np.clip(weights, -LONGEST_STEP / largest, LONGEST_STEP / largest)
        return shortened(weights, largest)


def shortened(steps: Doubles, scale: float) -> Doubles:
    """All steps by one factor, so that no two classes part by more than LONGEST_STEP."""
    length = scale * (steps.max() - steps.min())
    return steps * min(1.0, LONGEST_STEP / length) if length > 0 else steps
