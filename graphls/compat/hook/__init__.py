"""The import hook, what `mindspore` offers through it, and the running of scripts."""
