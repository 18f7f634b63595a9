# SPDX-License-Identifier: Apache-2.0
"""Scikit-learn estimators."""
