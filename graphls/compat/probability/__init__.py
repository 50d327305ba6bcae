"""`mindspore.nn.probability`: distributions, bijectors and Bayesian layers."""
