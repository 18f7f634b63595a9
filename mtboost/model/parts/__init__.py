# SPDX-License-Identifier: Apache-2.0
"""The parts of a fitted model, and the file that stores them."""
