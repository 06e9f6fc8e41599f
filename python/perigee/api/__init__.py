# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What `import perigee` offers: studies, results and link profiles, for notebooks and for tests of one's own."""
