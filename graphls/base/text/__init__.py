"""Text for people: terminal-safe names, tables, charts and self-contained HTML."""
