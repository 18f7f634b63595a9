# SPDX-License-Identifier: Apache-2.0
"""The multi-task model: how it is fitted, used, reported and stored."""
