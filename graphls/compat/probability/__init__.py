"""`mindspore.nn.probability`."""
