"""`compare`: the networks side by side, at equal bandwidth and as the article describes them.

Every number comes out of the specs in `rows/`; the article's figures in `article.toml` are only
printed beside them.
"""

from mrcjax.comparison.article import Article, load_article
from mrcjax.comparison.compared import Compared
from mrcjax.comparison.comparison import Comparison, compare
from mrcjax.comparison.own import compare_specs

__all__ = ["Article", "Compared", "Comparison", "compare", "compare_specs", "load_article"]
