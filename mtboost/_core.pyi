# SPDX-License-Identifier: Apache-2.0
# Types of the extension; what a call does is written at its definition in cpp/core.
# Arrays must be C-contiguous and of exactly these types; tables may have any strides.

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

class _Pybind11Type(type): ...

# ---- binning: cpp/core/binning -------------------------------------------------------------------

class BinnedMatrix(metaclass=_Pybind11Type):
    # Raises TypeError: made by BinnedMatrixBuilder.build().
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def is_sparse(self) -> bool: ...

class BinnedMatrixBuilder(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        offsets: NDArray[np.uint32],
        values: NDArray[np.float32],
        min_values: NDArray[np.float32],
        is_categorical: NDArray[np.uint8],
        n_rows: int,
        may_be_missing: NDArray[np.uint8],
        storage_order: NDArray[np.uint32],
        is_sparse: bool = False,
        outer_bins: bool = False,
    ) -> None: ...
    def add(self, block: NDArray[np.float32] | NDArray[np.float64], *, n_threads: int) -> None: ...
    def add_csr(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float32],
        *,
        n_threads: int,
    ) -> None: ...
    def add_codes(
        self, codes: NDArray[np.float32], n_features: NDArray[np.uint32], *, n_threads: int
    ) -> None: ...
    def build(self) -> BinnedMatrix: ...

# From LightGBM's bins (cpp/core/binning/bin_edges.hpp). bits: of each column's entries.
def lightgbm_matrix(
    *,
    n_bins: NDArray[np.uint32],
    missing_bins: NDArray[np.uint32],
    frequent_bins: NDArray[np.uint32],
    missing_types: NDArray[np.uint8],
    is_categorical: NDArray[np.uint8],
    columns: Sequence[NDArray[np.uint8]],
    bits: Sequence[int],
    steps: Sequence[NDArray[np.uint8] | None],
    column_of_feature: Sequence[int],
    first_entries: Sequence[int],
    n_rows: int,
    storage_order: NDArray[np.uint32],
    is_sparse: bool,
    n_threads: int,
) -> BinnedMatrix: ...
def columns_with_missing(
    table: NDArray[np.float32] | NDArray[np.float64], *, n_threads: int
) -> NDArray[np.uint8]: ...

# ---- losses: cpp/core/loss -----------------------------------------------------------------------

class Loss(metaclass=_Pybind11Type):
    def __init__(
        self,
        name: str,
        n_outputs: int = 1,
        *,
        scale_pos_weight: float = 1.0,
        huber_slope: float = 1.0,
        max_delta_step: float = 0.7,
        tweedie_variance_power: float = 1.5,
        quantile_alpha: Sequence[float] = [],
        lambdarank_num_pair_per_sample: int = 32,
        lambdarank_normalization: bool = True,
        lambdarank_score_normalization: bool = True,
        ndcg_exp_gain: bool = True,
        aft_loss_distribution: str = "normal",
        aft_loss_distribution_scale: float = 1.0,
        arithmetic: str = "xgboost-3.0",  # also: "xgboost-3.4"
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def refits_leaves(self) -> bool: ...
    @property
    def needs_groups(self) -> bool: ...
    @property
    def needs_risk_sets(self) -> bool: ...
    def check_labels(self, labels: NDArray[np.float32]) -> None: ...
    def gradients(
        self,
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        groups: NDArray[np.uint32] | None = None,
        order: NDArray[np.uint32] | None = None,
        n_threads: int = 1,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]: ...
    def refit_leaf_values(
        self,
        leaf_values: NDArray[np.float32],
        leaves: NDArray[np.int32],
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        output: int = 0,
        learning_rate: float,
        n_threads: int = 1,
    ) -> NDArray[np.float32]: ...

class LightgbmLoss(metaclass=_Pybind11Type):
    def __init__(
        self,
        name: str,
        n_outputs: int = 1,
        *,
        alpha: float = 0.9,
        fair_c: float = 1.0,
        poisson_max_delta_step: float = 0.7,
        tweedie_variance_power: float = 1.5,
        sigmoid: float = 1.0,
        is_unbalance: bool = False,
        scale_pos_weight: float = 1.0,
        lambdarank_norm: bool = True,
        lambdarank_truncation_level: int = 30,
        arithmetic: str = "lightgbm-4.7",  # also: "lightgbm-4.5"
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def refits_leaves(self) -> bool: ...
    @property
    def needs_groups(self) -> bool: ...
    @property
    def needs_risk_sets(self) -> bool: ...
    def check_labels(self, labels: NDArray[np.float32]) -> None: ...
    def gradients(
        self,
        margins: NDArray[np.float64],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        groups: NDArray[np.uint32] | None = None,
        order: NDArray[np.uint32] | None = None,
        n_threads: int = 1,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]: ...
    def refit_leaf_values(
        self,
        leaf_values: NDArray[np.float64],
        leaves: NDArray[np.int32],
        margins: NDArray[np.float64],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        output: int = 0,
        learning_rate: float,
        n_threads: int = 1,
    ) -> NDArray[np.float64]: ...

# ---- split scores: cpp/core/split/split_score.hpp ------------------------------------------------

class SplitScore(metaclass=_Pybind11Type):
    # Raises TypeError: made by the functions below.
    def __init__(self, *args: object, **kwargs: object) -> None: ...

def entropy_score() -> SplitScore: ...
def variance_score(beta: float) -> SplitScore: ...
def deviation_score() -> SplitScore: ...
def callable_score(
    function: Callable[[NDArray[np.float32], NDArray[np.float32]], ArrayLike],
) -> SplitScore: ...

# ---- trees: cpp/core/grow ------------------------------------------------------------------------

class XgboostParams(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        learning_rate: float = 0.3,
        max_depth: int = 6,
        max_leaves: int = 0,
        loss_guided: bool = False,
        min_split_loss: float = 0.0,
        min_child_weight: float = 1.0,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        max_delta_step: float = 0.0,
        max_cat_to_onehot: int = 4,
        max_cat_threshold: int = 64,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        monotone_constraints: Sequence[int] = [],
        interaction_constraints: Sequence[Sequence[int]] = [],
        seed: int = 0,
        arithmetic: str = "xgboost-3.0",  # also: "xgboost-3.4"
    ) -> None: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def subsample(self) -> float: ...
    @property
    def monotone_constraints(self) -> list[int]: ...

class LightgbmParams(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        max_depth: int = -1,
        num_leaves: int = 31,
        min_data_in_leaf: int = 20,
        min_sum_hessian_in_leaf: float = 0.001,
        min_gain_to_split: float = 0.0,
        lambda_l1: float = 0.0,
        lambda_l2: float = 0.0,
        max_delta_step: float = 0.0,
        path_smooth: float = 0.0,
        monotone_penalty: float = 0.0,
        max_cat_to_onehot: int = 4,
        max_cat_threshold: int = 32,
        cat_smooth: float = 10.0,
        cat_l2: float = 10.0,
        min_data_per_group: int = 100,
        bagging_fraction: float = 1.0,
        feature_fraction: float = 1.0,
        feature_fraction_bynode: float = 1.0,
        feature_contri: Sequence[float] = [],
        monotone_constraints: Sequence[int] = [],
        interaction_constraints: Sequence[Sequence[int]] = [],
        seed: int = 0,
    ) -> None: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def monotone_constraints(self) -> list[int]: ...

# sum: replaces the values by their sums over all workers, in place; the str names the step.
class Communicator(metaclass=_Pybind11Type):
    def __init__(self, *, rank: int, sum: Callable[[NDArray[np.float64], str], None]) -> None: ...

class TreeGrower(metaclass=_Pybind11Type):
    def __init__(
        self,
        matrix: BinnedMatrix,
        *,
        score: SplitScore | None = None,
        first_rows: NDArray[np.uint32] | None = None,
        feature_weights: NDArray[np.float32] | None = None,
        task_column: int | None = None,
        task_penalty: float = 1.0,
        symmetric: bool = False,
        random_strength: float = 0.0,
        workers: Communicator | None = None,
        has_whole_tasks: bool = False,
        quantized_gradients: bool = False,
        unseen_at_random: bool = False,
    ) -> None: ...
    # A tree and the leaf of every row (~leaf if the row took no part).
    # tasks, rows: one flag each. features: ascending.
    def grow(
        self,
        params: XgboostParams | LightgbmParams,
        gradients: NDArray[np.float32],
        *,
        tasks: NDArray[np.uint8] | None = None,
        rows: NDArray[np.uint8] | None = None,
        features: NDArray[np.uint32] | None = None,
        tree_number: int = 0,
        n_threads: int = 1,
    ) -> tuple[Tree, NDArray[np.int32]]: ...

class Tree(metaclass=_Pybind11Type):
    # Raises TypeError: made by TreeGrower.grow().
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    # By name; nodes in the order of cpp/core/tree/tree.hpp. n_categories: of each feature; those
    # that no training row has are listed where missing values go right.
    def arrays(
        self, *, n_categories: NDArray[np.uint32] | None = None
    ) -> dict[str, NDArray[Any]]: ...
    # Leaf of every row of a matrix with the same bins.
    def leaves(self, matrix: BinnedMatrix, *, n_threads: int = 1) -> NDArray[np.int32]: ...

# For each leaf and task with a hessian above 0: both, and the sums of gradients and hessians.
def sum_by_leaf_and_task(
    leaves: NDArray[np.int32],
    codes: NDArray[np.int32],
    pairs: NDArray[np.float32],
    *,
    n_nodes: int,
    n_tasks: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]: ...

# A flag for each row that a tree of TreeGrower draws where rows keep the caller's order.
def draw_rows(
    n_rows: int, *, subsample: float, seed: int, tree_number: int, worker: int
) -> NDArray[np.uint8]: ...

# values: of each node, or of shape (n_nodes, n_columns); codes: columns of rows, -1 the last.
def add_leaf_values(
    values: NDArray[np.float64],
    leaves: NDArray[np.int32],
    margins: NDArray[np.float32] | NDArray[np.float64],
    *,
    codes: NDArray[np.int32] | None = None,
    output: int,
    n_threads: int,
) -> None: ...

# A forest's trees. Tables are float32 of any strides; NaN is missing.
class ForestParams(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        splitter: str = "random",
        max_features: int = 4294967295,
        max_depth: int = 4294967295,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        n_bootstrap: int = 0,
        task_split_prob: float = 0.0,
        alpha: float = 1.0,
        seed: int = 0,
    ) -> None: ...

# Of a kind of cpp/core/projection/projection.hpp, drawn for each tree or shared; or one matrix of
# shape (n_components, n_outputs) for all trees.
class ForestProjection(metaclass=_Pybind11Type):
    @overload
    def __init__(self, kind: str, *, n_components: int, is_shared: bool = False) -> None: ...
    @overload
    def __init__(self, matrix: NDArray[np.float32]) -> None: ...
    # That of one tree, of shape (n_components, n_outputs).
    def matrix(self, *, n_outputs: int, seed: int, tree: int) -> NDArray[np.float32]: ...
    # Gradients of shape (n_rows, n_outputs, 2) to (n_rows, n_components, 2), the hessians counting
    # rows: weights have shape (n_rows,) or (n_rows, n_outputs), where 0 is an unknown label.
    def project(
        self,
        gradients: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        seed: int,
        tree: int,
        n_threads: int = 1,
    ) -> NDArray[np.float32]: ...

# CSR; indices ascend in each row. absent: what a value is that is not stored, 0 or NaN.
class SparseRows(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        indptr: NDArray[np.int64],
        indices: NDArray[np.uint32],
        values: NDArray[np.float32],
        n_features: int,
        absent: float = 0.0,
    ) -> None: ...

class FeatureColumns(metaclass=_Pybind11Type):
    def __init__(self, X: NDArray[np.float32] | SparseRows, *, n_threads: int = 1) -> None: ...

class Forest(metaclass=_Pybind11Type):
    # n_tasks 0: no task splits. Tasks are codes below it; 2^32 - 1 in a prediction is one not seen.
    def __init__(self, params: ForestParams, *, n_features: int, n_tasks: int = 0) -> None: ...
    # Adds trees. Either y of shape (n_rows, n_outputs), or labels below n_labels: one a row, or
    # those of row i at [label_starts[i], label_starts[i + 1]), with 1 each or with values.
    def grow(
        self,
        columns: FeatureColumns,
        *,
        n_trees: int,
        y: NDArray[np.float64] | None = None,
        labels: NDArray[np.uint32] | None = None,
        label_starts: NDArray[np.uint64] | None = None,
        label_values: NDArray[np.float64] | None = None,
        n_labels: int = 0,
        tasks: NDArray[np.uint32] | None = None,
        weights: NDArray[np.float64] | None = None,
        projection: ForestProjection | None = None,
        n_threads: int = 1,
    ) -> None: ...
    # Means of the leaves' outputs, of shape (n_rows, n_outputs).
    def predict(
        self,
        X: NDArray[np.float32] | SparseRows,
        *,
        tasks: NDArray[np.uint32] | None = None,
        n_threads: int = 1,
    ) -> NDArray[np.float64]: ...
    # The same over the trees that each row of the training table was not drawn for; NaN: none.
    def predict_out_of_bag(
        self,
        X: NDArray[np.float32] | SparseRows,
        *,
        tasks: NDArray[np.uint32] | None = None,
        weights: NDArray[np.float64] | None = None,
        n_threads: int = 1,
    ) -> NDArray[np.float64]: ...
    # Node that each row ends in, of shape (n_rows, n_trees).
    def leaves(
        self,
        X: NDArray[np.float32] | SparseRows,
        *,
        tasks: NDArray[np.uint32] | None = None,
        n_threads: int = 1,
    ) -> NDArray[np.int32]: ...
    # Of each feature, task splits last; they sum to 1.
    def importances(self) -> NDArray[np.float64]: ...
    # By name; nodes in the order of cpp/core/tree/decision_tree.hpp. add_tree() is the way back.
    def tree_arrays(self, tree: int) -> dict[str, NDArray[Any]]: ...
    def add_tree(self, arrays: Mapping[str, NDArray[Any]], *, n_outputs: int) -> None: ...
    # Those of all trees, one tree after the other, and `starts`: by array, where each tree's part
    # of it begins, and the end of the last. Without trees there are none.
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def add_trees(self, arrays: Mapping[str, NDArray[Any]], *, n_outputs: int) -> None: ...
    # Arguments of ForestParams.
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_tasks(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...

# ---- models of few rows each: cpp/core/grow/small_models.hpp -------------------------------------

class SmallModels(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        cells: NDArray[np.float32],
        first_rows: NDArray[np.uint32],
        valid_cells: NDArray[np.float32],
        first_valid_rows: NDArray[np.uint32],
        params: XgboostParams,
        symmetric: bool = False,
        random_strength: float = 0.0,
        n_outputs: int = 1,
        is_categorical: NDArray[np.uint8] | None = None,
        unseen_at_random: bool = False,
        n_categories: NDArray[np.uint32] | None = None,
        n_threads: int = 1,
    ) -> None: ...
    # Adds the trees to the margins, shape (n_rows, n_outputs).
    def grow(
        self,
        models: NDArray[np.uint32],
        gradients: NDArray[np.float32],
        margins: NDArray[np.float32],
        valid_margins: NDArray[np.float32],
        *,
        n_threads: int = 1,
    ) -> None: ...
    def keep(self, model: int, n_trees: int) -> None: ...
    # Nodes of all trees, and where models and trees begin.
    def trees(self) -> dict[str, NDArray[Any]]: ...

def have_few_values(
    cells: NDArray[np.float32],
    first_rows: NDArray[np.uint32],
    *,
    is_categorical: NDArray[np.uint8] | None = None,
    most: int,
    n_threads: int = 1,
) -> NDArray[np.uint8]: ...

# ---- compression: cpp/core/forest/compression.hpp ------------------------------------------------

# Rows that the nodes of a forest are to explain, y of shape (n_rows, n_outputs), and others to
# validate on.
class StagewiseInput(metaclass=_Pybind11Type):
    def __init__(
        self,
        forest: Forest,
        X: NDArray[np.float32] | SparseRows,
        y: NDArray[np.float64],
        *,
        tasks: NDArray[np.uint32] | None = None,
        X_valid: NDArray[np.float32] | SparseRows | None = None,
        y_valid: NDArray[np.float64] | None = None,
        tasks_valid: NDArray[np.uint32] | None = None,
    ) -> None: ...

# One path for each input, by name as in StagewisePath; (step, output) is flattened.
def stagewise_paths(
    inputs: Sequence[StagewiseInput], *, epsilon: float, max_steps: int, n_threads: int = 1
) -> list[dict[str, NDArray[Any]]]: ...

# Trees whose mean is the intercept plus the coefficients of the nodes that a row visits. Nodes
# ascend, numbered through all trees.
def pruned_forest(
    forest: Forest,
    nodes: NDArray[np.uint32],
    *,
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> Forest: ...

# A multi-task decision tree. Tables are float32 of any strides, or sparse; NaN is missing.
class SortedColumns(metaclass=_Pybind11Type):
    def __init__(self, X: NDArray[np.float32] | SparseRows, *, n_threads: int = 1) -> None: ...

class MTTreeParams(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        criterion: str = "joint",
        purity: float = 1.0,
        max_depth: int = 4294967295,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        max_features: int = 4294967295,
        seed: int = 0,
    ) -> None: ...

class MTDecisionTree(metaclass=_Pybind11Type):
    # Classes are counted through all tasks: task t has those from class_starts[t] to
    # class_starts[t + 1]; labels are of each row. tree: key of the random draws.
    def __init__(
        self,
        columns: SortedColumns,
        params: MTTreeParams,
        *,
        class_starts: NDArray[np.uint32],
        labels: NDArray[np.uint32],
        weights: NDArray[np.float64] | None = None,
        tree: int = 0,
        n_threads: int = 1,
    ) -> None: ...
    # Number of the decision that each row ends in, and the class decided for there.
    def decisions(
        self,
        X: NDArray[np.float32] | SparseRows,
        tasks: NDArray[np.uint32],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.uint32]: ...
    def classes(
        self,
        X: NDArray[np.float32] | SparseRows,
        tasks: NDArray[np.uint32],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.uint32]: ...
    # By name: cpp/core/tree/mt_decision_tree.hpp.
    def arrays(self) -> dict[str, NDArray[Any]]: ...

# As of Forest.arrays(), and the way back.
def mt_tree_arrays(trees: list[MTDecisionTree]) -> dict[str, NDArray[Any]]: ...
def mt_trees_from_arrays(
    arrays: Mapping[str, NDArray[Any]], *, n_features: int
) -> list[MTDecisionTree]: ...

# ---- boosting: cpp/core/boosting -----------------------------------------------------------------

# squared, absolute, huber, logistic, softmax. Margins have shape (n_rows, n_outputs). So have
# labels, but for softmax, whose labels are the class of each row, shape (n_rows,); NaN is unknown.
# Weights are of rows or of labels. What residuals and hessians give is multiplied by them, and 0
# where the label is unknown; they do not check labels.
class OutputLoss(metaclass=_Pybind11Type):
    def __init__(self, name: str, n_outputs: int, *, huber_delta: float = 1.0) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    # Raises ValueError: labels outside the domain, weights that are negative or not finite.
    def check(
        self, labels: NDArray[np.float32], weights: NDArray[np.float32] | None = None
    ) -> None: ...
    # The constant of each output that makes the loss smallest.
    def initial(
        self,
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float32]: ...
    # The negative gradient.
    def residuals(
        self,
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_threads: int = 1,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]: ...
    # The second derivative, or a bound on it: cpp/core/boosting/output_loss.hpp.
    def hessians(
        self,
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_threads: int = 1,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]: ...
    # Step size of each output along `direction`, shape (n_rows,), that minimises its loss.
    def steps(
        self,
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        direction: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]: ...
    # Weighted mean over the known labels.
    def mean_loss(
        self,
        margins: NDArray[np.float32],
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        n_threads: int = 1,
    ) -> float: ...

# A projection computed from the residuals: "variance" or "singular"
# (cpp/core/boosting/residual_projection.hpp).
class ResidualProjection(metaclass=_Pybind11Type):
    def __init__(self, kind: str, *, n_components: int) -> None: ...
    # That of one tree, of shape (n_components, n_outputs); residuals times weights.
    def matrix(
        self, residuals: NDArray[np.float32], *, seed: int, tree: int, n_threads: int = 1
    ) -> NDArray[np.float32]: ...

# The features of one node, in the order in which they are drawn; those of weight 0 never are.
def draw_features(
    weights: NDArray[np.float64], n: int, *, seed: int, tree: int, node: int
) -> NDArray[np.uint32]: ...

# max_leaf_nodes 0: no limit; else the node that gains most is divided next.
# feature_weights: what a node's features are drawn by; None: equal chances.
class ComponentTreeParams(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        max_depth: int = 6,
        max_leaf_nodes: int = 0,
        min_samples_leaf: int = 1,
        max_features: int = 4294967295,
        feature_weights: NDArray[np.float64] | None = None,
        subsample: float = 1.0,
        colsample: float = 1.0,
        seed: int = 0,
    ) -> None: ...

# Constants, and trees that are added to them. relabels: leaves hold all outputs; else one number,
# and output_weights, of shape (n_trees, n_outputs), what it counts for each of them. Learning rates
# are in the leaves, or the weights.
class BoostedModel(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        n_features: int,
        relabels: bool,
        initial: NDArray[np.float32],
        arrays: Mapping[str, NDArray[Any]],
        output_weights: NDArray[np.float32],
    ) -> None: ...
    # Margins of shape (n_rows, n_outputs): the constants and trees first, ..., last - 1; or those
    # trees are added to `margins`, in place.
    def predict(
        self,
        X: NDArray[np.float32] | SparseRows,
        *,
        first: int = 0,
        last: int | None = None,
        margins: NDArray[np.float32] | None = None,
        n_threads: int = 1,
    ) -> NDArray[np.float32]: ...
    # As of Forest.
    def tree_arrays(self, tree: int) -> dict[str, NDArray[Any]]: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    # Of each feature, and 0 for tasks; they sum to 1.
    def importances(self) -> NDArray[np.float64]: ...
    def first_trees(self, n_trees: int) -> BoostedModel: ...
    @property
    def n_features(self) -> int: ...
    @property
    def relabels(self) -> bool: ...
    @property
    def initial(self) -> NDArray[np.float32]: ...
    @property
    def output_weights(self) -> NDArray[np.float32]: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_trees(self) -> int: ...

# One tree a round. Labels and weights are as of OutputLoss, and are not copied. Without a
# projection trees grow on the outputs. model: one to go on with, and its margins of the rows.
class ProjectedBoosting(metaclass=_Pybind11Type):
    def __init__(
        self,
        matrix: BinnedMatrix,
        loss: OutputLoss,
        labels: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
        *,
        relabels: bool = True,
        learning_rate: float = 0.1,
        tree: ComponentTreeParams,
        projection: ForestProjection | ResidualProjection | None = None,
        model: BoostedModel | None = None,
        margins: NDArray[np.float32] | None = None,
        n_threads: int = 1,
    ) -> None: ...
    def update(self, *, n_threads: int = 1) -> None: ...
    def mean_loss(self) -> float: ...
    # What features are drawn by in the rounds to come. Assigned, not written to: it is a copy.
    @property
    def feature_weights(self) -> NDArray[np.float64] | None: ...
    @feature_weights.setter
    def feature_weights(self, weights: NDArray[np.float64] | None) -> None: ...
    # Where they lie; they change with the next round, and cannot be written.
    @property
    def margins(self) -> NDArray[np.float32]: ...
    @property
    def model(self) -> BoostedModel: ...

# ---- trees of finished boosters: cpp/core/tree/margin_trees.hpp ----------------------------------

class XgboostTrees(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        roots: NDArray[np.int32],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        feature: NDArray[np.uint32],
        threshold: NDArray[np.float32],
        default_left: NDArray[np.uint8],
        value: NDArray[np.float32],
        n_features: int,
        n_outputs: int,
        category_nodes: NDArray[np.int64],
        category_starts: NDArray[np.int64],
        categories: NDArray[np.int32],
    ) -> None: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    # False if a value is infinite, which XGBoost refuses; margins are then of no use.
    @staticmethod
    def add_to(
        margins: NDArray[np.float32],
        X: NDArray[np.float32] | NDArray[np.float64],
        *,
        rows: NDArray[np.int64] | None,
        trees: Sequence[XgboostTrees],
        n_trees: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        sum_first: bool,
        n_threads: int,
    ) -> bool: ...

class LightgbmTrees(metaclass=_Pybind11Type):
    def __init__(
        self,
        *,
        roots: NDArray[np.int32],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        feature: NDArray[np.uint32],
        threshold: NDArray[np.float64],
        default_left: NDArray[np.uint8],
        value: NDArray[np.float64],
        n_features: int,
        n_outputs: int,
        category_nodes: NDArray[np.int64],
        category_starts: NDArray[np.int64],
        categories: NDArray[np.int32],
    ) -> None: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    # False if a value is infinite, which XGBoost refuses; margins are then of no use.
    @staticmethod
    def add_to(
        margins: NDArray[np.float64],
        X: NDArray[np.float32] | NDArray[np.float64],
        *,
        rows: NDArray[np.int64] | None,
        trees: Sequence[LightgbmTrees],
        n_trees: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        sum_first: bool,
        n_threads: int,
    ) -> bool: ...

# Universal Binary JSON (cpp/bindings/bind_ubjson.cpp); ValueError or TypeError for other documents.
def encode_ubjson(document: dict[str, Any]) -> bytearray: ...
def decode_ubjson(content: bytes | bytearray | memoryview) -> Any: ...
