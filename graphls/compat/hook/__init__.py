"""The import hook, the names of `mindspore` that it provides, and the running of scripts."""
