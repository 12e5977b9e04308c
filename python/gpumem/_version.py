# SPDX-License-Identifier: Apache-2.0
"""The package's version, which is the project's."""

__version__ = "0.2.0"
