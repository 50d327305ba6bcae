"""The docs as a site: what MkDocs does not make of the pages in docs/ by itself (`make docs`)."""
