# SPDX-License-Identifier: Apache-2.0
"""Search for how much each task shares: ``strategy="auto"``."""
