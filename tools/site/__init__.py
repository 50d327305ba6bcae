"""The docs as a site: extensions of MkDocs for the pages in docs/ (`make docs`)."""
