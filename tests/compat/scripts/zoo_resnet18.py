"""ResNet-18 as MindSpore 2.x trains it: CIFAR-10 files, dataset.vision, value_and_grad in a jit, a loop by hand."""

import argparse
import math
import os
from typing import Optional, Type, Union

import mindspore as ms
import mindspore.dataset as ds
import mindspore.dataset.transforms as transforms
import mindspore.dataset.vision as vision
import mindspore.nn as nn
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.common.initializer import HeNormal, Normal, initializer
from mindspore.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint

weight_init = Normal(mean=0, sigma=0.02)
gamma_init = Normal(mean=1, sigma=0.02)


class ResidualBlockBase(nn.Cell):
    expansion: int = 1

    def __init__(self, in_channel: int, out_channel: int, stride: int = 1,
                 norm: Optional[nn.Cell] = None, down_sample: Optional[nn.Cell] = None) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(out_channel) if not norm else norm
        self.conv1 = nn.Conv2d(in_channel, out_channel, kernel_size=3, stride=stride, weight_init=weight_init)
        self.conv2 = nn.Conv2d(out_channel, out_channel, kernel_size=3, weight_init=weight_init)
        self.norm2 = nn.BatchNorm2d(out_channel, gamma_init=gamma_init)
        self.relu = nn.ReLU()
        self.down_sample = down_sample

    def construct(self, x):
        identity = x
        out = self.relu(self.norm(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        if self.down_sample is not None:
            identity = self.down_sample(x)
        out += identity
        return self.relu(out)


def make_layer(last_out_channel, block: Type[Union[ResidualBlockBase]], channel: int, block_nums: int, stride: int = 1):
    down_sample = None
    if stride != 1 or last_out_channel != channel * block.expansion:
        down_sample = nn.SequentialCell([
            nn.Conv2d(last_out_channel, channel * block.expansion, kernel_size=1, stride=stride,
                      weight_init=weight_init),
            nn.BatchNorm2d(channel * block.expansion, gamma_init=gamma_init),
        ])
    layers = [block(last_out_channel, channel, stride=stride, down_sample=down_sample)]
    in_channel = channel * block.expansion
    for _ in range(1, block_nums):
        layers.append(block(in_channel, channel))
    return nn.SequentialCell(layers)


class ResNet(nn.Cell):
    def __init__(self, block, layer_nums, num_classes: int, width: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, weight_init=weight_init)
        self.norm = nn.BatchNorm2d(width)
        self.max_pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="same")
        self.layer1 = make_layer(width, block, width, layer_nums[0])
        self.layer2 = make_layer(width * block.expansion, block, 2 * width, layer_nums[1], stride=2)
        self.layer3 = make_layer(2 * width * block.expansion, block, 4 * width, layer_nums[2], stride=2)
        self.layer4 = make_layer(4 * width * block.expansion, block, 8 * width, layer_nums[3], stride=2)
        self.avg_pool = nn.AvgPool2d()
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(in_channels=8 * width * block.expansion, out_channels=num_classes)
        self.init_weights()

    def init_weights(self):
        for _, cell in self.cells_and_names():
            if isinstance(cell, nn.Conv2d):
                he_normal = HeNormal(negative_slope=0, mode="fan_out", nonlinearity="relu")
                cell.weight.set_data(initializer(he_normal, cell.weight.shape, cell.weight.dtype))
            elif isinstance(cell, nn.BatchNorm2d):
                cell.gamma.set_data(initializer("ones", cell.gamma.shape, cell.gamma.dtype))
                cell.beta.set_data(initializer("zeros", cell.beta.shape, cell.beta.dtype))
            elif isinstance(cell, nn.Dense):
                cell.bias.set_data(initializer("zeros", cell.bias.shape, cell.bias.dtype))

    def construct(self, x):
        x = self.max_pool(self.relu(self.norm(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = mint.mean(x, dim=(2, 3))
        return self.fc(self.flatten(x))


def resnet18(num_classes: int = 10, width: int = 8):
    return ResNet(ResidualBlockBase, [2, 2, 2, 2], num_classes, width)


def write_cifar10(folder, count):
    """One file of CIFAR-10's format: a label and 3,072 bytes for each image; colours say the class, with noise."""
    rng = np.random.RandomState(5)
    os.makedirs(folder, exist_ok=True)
    labels = rng.randint(0, 10, count)
    colours = rng.randint(40, 215, (10, 3, 1, 1))
    images = np.clip(colours[labels] + rng.randint(-40, 41, (count, 3, 32, 32)), 0, 255)
    rows = np.concatenate([labels[:, None], images.reshape(count, -1)], 1).astype(np.uint8)
    for number in range(1, 6):
        rows[(number - 1) * count // 5: number * count // 5].tofile(os.path.join(folder, f"data_batch_{number}.bin"))
    rows[:count // 5].tofile(os.path.join(folder, "test_batch.bin"))


def create_dataset_cifar10(dataset_dir, usage, resize, batch_size, workers, augment):
    data_set = ds.Cifar10Dataset(dataset_dir=dataset_dir, usage=usage, num_parallel_workers=workers, shuffle=False)
    trans = []
    if augment:
        trans += [vision.RandomCrop((32, 32), (4, 4, 4, 4)), vision.RandomHorizontalFlip(prob=0.5)]
    trans += [
        vision.Resize(resize),
        vision.Rescale(1.0 / 255.0, 0.0),
        vision.Normalize([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
        vision.HWC2CHW(),
    ]
    target_trans = transforms.TypeCast(ms.int32)
    data_set = data_set.map(operations=trans, input_columns="image", num_parallel_workers=workers)
    data_set = data_set.map(operations=target_trans, input_columns="label", num_parallel_workers=workers)
    return data_set.batch(batch_size)


def filled(net, seed):
    """The same first weights everywhere."""
    rng = np.random.RandomState(seed)
    for param in net.trainable_params():
        if param.ndim > 1:
            bound = math.sqrt(6.0 / np.prod(param.shape[1:]))
            param.set_data(Tensor(rng.uniform(-bound, bound, param.shape).astype(np.float32)))
    return net


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--mode", type=int, default=ms.PYNATIVE_MODE, help="GRAPH_MODE is 0, PYNATIVE_MODE 1")
    args = parser.parse_args()
    ms.set_seed(1)
    ms.set_context(mode=args.mode)
    write_cifar10("cifar-10-batches-bin", 100)
    dataset_train = create_dataset_cifar10("cifar-10-batches-bin", "train", 32, 20, 1, args.augment)
    dataset_val = create_dataset_cifar10("cifar-10-batches-bin", "test", 32, 20, 1, False)
    step_size_train = dataset_train.get_dataset_size()
    network = filled(resnet18(), 2)

    lr = nn.cosine_decay_lr(min_lr=0.001, max_lr=0.02, total_step=step_size_train * args.epochs,
                            step_per_epoch=step_size_train, decay_epoch=args.epochs)
    opt = nn.Momentum(params=network.trainable_params(), learning_rate=lr, momentum=0.9)
    loss_fn = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def forward_fn(inputs, targets):
        logits = network(inputs)
        loss = loss_fn(logits, targets)
        return loss, logits

    grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters, has_aux=True)

    @ms.jit
    def train_step(inputs, targets):
        (loss, logits), grads = grad_fn(inputs, targets)
        grads = ops.clip_by_global_norm(grads, 5.0)
        opt(grads)
        correct = (mint.argmax(logits, dim=1) == targets).astype(ms.float32).sum()
        return loss, correct

    def train(data_loader, epoch):
        losses = []
        network.set_train(True)
        for i, (images, labels) in enumerate(data_loader):
            loss, _ = train_step(images, labels)
            if i % 5 == 0 or i == step_size_train - 1:
                print("Epoch: [%3d/%3d], Steps: [%3d/%3d], Train Loss: [%5.3f]" %
                      (epoch + 1, args.epochs, i + 1, step_size_train, loss))
            losses.append(loss)
        return sum(losses) / len(losses)

    def evaluate(data_loader):
        network.set_train(False)
        correct_num, total_num = 0.0, 0.0
        for images, labels in data_loader:
            logits = network(images)
            pred = logits.argmax(axis=1)
            correct_num += ops.equal(pred, labels).sum().asnumpy()
            total_num += len(labels)
        return correct_num / total_num

    data_loader_train = dataset_train.create_tuple_iterator(num_epochs=args.epochs)
    data_loader_val = dataset_val.create_tuple_iterator(num_epochs=args.epochs + 1)
    best_acc = -1
    for epoch in range(args.epochs):
        curr_loss = train(data_loader_train, epoch)
        curr_acc = evaluate(data_loader_val)
        print("Epoch: [%3d/%3d], Average Train Loss: [%5.3f], Accuracy: [%5.3f]" %
              (epoch + 1, args.epochs, curr_loss.asnumpy(), curr_acc))
        if curr_acc >= best_acc:
            best_acc = curr_acc
            save_checkpoint(network, "resnet18_best.ckpt")
    print("final loss: %.6f" % curr_loss)
    again = resnet18()
    load_param_into_net(again, load_checkpoint("resnet18_best.ckpt"))
    again.set_train(False)
    images, _ = next(data_loader_val)
    same = again(images).asnumpy()
    print("logits: %.5f best accuracy: %.3f" % (float(np.abs(same).mean()), best_acc))


if __name__ == "__main__":
    main()
