# SPDX-License-Identifier: GPL-2.0
"""The modules of scripts/vswap: one for each verb or concern."""
