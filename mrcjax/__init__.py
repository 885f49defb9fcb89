"""mrcjax: how long a collective takes on a GPU network, what binds it, how to make it faster."""

__version__ = "0.1.0"
