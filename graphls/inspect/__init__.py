"""Inspection of graphs and steps: pages, summaries, profiles, diagnoses, differences, and tests of passes."""
