# SPDX-License-Identifier: Apache-2.0
"""Plots of models; :mod:`mtboost.plotting` has the public names."""
