# SPDX-License-Identifier: GPL-2.0
"""What stands behind scripts/vswap: one module per verb or concern."""
