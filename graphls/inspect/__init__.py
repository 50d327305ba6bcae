"""What people see of a graph and a step: pages, tables, profiles, diagnoses, tests of passes."""
