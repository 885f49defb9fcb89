"""Turn outcomes and archives into text for the terminal and figures for the page."""
