"""Sentiment by an LSTM as the model zoo writes it: two directions, a loop of cells on CPU, words of a vocabulary."""

import argparse
import os

import mindspore.common.dtype as mstype
import mindspore.dataset as ds
import mindspore.dataset.text as text
import mindspore.nn as nn
import numpy as np
from mindspore import Parameter, Tensor, context
from mindspore.common import set_seed
from mindspore.mindrecord import FileWriter
from mindspore.nn import Accuracy
from mindspore.nn.learning_rate_schedule import LearningRateSchedule
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.train import Model
from mindspore.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint, TimeMonitor
from mindspore.train.serialization import load_checkpoint, load_param_into_net

GOOD = "good great fine lovely brilliant moving".split()
BAD = "bad dull awful boring weak stale".split()
OTHER = "the a film was and it actor scene very plot we saw story of this music".split()
SEQ = 12


def reviews(count, seed):
    """Texts with more good or more bad words, and which."""
    rng = np.random.RandomState(seed)
    for _ in range(count):
        label = rng.randint(0, 2)
        words = list(rng.choice(OTHER, rng.randint(4, SEQ - 3)))
        for _ in range(3):
            words.insert(rng.randint(0, len(words)), rng.choice(GOOD if label else BAD))
        yield " ".join(words[:SEQ]), label


def convert_to_mindrecord(vocab, path, count, seed):
    """Write the reviews as the records that training reads."""
    schema = {"id": {"type": "int32"}, "label": {"type": "int32"}, "feature": {"type": "int32", "shape": [-1]}}
    if os.path.exists(path):
        os.remove(path)
    writer = FileWriter(path, 1)
    data = []
    for i, (review, label) in enumerate(reviews(count, seed)):
        ids = vocab.tokens_to_ids(review.split())
        data.append({"id": i, "label": int(label), "feature": np.pad(ids, (0, SEQ - len(ids))).astype(np.int32)})
    writer.add_schema(schema, "sentiment")
    writer.write_raw_data(data)
    writer.commit()


def lstm_create_dataset(path, batch_size):
    data_set = ds.MindDataset(path, columns_list=["feature", "label"], num_parallel_workers=1, shuffle=False)
    data_set = data_set.map(lambda label: np.int32(label).reshape(()), input_columns=["label"])
    return data_set.batch(batch_size=batch_size, drop_remainder=True)


class StackLSTM(nn.Cell):
    """Layers of a bidirectional LSTM, one after the other."""

    def __init__(self, input_size, hidden_size, num_layers=1, has_bias=True):
        super(StackLSTM, self).__init__()
        self.num_layers = num_layers
        self.transpose = P.Transpose()
        size = [input_size] + [hidden_size * 2] * (num_layers - 1)
        layers = []
        for i in range(num_layers):
            layers.append(nn.LSTM(size[i], hidden_size, has_bias=has_bias, bidirectional=True))
        self.lstms = nn.CellList(layers)

    def construct(self, x, hx):
        x = self.transpose(x, (1, 0, 2))
        hn = cn = None
        for i, lstm in enumerate(self.lstms):
            x, (hn, cn) = lstm(x, hx[i])
        x = self.transpose(x, (1, 0, 2))
        return x, (hn, cn)


class SentimentNet(nn.Cell):
    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, num_classes, weight, batch_size):
        super(SentimentNet, self).__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size, embedding_table=weight)
        self.embedding.embedding_table.requires_grad = False
        self.trans = P.Transpose()
        self.perm = (0, 1, 2)
        self.h = [(Tensor(np.zeros((2, batch_size, num_hiddens)).astype(np.float32)),
                   Tensor(np.zeros((2, batch_size, num_hiddens)).astype(np.float32))) for _ in range(num_layers)]
        self.encoder = StackLSTM(embed_size, num_hiddens, num_layers=num_layers)
        self.concat = P.Concat(1)
        self.squeeze = P.Squeeze(axis=0)
        self.decoder = nn.Dense(num_hiddens * 4, num_classes)

    def construct(self, inputs):
        embeddings = self.embedding(inputs)
        embeddings = self.trans(embeddings, self.perm)
        output, _ = self.encoder(embeddings, self.h)
        encoding = self.concat((output[:, 0], output[:, -1]))
        return self.decoder(encoding)


class StepDecay(LearningRateSchedule):
    def __init__(self, rate, steps):
        super(StepDecay, self).__init__()
        self.rate, self.steps = rate, steps

    def construct(self, global_step):
        return self.rate * 0.5 ** F.cast(global_step // self.steps, mstype.float32)


def filled(net, seed):
    """The same first weights everywhere."""
    rng = np.random.RandomState(seed)
    for _, param in net.parameters_and_names():
        param.set_data(Tensor(rng.uniform(-0.3, 0.3, param.shape).astype(np.float32)))
    return net


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="MindSpore LSTM Example")
    parser.add_argument("--preprocess_path", type=str, default="./preprocess")
    parser.add_argument("--device_target", type=str, default="GPU", choices=["GPU", "CPU", "Ascend"])
    args = parser.parse_args()
    context.set_context(mode=context.GRAPH_MODE, save_graphs=False, device_target=args.device_target)
    set_seed(1)
    os.makedirs(args.preprocess_path, exist_ok=True)
    vocab = text.Vocab.from_list(GOOD + BAD + OTHER, special_tokens=["<pad>", "<unk>"], special_first=True)
    for name, count, seed in (("train", 320, 0), ("test", 96, 1)):
        convert_to_mindrecord(vocab, os.path.join(args.preprocess_path, "aclImdb_%s.mindrecord" % name), count, seed)
    table = np.random.RandomState(4).uniform(-1, 1, (len(vocab.vocab()), 16)).astype(np.float32)
    np.savetxt(os.path.join(args.preprocess_path, "weight.txt"), table)

    embedding_table = np.loadtxt(os.path.join(args.preprocess_path, "weight.txt")).astype(np.float32)
    network = SentimentNet(embedding_table.shape[0], 16, 12, 2, 2, Tensor(embedding_table), 32)
    filled(network, 3)
    network.embedding.embedding_table.set_data(Tensor(embedding_table))
    ds_train = lstm_create_dataset(os.path.join(args.preprocess_path, "aclImdb_train.mindrecord"), 32)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    params = [p for p in network.get_parameters() if p.requires_grad]
    assert isinstance(params[0], Parameter) and len(params) == len(network.trainable_params())
    opt = nn.Adam(params, learning_rate=StepDecay(0.02, 30))
    model = Model(network, loss, opt, {"acc": Accuracy()})
    steps = ds_train.get_dataset_size()
    ckpoint_cb = ModelCheckpoint(
        prefix="lstm", directory="ckpt", config=CheckpointConfig(save_checkpoint_steps=steps, keep_checkpoint_max=2)
    )
    model.train(2, ds_train, callbacks=[TimeMonitor(data_size=steps), ckpoint_cb, LossMonitor(steps)],
                dataset_sink_mode=False)

    again = SentimentNet(embedding_table.shape[0], 16, 12, 2, 2, Tensor(embedding_table), 32)
    load_param_into_net(again, load_checkpoint(os.path.join("ckpt", "lstm-2_%d.ckpt" % steps)))
    ds_eval = lstm_create_dataset(os.path.join(args.preprocess_path, "aclImdb_test.mindrecord"), 32)
    model = Model(again, loss, metrics={"acc": Accuracy(), "loss": nn.Loss()})
    result = model.eval(ds_eval, dataset_sink_mode=False)
    print("final loss: %.6f accuracy: %.4f" % (result["loss"], result["acc"]))
