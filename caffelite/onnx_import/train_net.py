"""The net to train of a deploy net: data layers in place of its input, and the loss of a classifier."""

from .. import caffelite_pb2 as pb

BATCH = 32
# Of layers whose weights are not loaded, such as a last layer for other classes.
FILLERS = {"Convolution": "msra", "Deconvolution": "msra", "InnerProduct": "xavier", "Lstm": "xavier", "LSTM": "xavier"}
FIELDS = {"InnerProduct": "inner_product_param", "Lstm": "lstm_param", "LSTM": "recurrent_param"}


def train_net(deploy: pb.NetParameter, output: str, shape: tuple[int, ...]) -> pb.NetParameter | None:
    """The net with a loss and an accuracy behind its scores; None where it is no classifier of one input. output: the
    blob of the scores; shape: of that blob. A Softmax that makes it goes: the loss has its own."""
    inputs = [layer for layer in deploy.layer if layer.type == "Input"]
    if len(inputs) != 1 or len(shape) != 2 or shape[1] < 2:
        return None
    made = pb.NetParameter(name=deploy.name)
    top = inputs[0].top[0]
    for phase, source in ((pb.TRAIN, "train.txt"), (pb.TEST, "val.txt")):
        made.layer.append(_data(top, tuple(inputs[0].input_param.shape[0].dim), phase, source))
    scores = output
    for layer in deploy.layer:
        if layer.type == "Input":
            continue
        if layer.type == "Softmax" and list(layer.top) == [output]:
            scores = layer.bottom[0]
            continue
        made.layer.append(layer)
        if layer.type in FILLERS:
            field = FIELDS.get(layer.type, "convolution_param")
            getattr(made.layer[-1], field).weight_filler.type = FILLERS[layer.type]
    taken = {layer.name for layer in made.layer}
    loss, accuracy = ("loss" if "loss" not in taken else "train/loss"), "accuracy"
    made.layer.add(name=loss, type="SoftmaxWithLoss", bottom=[scores, "label"], top=["loss"])
    made.layer.add(
        name=accuracy if accuracy not in taken else "test/accuracy",
        type="Accuracy",
        bottom=[scores, "label"],
        top=["accuracy"],
        include=[pb.NetStateRule(phase=pb.TEST)],
    )
    return made


def _data(top: str, shape: tuple[int, ...], phase: pb.Phase, source: str) -> pb.LayerParameter:
    """A layer that reads listed images, or rows of HDF5 files where the input is no image."""
    layer = pb.LayerParameter(name=top, top=[top, "label"], include=[pb.NetStateRule(phase=phase)])
    shuffle = phase == pb.TRAIN
    if len(shape) == 4 and shape[1] in (1, 3):
        layer.type = "ImageData"
        p = layer.image_data_param
        p.source, p.batch_size, p.new_height, p.new_width, p.shuffle = source, BATCH, shape[2], shape[3], shuffle
        p.is_color = shape[1] == 3
    else:
        layer.type = "HDF5Data"
        layer.hdf5_data_param.source, layer.hdf5_data_param.batch_size = source, BATCH
        layer.hdf5_data_param.shuffle = shuffle
    return layer
