"""The public path of models for inference without a file: `graphls.train.inference.inference_model`."""

from graphls.step.export.inference import InferenceModel, inference_model

__all__ = ["InferenceModel", "inference_model"]
