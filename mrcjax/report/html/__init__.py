"""A page about an archive that needs nothing but itself: tables that sort, figures, provenance."""

from mrcjax.report.html.page import page, write_page

__all__ = ["page", "write_page"]
