"""The layers of the nets in models/: for each net a function that adds them to a Model, as in its paper and with the
layer names of its published weights."""

from functools import partial
from string import ascii_lowercase

from net_builder import Model

TEST = [{"phase": "TEST"}]
RATES = [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}]  # of weights and bias, since AlexNet
IMAGENET_MEAN = [104, 117, 123]  # blue, green, red
XAVIER, MSRA = {"type": "xavier"}, {"type": "msra"}


def gaussian(std: float) -> dict:
    return {"type": "gaussian", "std": std}


def constant(value: float) -> dict:
    return {"type": "constant", "value": value}


def imagenet(m: Model, crop: int, batches: tuple[int, int]) -> str:
    return m.data(
        "ilsvrc12", (3, crop, crop), batches, "val", {"crop_size": crop, "mean_value": IMAGENET_MEAN}, mirror=True
    )


def cifar10(m: Model) -> str:
    return m.data("cifar10", (3, 32, 32), (100, 100), transform={"mean_file": "mean.binaryproto"})


def cifar10_augmented(m: Model) -> str:
    transform = {"mean_file": "mean.binaryproto", "scale": 1 / 64}
    moved = {"shift_x": 3, "shift_y": 3, "rotation_prob": 0.5, "max_rotate_degree": 10}
    moved |= {"scale_prob": 0.5, "scale_min": 0.9, "scale_max": 1.1}
    light = {"brightness_prob": 0.5, "brightness_delta": 20}
    light |= {
        f"{kind}_{name}": v
        for kind in ("contrast", "saturation")
        for name, v in (("prob", 0.5), ("lower", 0.8), ("upper", 1.2))
    }
    perturbations = {"mirror": True, "perturb_param": moved, "distort_param": light}
    return m.data("cifar10", (3, 32, 32), (50, 100), transform=transform, shuffle=True, **perturbations)


def cifar10_quick(m: Model) -> None:
    x = cifar10(m)
    m.section("Three blocks of convolution and pooling: 32 x 16 x 16, 32 x 8 x 8, 64 x 4 x 4.")
    for i, (width, std, method) in enumerate(((32, 1e-4, "MAX"), (32, 0.01, "AVE"), (64, 0.01, "AVE")), 1):
        x = m.conv(f"conv{i}", x, width, 5, pad=2, param=[{"lr_mult": 1}, {"lr_mult": 2}], weight_filler=gaussian(std))
        if method == "AVE":
            x = m.relu(f"relu{i}", x)
        x = m.pool(f"pool{i}", x, method, 3, 2)
        if method == "MAX":
            x = m.relu(f"relu{i}", x)
    m.section("Classifier.")
    for i, width in enumerate((64, 10), 1):
        x = m.fc(f"ip{i}", x, width, param=[{"lr_mult": 1}, {"lr_mult": 2}], weight_filler=gaussian(0.1))
    m.classify(x)


def cifar10_leaky(m: Model, perturbed: bool = False) -> None:
    """cifar10_quick's sizes with leaky ReLUs, dropout and initial weights for inputs scaled to about 1."""
    transform = {"mean_file": "mean.binaryproto", "scale": 1 / 64}
    more = {"mirror": True, "perturb_param": {"shift_x": 4, "shift_y": 4}} if perturbed else {}
    x = m.data("cifar10", (3, 32, 32), (100, 100), transform=transform, shuffle=True, **more)
    m.section("Three blocks of convolution and pooling: 32 x 16 x 16, 32 x 8 x 8, 64 x 4 x 4.")
    rates, leaky = [{"lr_mult": 1}, {"lr_mult": 2}], {"relu_param": {"negative_slope": 0.1}}
    for i, (width, method) in enumerate(((32, "MAX"), (32, "AVE"), (64, "AVE")), 1):
        x = m.conv(f"conv{i}", x, width, 5, pad=2, param=rates, weight_filler=MSRA)
        x = m.pool(f"pool{i}", m.on("ReLU", f"relu{i}", x, **leaky), method, 3, 2)
    m.section("Classifier.")
    x = m.fc("ip1", m.drop("drop3", x, 0.25), 64, param=rates, weight_filler=MSRA)
    x = m.drop("drop4", m.on("ReLU", "relu4", x, **leaky), 0.25)
    m.classify(m.fc("ip2", x, 10, param=rates, weight_filler=gaussian(0.1)))


def cifar10_full(m: Model, augmented: bool = False) -> None:
    """augmented: the same layers with other initialization and decay, on augmented images."""
    x = cifar10_augmented(m) if augmented else cifar10(m)
    first, other = (MSRA, MSRA) if augmented else (gaussian(1e-4), gaussian(0.01))
    m.section("Three blocks of convolution and pooling, two with normalization: 32 x 16 x 16, 32 x 8 x 8, 64 x 4 x 4.")
    rates = [{"lr_mult": 1}, {"lr_mult": 2}]
    local = {"local_size": 3, "alpha": 5e-5, "beta": 0.75, "norm_region": "WITHIN_CHANNEL"}
    x = m.conv("conv1", x, 32, 5, pad=2, param=rates, weight_filler=first)
    x = m.relu("relu1", m.pool("pool1", x, "MAX", 3, 2))
    x = m.add("LRN", "norm1", x, lrn_param=local)
    x = m.relu("relu2", m.conv("conv2", x, 32, 5, pad=2, param=rates, weight_filler=other))
    x = m.add("LRN", "norm2", m.pool("pool2", x, "AVE", 3, 2), lrn_param=local)
    x = m.relu("relu3", m.conv("conv3", x, 64, 5, pad=2, param=rates[:1] * 2, weight_filler=other))
    x = m.pool("pool3", x, "AVE", 3, 2)
    m.section("Classifier." if augmented else "Classifier, with 250 times the weight decay of the convolutions.")
    decays = {"lr_mult": 1} if augmented else {"lr_mult": 1, "decay_mult": 250}
    m.classify(m.fc("ip1", x, 10, param=[decays, {"lr_mult": 2, "decay_mult": 0}], weight_filler=gaussian(0.01)))


def alexnet(m: Model, pool_first: bool, bias: float) -> None:
    """AlexNet normalizes before pooling, CaffeNet after it. ``bias``: initial bias of the layers whose bias is 1 in the
    paper."""
    x = imagenet(m, 227, (256, 50))
    m.section("Five convolutions; two groups correspond to the two GPUs of the paper.")
    table = (96, 11, 4, 0, 1), (256, 5, 1, 2, 2), (384, 3, 1, 1, 1), (384, 3, 1, 1, 2), (256, 3, 1, 1, 2)
    for i, (width, kernel, stride, pad, group) in enumerate(table, 1):
        fields = {"group": group} if group > 1 else {}
        start = constant(bias if group > 1 else 0)
        x = m.conv(
            f"conv{i}", x, width, kernel, stride, pad, RATES, weight_filler=gaussian(0.01), bias_filler=start, **fields
        )
        x = m.relu(f"relu{i}", x)
        pool = partial(m.pool, f"pool{i}", method="MAX", kernel=3, stride=2)
        norm = partial(m.add, "LRN", f"norm{i}", lrn_param={"local_size": 5, "alpha": 1e-4, "beta": 0.75})
        if i <= 2:
            x = norm(pool(bottom=x)) if pool_first else pool(bottom=norm(x))
        elif i == 5:
            x = pool(bottom=x)
    dense_head(m, x, bias)


def dense_head(m: Model, x: str, bias: float) -> None:
    """The three inner products of AlexNet, CaffeNet and VGG."""
    m.section("Classifier.")
    for i in (6, 7):
        x = m.fc(f"fc{i}", x, 4096, RATES, weight_filler=gaussian(0.005), bias_filler=constant(bias))
        x = m.drop(f"drop{i}", m.relu(f"relu{i}", x))
    m.classify(m.fc("fc8", x, 1000, RATES, weight_filler=gaussian(0.01)), top_5=True)


def vgg_stages(m: Model, x: str, first_pad: int = 1) -> dict[int, str]:
    """Adds the thirteen convolutions of VGG-16; returns the top of each pooling."""
    tops = {}
    for i, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for j in range(1, depth + 1):
            pad = first_pad if (i, j) == (1, 1) else 1
            x = m.relu(f"relu{i}_{j}", m.conv(f"conv{i}_{j}", x, width, 3, pad=pad, param=RATES, weight_filler=MSRA))
        x = tops[i] = m.pool(f"pool{i}", x, "MAX", 2, 2)
    return tops


def vgg16(m: Model) -> None:
    x = imagenet(m, 224, (32, 25))
    m.section("Thirteen convolutions of 3 x 3 in five stages; each stage halves height and width.")
    dense_head(m, vgg_stages(m, x)[5], 0)


def googlenet(m: Model) -> None:
    conv = partial(m.conv, param=RATES, weight_filler=XAVIER, bias_filler=constant(0.2))
    local = {"local_size": 5, "alpha": 1e-4, "beta": 0.75}

    def unit(block: str, part: str, bottom: str, width: int, kernel: int, **shape) -> str:
        return m.relu(f"{block}/relu_{part}", conv(f"{block}/{part}", bottom, width, kernel, **shape))

    def inception(stage: str, x: str, one: int, three_in: int, three: int, five_in: int, five: int, proj: int) -> str:
        block = f"inception_{stage}"
        tops = [
            unit(block, "1x1", x, one, 1),
            unit(block, "3x3", unit(block, "3x3_reduce", x, three_in, 1), three, 3, pad=1),
            unit(block, "5x5", unit(block, "5x5_reduce", x, five_in, 1), five, 5, pad=2),
            unit(block, "pool_proj", m.pool(f"{block}/pool", x, "MAX", 3, 1, 1), proj, 1),
        ]
        return m.add("Concat", f"{block}/output", *tops)

    def helper(loss: str, x: str) -> None:
        """An auxiliary classifier, which shortens the path of gradients to the lower layers; in training only."""
        if m.deploy:
            return
        first = len(m.net.layer)
        m.section("Auxiliary classifier, for training only.")
        x = unit(loss, "conv", m.pool(f"{loss}/ave_pool", x, "AVE", 5, 3), 128, 1)
        x = m.fc(f"{loss}/fc", x, 1024, RATES, weight_filler=XAVIER, bias_filler=constant(0.2))
        x = m.drop(f"{loss}/drop_fc", m.relu(f"{loss}/relu_fc", x), 0.7)
        x = m.fc(f"{loss}/classifier", x, 1000, RATES, weight_filler=XAVIER)
        m.add("SoftmaxWithLoss", f"{loss}/loss", x, "label", loss_weight=[0.3])
        for layer in m.net.layer[first:]:
            layer.include.add(phase="TRAIN")

    x = imagenet(m, 224, (32, 50))
    m.section("Stem: 192 x 28 x 28.")
    x = m.relu("conv1/relu_7x7", conv("conv1/7x7_s2", x, 64, 7, stride=2, pad=3))
    x = m.add("LRN", "pool1/norm1", m.pool("pool1/3x3_s2", x, "MAX", 3, 2), lrn_param=local)
    x = unit("conv2", "3x3", unit("conv2", "3x3_reduce", x, 64, 1), 192, 3, pad=1)
    x = m.pool("pool2/3x3_s2", m.add("LRN", "conv2/norm2", x, lrn_param=local), "MAX", 3, 2)
    m.section("Inception: 28 x 28.")
    x = inception("3a", x, 64, 96, 128, 16, 32, 32)
    x = inception("3b", x, 128, 128, 192, 32, 96, 64)
    x = m.pool("pool3/3x3_s2", x, "MAX", 3, 2)
    m.section("Inception: 14 x 14.")
    x = inception("4a", x, 192, 96, 208, 16, 48, 64)
    helper("loss1", x)
    x = inception("4b", x, 160, 112, 224, 24, 64, 64)
    x = inception("4c", x, 128, 128, 256, 24, 64, 64)
    x = inception("4d", x, 112, 144, 288, 32, 64, 64)
    helper("loss2", x)
    x = inception("4e", x, 256, 160, 320, 32, 128, 128)
    x = m.pool("pool4/3x3_s2", x, "MAX", 3, 2)
    m.section("Inception: 7 x 7.")
    x = inception("5a", x, 256, 160, 320, 32, 128, 128)
    x = inception("5b", x, 384, 192, 384, 48, 128, 128)
    x = m.drop("pool5/drop_7x7_s1", m.pool("pool5/7x7_s1", x, "AVE"), 0.4)
    m.classify(m.fc("loss3/classifier", x, 1000, RATES, weight_filler=XAVIER), "loss3/loss3", top_5=True)


def normalized(m: Model, blob: str, norm: str, scale: str) -> str:
    """Batch normalization, in place."""
    m.on("BatchNorm", norm, blob, batch_norm_param={"moving_average_fraction": 0.9})
    return m.on("Scale", scale, blob, scale_param={"bias_term": True})


def resnet(m: Model, depths: tuple[int, ...], bottleneck: bool, batch: int) -> None:
    def conv(name: str, bottom: str, width: int, kernel: int, stride: int = 1) -> str:
        x = m.conv(name, bottom, width, kernel, stride, kernel // 2, bias_term=False, weight_filler=MSRA)
        tail = name.removeprefix("res") if name.startswith("res") else f"_{name}"
        return normalized(m, x, f"bn{tail}", f"scale{tail}")

    def block(name: str, x: str, width: int, stride: int, project: bool) -> str:
        """y = relu(x + f(x)); x is projected if its shape changes."""
        out = width * 4 if bottleneck else width
        short = conv(f"{name}_branch1", x, out, 1, stride) if project else x
        steps = ((width, 1), (width, 3), (out, 1)) if bottleneck else ((width, 3), (width, 3))
        for i, (channels, kernel) in enumerate(steps):
            x = conv(f"{name}_branch2{ascii_lowercase[i]}", x, channels, kernel, stride if i == 0 else 1)
            if i < len(steps) - 1:
                x = m.relu(f"{x}_relu", x)
        return m.relu(f"{name}_relu", m.add("Eltwise", name, short, x))

    x = imagenet(m, 224, (batch, 25))
    m.section("Stem: 64 x 56 x 56.")
    x = m.pool("pool1", m.relu("conv1_relu", conv("conv1", x, 64, 7, 2)), "MAX", 3, 2)
    for stage, depth in enumerate(depths, 2):
        m.section(f"Stage {stage}: {depth} blocks on {224 >> stage} x {224 >> stage}.")
        for i in range(depth):
            stride = 2 if stage > 2 and i == 0 else 1
            x = block(
                f"res{stage}{ascii_lowercase[i]}", x, 32 << stage - 1, stride, i == 0 and (bottleneck or stage > 2)
            )
    m.section("Classifier.")
    m.classify(m.fc("fc1000", m.pool("pool5", x, "AVE"), 1000, RATES, weight_filler=gaussian(0.01)), top_5=True)


def unit(m: Model, name: str, bottom: str, width: int, kernel: int = 3, stride: int = 1, slope: float = 0) -> str:
    """Convolution, batch normalization and ReLU; slope: of a leaky ReLU."""
    x = m.conv(name, bottom, width, kernel, stride, kernel // 2, bias_term=False, weight_filler=MSRA)
    x = normalized(m, x, f"bn_{name}", f"scale_{name}")
    return m.on("ReLU", f"relu_{name}", x, **({"relu_param": {"negative_slope": slope}} if slope else {}))


def mnist_elastic(m: Model) -> None:
    """Each perturbation that interpolates has the probability 1/2: a warp smooths, and some images stay sharp."""
    moved = {"shift_x": 2, "shift_y": 2, "scale_prob": 0.5, "scale_min": 0.9, "scale_max": 1.1}
    moved |= {"rotation_prob": 0.5, "max_rotate_degree": 10, "border": "CONSTANT"}
    moved |= {"elastic_prob": 0.5, "elastic_alpha": 1, "elastic_sigma": 4}
    x = m.data("mnist", (1, 28, 28), (100, 100), transform={"scale": 1 / 256}, shuffle=True, perturb_param=moved)
    conv = partial(unit, m, slope=0.1)
    m.section("Five convolutions: 24 x 28 x 28, 48 x 14 x 14 (two), 96 x 7 x 7 (two).")
    x = m.pool("pool1", conv("conv1", x, 24, 5), "MAX", 2, 2)
    x = m.pool("pool2", conv("conv3", conv("conv2", x, 48), 48), "MAX", 2, 2)
    x = conv("conv5", conv("conv4", x, 96), 96)
    m.section("Classifier.")
    x = m.drop("drop", m.pool("pool3", x, "MAX", 3, 2), 0.3)
    m.classify(m.fc("score", x, 10, RATES, weight_filler=gaussian(0.01)))


def cifar10_resnet(m: Model, flips: bool = True) -> None:
    """flips: in TEST the scores are the mean of those of an image and its mirror image."""
    flips = flips and not m.deploy
    moved = {"shift_x": 4, "shift_y": 4, "cutout_size": 8}
    transform = {"mean_value": [114, 123, 125], "scale": 1 / 64}
    x = m.data("cifar10", (3, 32, 32), (128, 100), transform=transform, shuffle=True, mirror=True, perturb_param=moved)
    if flips:
        m.section("Test-time flips: an image's scores are the mean of its own and its mirror image's.")
        m.net.layer[-1].top[0] = "image"
        m.add("Reverse", "mirrored", "image", include=TEST, reverse_param={"axis": 3})
        m.add("Concat", "views", "image", "mirrored", top=x, include=TEST, concat_param={"axis": 0})
    conv = partial(unit, m)

    def residual(name: str, x: str, width: int) -> str:
        return m.add("Eltwise", name, x, conv(f"{name}b", conv(f"{name}a", x, width), width))

    m.section("Stage 1: 96 x 16 x 16, with a residual block.")
    x = residual("res2", m.pool("pool2", conv("conv2", conv("conv1", x, 48), 96), "MAX", 2, 2), 96)
    m.section("Stage 2: 192 x 8 x 8.")
    x = m.pool("pool3", conv("conv3", x, 192), "MAX", 2, 2)
    m.section("Stage 3: 384 x 4 x 4, with a residual block.")
    x = residual("res4", m.pool("pool4", conv("conv4", x, 384), "MAX", 2, 2), 384)
    m.section("Classifier.")
    scores = tested = m.fc("score", m.pool("pool", x, "MAX"), 10, RATES, weight_filler=gaussian(0.01))
    if flips:
        views = ["score_image", "score_mirrored"]
        m.add("Slice", "split_score", scores, top=views, include=TEST, slice_param={"axis": 0})
        tested = m.add("Eltwise", "mean_score", *views, include=TEST, eltwise_param={"coeff": [0.5, 0.5]})
    m.classify(scores, smoothing=0.1, tested=tested)


def squeezenet(m: Model) -> None:
    x = imagenet(m, 227, (32, 25))

    def fire(i: int, x: str, squeeze: int, expand: int) -> str:
        def unit(part: str, bottom: str, width: int, kernel: int) -> str:
            x = m.conv(f"fire{i}/{part}", bottom, width, kernel, pad=kernel // 2, weight_filler=XAVIER)
            return m.relu(f"fire{i}/relu_{part}", x)

        x = unit("squeeze1x1", x, squeeze, 1)
        return m.add("Concat", f"fire{i}/concat", unit("expand1x1", x, expand, 1), unit("expand3x3", x, expand, 3))

    m.section("Fire modules reduce the channels by 1 x 1 convolutions, then expand them by 1 x 1 and 3 x 3.")
    x = m.relu("relu_conv1", m.conv("conv1", x, 64, 3, 2, weight_filler=XAVIER))
    x = m.pool("pool1", x, "MAX", 3, 2)
    for i, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)), 2
    ):
        x = fire(i, x, squeeze, expand)
        if i in (3, 5):
            x = m.pool(f"pool{i}", x, "MAX", 3, 2)
    m.section("Classifier: a convolution and global average pooling.")
    x = m.relu("relu_conv10", m.conv("conv10", m.drop("drop9", x), 1000, 1, weight_filler=gaussian(0.01)))
    m.classify(m.pool("pool10", x, "AVE"), top_5=True)


def mobilenet(m: Model) -> None:
    def unit(name: str, relu: str, bottom: str, width: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        fields = {"group": group} if group > 1 else {}
        param = [{"lr_mult": 1, "decay_mult": 0}] if group > 1 else ()
        x = m.conv(
            name, bottom, width, kernel, stride, kernel // 2, param, bias_term=False, weight_filler=MSRA, **fields
        )
        return m.relu(relu, normalized(m, x, f"{name}/bn", f"{name}/scale"))

    x = imagenet(m, 224, (64, 50))
    m.section("Pairs of a depthwise convolution (one group per channel, without weight decay) and a 1 x 1 convolution.")
    x, width = unit("conv1", "relu1", x, 32, 3, 2), 32
    table = (
        ("2_1", 64, 1),
        ("2_2", 128, 2),
        ("3_1", 128, 1),
        ("3_2", 256, 2),
        ("4_1", 256, 1),
        ("4_2", 512, 2),
        ("5_1", 512, 1),
    )
    table += ("5_2", 512, 1), ("5_3", 512, 1), ("5_4", 512, 1), ("5_5", 512, 1), ("5_6", 1024, 2), ("6", 1024, 1)
    for name, out, stride in table:
        x = unit(f"conv{name}/dw", f"relu{name}/dw", x, width, 3, stride, width)
        x, width = unit(f"conv{name}/sep", f"relu{name}/sep", x, out, 1), out
    m.section("Classifier: global average pooling and a convolution.")
    m.classify(m.conv("fc7", m.pool("pool6", x, "AVE"), 1000, 1, param=RATES, weight_filler=MSRA), top_5=True)


def siamese(m: Model) -> None:
    m.data("siamese", (2, 28, 28), (64, 100), transform={"scale": 1 / 256})
    for layer in m.net.layer:
        layer.top[:] = ["pair", "alike"]
    m.section("A pair is one image of two channels.")
    m.add("Slice", "slice", "pair", top=["left", "right"], slice_param={"axis": 1, "slice_point": [1]})
    for side in ("left", "right"):
        m.section(
            "LeNet with two output features."
            if side == "left"
            else "The same layers with shared weights: parameters of the same name are shared."
        )

        def shared(name: str) -> list[dict]:
            return [{"name": f"{name}_w", "lr_mult": 1}, {"name": f"{name}_b", "lr_mult": 2}]

        x = side
        for i, width in enumerate((20, 50), 1):
            x = m.conv(f"conv{i}_{side}", x, width, 5, param=shared(f"conv{i}"), weight_filler=XAVIER)
            x = m.pool(f"pool{i}_{side}", x, "MAX", 2, 2)
        x = m.relu(f"relu1_{side}", m.fc(f"ip1_{side}", x, 500, shared("ip1"), weight_filler=XAVIER))
        x = m.fc(f"ip2_{side}", x, 10, shared("ip2"), weight_filler=XAVIER)
        m.fc(f"feature_{side}", x, 2, shared("feature"), weight_filler=XAVIER)
    m.section("The loss pulls similar pairs together and pushes others apart to a distance of 1.")
    m.add("ContrastiveLoss", "loss", "feature_left", "feature_right", "alike", contrastive_loss_param={"margin": 1})


def lstm(m: Model) -> None:
    m.section("Rows are time steps, 50 per batch; the state is kept between batches until cont is 0.")
    m.rows("characters", ["code", "cont", "target"], (50, 50))
    m.section("An embedding of each code, then two layers of 256 cells.")
    spread = {"type": "uniform", "min": -0.08, "max": 0.08}
    p = {"input_dim": 128, "num_output": 64, "bias_term": False, "weight_filler": spread}
    x = m.add("Embed", "embed", "code", embed_param=p)
    for i in (1, 2):
        start = {"weight_filler": spread, "bias_filler": constant(0)}
        x = m.add("LSTM", f"lstm{i}", x, "cont", recurrent_param={"num_output": 256, **start})
    m.section("Prediction of the next character at every step.")
    x = m.fc("score", x, 128, axis=2, weight_filler=spread)
    m.add("SoftmaxWithLoss", "loss", x, "target", softmax_param={"axis": 2})
    m.add("Accuracy", "accuracy", x, "target", include=TEST, accuracy_param={"axis": 2})


def fcn8s(m: Model) -> None:
    classes = 21

    def enlarged(name: str, bottom: str, factor: int, learns: bool) -> str:
        """Upsampling of each class separately, with a bilinear initial kernel."""
        p = {
            "num_output": classes,
            "bias_term": False,
            "kernel_size": [2 * factor],
            "stride": [factor],
            "group": classes,
        }
        rate = [{"lr_mult": 1 if learns else 0, "decay_mult": 0}]
        return m.add(
            "Deconvolution", name, bottom, param=rate, convolution_param={**p, "weight_filler": {"type": "bilinear"}}
        )

    def cut(name: str, bottom: str, like: str, offset: int) -> str:
        return m.add("Crop", name, bottom, like, crop_param={"axis": 2, "offset": [offset]})

    def score(name: str, bottom: str) -> str:
        """Class scores with initial weights of 0."""
        return m.conv(name, bottom, classes, 1, param=RATES)

    m.rows("segmentation", ["data", "label"], (1, 1))
    m.section(
        "The convolutions of VGG-16 with their names, so its weights load; a pad of 100 gives the 7 x 7 kernel "
        "enough input."
    )
    pools = vgg_stages(m, "data", first_pad=100)
    m.section("Its classifier as convolutions; with other names, because the weights of VGG-16 have another shape.")
    x = pools[5]
    for i, kernel in ((6, 7), (7, 1)):
        x = m.conv(f"fc{i}_conv", x, 4096, kernel, param=RATES, weight_filler=gaussian(0.005))
        x = m.drop(f"drop{i}", m.relu(f"relu{i}", x))
    m.section("Scores at stride 32, then summed with those of strides 16 and 8.")
    x = enlarged("upscore2", score("score_fr", x), 2, True)
    x = m.add("Eltwise", "fuse_pool4", x, cut("score_pool4c", score("score_pool4", pools[4]), x, 5))
    x = enlarged("upscore_pool4", x, 2, True)
    x = m.add("Eltwise", "fuse_pool3", x, cut("score_pool3c", score("score_pool3", pools[3]), x, 9))
    x = cut("score", enlarged("upscore8", x, 8, False), "data", 31)
    m.section("A loss per pixel; label 255 is ignored.")
    m.add("SoftmaxWithLoss", "loss", x, "label", loss_param={"ignore_label": 255})
    m.add("Accuracy", "accuracy", x, "label", include=TEST, accuracy_param={"ignore_label": 255})
