# SPDX-License-Identifier: Apache-2.0
"""Changes of a fitted model: tasks that join or leave, new leaf values, further rounds."""
