# SPDX-License-Identifier: Apache-2.0
"""Trees of several tasks: losses, split scores, leaf values, quitting."""
