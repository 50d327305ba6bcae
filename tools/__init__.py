"""Programs that write files of this repository; no part of the package."""
