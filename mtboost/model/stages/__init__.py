# SPDX-License-Identifier: Apache-2.0
"""The two stages of zhang2019."""
