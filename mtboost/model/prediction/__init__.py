# SPDX-License-Identifier: Apache-2.0
"""What a fitted model predicts of new rows, and how well."""
