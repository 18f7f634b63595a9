# SPDX-License-Identifier: Apache-2.0
"""What trees of several tasks are grown from: losses, split scores, leaf values, quitting."""
