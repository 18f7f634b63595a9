# SPDX-License-Identifier: Apache-2.0
"""Reports of a fitted model: tables, text, HTML."""
