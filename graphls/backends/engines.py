"""The engines that there are: importing this module makes each known by its name."""

from graphls.backends.host.engine import Host
from graphls.backends.numpy.engine import Numpy
from graphls.backends.onnxruntime.engine import OnnxRuntime
from graphls.backends.openvino.engine import Openvino
from graphls.backends.ranks.engine import Ranks
from graphls.ir.engines import register_engine

for engine in (OnnxRuntime(), Openvino(), Numpy(), Host(), Ranks()):
    register_engine(engine)
