"""View-models of the overview: a chart, and the rows of its panels. Each row names the page that it opens."""
