"""A GAN as scripts of MindSpore write it: a cell with loss and a one-step cell for each network, two optimizers."""

import argparse

import mindspore.nn as nn
import mindspore.ops as ops
import numpy as np
from mindspore import ParameterTuple, Tensor, context
from mindspore import dtype as mstype
from mindspore.common import set_seed
from mindspore.common.initializer import Normal
from mindspore.context import ParallelMode
from mindspore.dataset import GeneratorDataset
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.ops import composite as C
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode

LATENT = 8


class Generator(nn.Cell):
    def __init__(self, latent_size, size):
        super(Generator, self).__init__(auto_prefix=True)
        self.fc1 = nn.Dense(latent_size, 16 * 4 * 4, weight_init=Normal(0.02), has_bias=False)
        self.bn1 = nn.BatchNorm2d(16, gamma_init=Normal(0.02, 1.0))
        self.deconv = nn.Conv2dTranspose(16, 1, 4, stride=2, pad_mode="pad", padding=1, weight_init=Normal(0.02))
        self.relu = P.ReLU()
        self.tanh = ops.Tanh()

    def construct(self, z):
        x = self.fc1(z).view(z.shape[0], 16, 4, 4)
        x = self.relu(self.bn1(x))
        return self.tanh(self.deconv(x))


class Discriminator(nn.Cell):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.conv = nn.Conv2d(1, 16, 4, stride=2, pad_mode="pad", padding=1, has_bias=True)
        self.leaky = nn.LeakyReLU(alpha=0.2)
        self.fc = nn.Dense(16 * 4 * 4, 1, activation="sigmoid")
        self.flatten = nn.Flatten()

    def construct(self, x):
        return self.fc(self.flatten(self.leaky(self.conv(x))))


class GenWithLossCell(nn.Cell):
    def __init__(self, netG, netD, loss_fn):
        super(GenWithLossCell, self).__init__(auto_prefix=False)
        self.netG, self.netD, self.loss_fn = netG, netD, loss_fn

    def construct(self, latent_code):
        fake_data = self.netG(latent_code)
        fake_out = self.netD(fake_data)
        return self.loss_fn(fake_out, ops.ones_like(fake_out))


class DisWithLossCell(nn.Cell):
    def __init__(self, netG, netD, loss_fn):
        super(DisWithLossCell, self).__init__(auto_prefix=False)
        self.netG = netG
        self.netD = netD
        self.loss_fn = loss_fn

    def construct(self, real_data, latent_code):
        real_out = self.netD(real_data)
        real_loss = self.loss_fn(real_out, F.ones_like(real_out))
        fake_data = self.netG(latent_code)
        fake_data = F.stop_gradient(fake_data)
        fake_out = self.netD(fake_data)
        fake_loss = self.loss_fn(fake_out, F.zeros_like(fake_out))
        return real_loss + fake_loss


class TrainOneStepCellGen(nn.Cell):
    def __init__(self, network, optimizer, sens=1.0):
        super(TrainOneStepCellGen, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = ParameterTuple(network.netG.trainable_params())
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens
        self.reducer_flag = False
        self.grad_reducer = None
        parallel_mode = _get_parallel_mode()
        if parallel_mode in [ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL]:
            self.reducer_flag = True
            mean, degree = _get_gradients_mean(), _get_device_num()
            self.grad_reducer = DistributedGradReducer(self.weights, mean, degree)

    def construct(self, latent_code):
        weights = self.weights
        loss = self.network(latent_code)
        sens = P.Fill()(P.DType()(loss), P.Shape()(loss), self.sens)
        grads = self.grad(self.network, weights)(latent_code, sens)
        if self.reducer_flag:
            grads = self.grad_reducer(grads)
        return F.depend(loss, self.optimizer(grads))


class TrainOneStepCellDis(nn.Cell):
    def __init__(self, network, optimizer, sens=1.0):
        super(TrainOneStepCellDis, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens

    def construct(self, real_data, latent_code):
        loss = self.network(real_data, latent_code)
        sens = P.Fill()(P.DType()(loss), P.Shape()(loss), self.sens)
        grads = self.grad(self.network, self.weights)(real_data, latent_code, sens)
        self.optimizer(grads)
        return loss


class GAN(nn.Cell):
    def __init__(self, step_d, step_g):
        super(GAN, self).__init__(auto_prefix=False)
        self.step_d = step_d
        self.step_g = step_g

    def construct(self, real_data, latent_code):
        output_d = self.step_d(real_data, latent_code).view(-1)
        output_g = self.step_g(latent_code).view(-1)
        return output_d.mean(), output_g.mean()


class Rings:
    """Images of 8 x 8 with a bright ring at another radius each, from -1 to 1."""

    def __init__(self, count):
        rng = np.random.RandomState(0)
        y, x = np.mgrid[-3.5:4, -3.5:4]
        radii = rng.uniform(1.5, 3, (count, 1, 1))
        self.images = (2 * np.exp(-(np.hypot(y, x) - radii) ** 2) - 1).astype(np.float32)[:, None]
        self.codes = rng.normal(size=(count, LATENT)).astype(np.float32)

    def __getitem__(self, index):
        return self.images[index], self.codes[index]

    def __len__(self):
        return len(self.images)


def filled(net, seed):
    """The same first weights everywhere."""
    rng = np.random.RandomState(seed)
    for param in net.get_parameters():
        if len(param.shape) > 1:
            param.set_data(Tensor(rng.normal(0, 0.1, param.shape), mstype.float32))
        elif "bias" in param.name:
            param.set_data(Tensor(np.zeros(param.shape), mstype.float32))
        elif "gamma" in param.name:
            param.set_data(Tensor(np.ones(param.shape), mstype.float32))
    return net


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device_target", default="Ascend")
    args = parser.parse_args()
    set_seed(1)
    context.set_context(mode=context.GRAPH_MODE, device_target=args.device_target, device_id=0)
    context.set_auto_parallel_context(parallel_mode=ParallelMode.STAND_ALONE, gradients_mean=True)
    dataset = GeneratorDataset(Rings(160), ["image", "latent_code"], shuffle=False).batch(16, drop_remainder=True)
    net_g, net_d = filled(Generator(LATENT, 8), 1), filled(Discriminator(), 2)
    for param in net_g.get_parameters():
        param.name = "generator." + param.name
    loss = nn.BCELoss(reduction="mean")
    optimizer_d = nn.Adam(net_d.trainable_params(), learning_rate=0.002, beta1=0.5, beta2=0.999)
    optimizer_g = nn.Adam(net_g.trainable_params(), learning_rate=0.002, beta1=0.5, beta2=0.999)
    train_d = TrainOneStepCellDis(DisWithLossCell(net_g, net_d, loss), optimizer_d)
    train_g = TrainOneStepCellGen(GenWithLossCell(net_g, net_d, loss), optimizer_g)
    gan = GAN(train_d, train_g)
    gan.set_train()
    for epoch in range(2):
        for i, data in enumerate(dataset.create_dict_iterator()):
            d_loss, g_loss = gan(data["image"], data["latent_code"])
        print("epoch: %d Loss_D: %.6f Loss_G: %.6f" % (epoch, float(d_loss.asnumpy()), float(g_loss.asnumpy())))
    net_g.set_train(False)
    drawn = net_g(Tensor(Rings(16).codes))
    print("final loss: %.6f drawn: %.6f" % (d_loss.asnumpy(), drawn.asnumpy().mean()))
