# SPDX-License-Identifier: Apache-2.0
"""The page that ``report_html`` writes."""
