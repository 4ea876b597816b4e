"""All devices have the interface of devices/protocol.py, and behave alike where they are used alike."""

import dataclasses
import inspect
import time
import typing

import engines
import numpy as np
import pytest
from devices.arrays import MAKE, blank, put

from caffelite.devices import detection_ops, formula_ops, ops, protocol, sequence_ops
from caffelite.devices.context import ExecutionContext, Field, InputBuffer
from caffelite.devices.cpu import CPU, registry as cpu_registry
from caffelite.devices.cuda import GPU, registry as cuda_registry
from caffelite.devices.formula import Formula
from caffelite.devices.registry import Registry
from caffelite.devices.window import Window

CLASSES = {"cpu": CPU, "gpu": GPU}
WINDOW = Window((2, 2), (2, 2))


def members(interface: type) -> list[str]:
    """The public names of a protocol, and ``__call__`` and ``__len__``."""
    names = {name for each in interface.__mro__[:-3] for name in (*vars(each), *each.__annotations__)}
    return sorted(name for name in names if not name.startswith("_") or name in ("__call__", "__len__"))


def parameters(function) -> list[tuple]:
    """(name, kind, default) of each parameter; positional-only ones have no name."""
    actual = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return [(None if p.kind is p.POSITIONAL_ONLY else p.name, p.kind, p.default) for p in actual]


def mismatches(instance, interface: type) -> list[str]:
    """What an object lacks of a protocol, or has with another signature; further parameters need defaults."""
    wrong = []
    for name in members(interface):
        if name not in dir(instance):
            wrong.append(f"{type(instance).__name__} lacks {name}")
            continue
        required = getattr(interface, name, None)
        if not inspect.isfunction(required):
            continue
        expected, actual = parameters(required), parameters(getattr(type(instance), name))
        further = [p for p in actual if p not in expected]
        if [p for p in actual if p in expected] != expected or any(p[2] is inspect.Parameter.empty for p in further):
            wrong.append(f"{type(instance).__name__}.{name}{inspect.signature(getattr(type(instance), name))}")
    return wrong


@pytest.fixture
def device(kind):
    return MAKE[kind]("float32")


def test_device_has_every_member_of_the_protocol(device):
    assert mismatches(device, protocol.Device) == []


@pytest.mark.parametrize("kind", CLASSES)
def test_protocol_names_all_that_both_devices_have(kind):
    """A public method that every device has belongs to the protocol."""
    public = {n for n, f in inspect.getmembers(CLASSES[kind], inspect.isfunction) if not n.startswith("_")}
    other = {n for n, f in inspect.getmembers(CLASSES["gpu" if kind == "cpu" else "cpu"], inspect.isfunction)}
    assert public & other <= set(members(protocol.Device))


X, Y = (1, 1, 4, 4), (1, 1, 2, 2)
CONVOLUTION = ops.Convolution(X, (1, 2, 2, 2), WINDOW, channels_last=True)
EXAMPLES = [  # functions of a device's context
    lambda _: ops.InnerProduct(2, 3, 4),
    lambda _: ops.Convolution(X, (1, 2, 2, 2), WINDOW),
    lambda _: CONVOLUTION,
    lambda _: ops.PreparedConvolution(CONVOLUTION),
    lambda _: ops.Pooling("MAX", X, Y, WINDOW),
    lambda _: ops.Pooling("MAX", X, Y, WINDOW, channels_last=True),
    lambda context: ops.Pooling("STOCHASTIC", X, Y, WINDOW, context=context),
    lambda _: ops.LRN(1, 4, 6, 3, 1.0, 0.75, 1.0),
    lambda _: ops.Im2col(X, WINDOW),
    lambda _: ops.Interpolation(X, Y, (0, 0), (4, 4)),
    lambda _: ops.Unpooling(2, 4, 16),
    lambda _: ops.Take(5, 2, 3),
    lambda _: ops.TopK(2, 5, 1, 2),
    lambda _: ops.Distances(2, 3, 4, True),
    lambda _: ops.LSTM(2, 3, 4),
    lambda _: ops.LSTMUnit(3, 4),
    lambda _: ops.Softmax(2, 3, 1),
    lambda _: ops.SoftmaxLoss(2, 3, 1, None, None),
    lambda _: ops.Accuracy(2, 3, 1, 1, None),
    lambda context: ops.Dropout(2, 3, 0.5, 1, context),
    lambda context: ops.Uniform(2, 3, 0.0, 1.0, 1, context),
    lambda context: ops.Preprocess(Y, None, 1.0, context),
    lambda _: detection_ops.RegionPooling("MAX", X, (2, 1, 2, 2), 0.5),
    lambda _: detection_ops.MultiBoxLoss(
        *(2, 8, 3, 1, 2, 0, 2, 0.5, False, False, False, 3.0, 0.5, False, False, False, 1.0, None, (1.0, 1.0))
    ),
    lambda _: detection_ops.Detections(2, 8, 3, 1, 2, 0, 2, False, 0.0, 0.5, 8),
    lambda _: detection_ops.Proposals(1, (2, 2), ((-8.0, -8.0, 8.0, 8.0),), 16, 3, 1.0, False, 0.5, 4, 2),
    lambda _: detection_ops.RegionLoss((1, 1, 7, 2, 2), 1, True, ((1.0, 1.0),), 0.3, 0.5, 5.0, 1.0, 1.0, True, True),
    lambda _: ops.PooledConvolution(ops.Convolution(X, X, Window((1, 1))), ops.Pooling("MAX", X, X, Window((1, 1)))),
    lambda _: ops.Correlation((1, 1, 3, 3), (1, 1, 3, 3), 1, (0, 0), 1, ((0, 0),), False),
    lambda _: sequence_ops.CTCLoss(2, 1, 2, 1, "rows", 2, 0),
]


def kinds(*modules) -> list[type]:
    """The types of operations of modules."""
    classes = [each for module in modules for each in vars(module).values() if inspect.isclass(each)]
    return [each for each in classes if issubclass(each, ops.Operation) and dataclasses.is_dataclass(each)]


KINDS, FORMULAS = kinds(ops, detection_ops, sequence_ops), kinds(formula_ops)
BUILDERS = {"cpu": cpu_registry.BUILDERS, "gpu": cuda_registry.BUILDERS}
for builders in BUILDERS.values():
    builders.load()


def interface_of(kind: type) -> type:
    """The interface of what is built from a type of operation."""
    (base,) = kind.__orig_bases__
    return typing.get_args(base)[0]


def lacking(builders: dict[str, Registry]) -> list[str]:
    """Operations that a device must implement, and those that no device does."""
    wrong = [
        f"{name} lacks {kind.__name__}"
        for kind in (*KINDS, *FORMULAS)
        for name, registry in builders.items()
        if kind not in registry and not issubclass(kind, ops.OptionalOperation)
    ]
    return wrong + [f"nobody has {kind.__name__}" for kind in KINDS if not any(kind in r for r in builders.values())]


def test_every_operation_is_implemented():
    assert len(KINDS) > 20 and len(FORMULAS) == 9 and lacking(BUILDERS) == []
    assert {type(example(None)) for example in EXAMPLES} == set(KINDS), "an operation without an example"


def test_a_missing_operation_is_found():
    less = {
        name: Registry({k: b for k, b in registry.items() if k is not ops.LRN}) for name, registry in BUILDERS.items()
    }
    assert lacking(less) == ["cpu lacks LRN", "gpu lacks LRN", "nobody has LRN"]
    assert lacking(BUILDERS | {"gpu": Registry()})[0] == "gpu lacks InnerProduct"


def test_a_wrong_signature_is_found():
    class Reversed:
        def forward(self, y, x) -> None: ...

        def backward(self, y, dy, dx, add=False) -> None: ...

    assert mismatches(Reversed(), ops.BuiltSoftmax) == ["Reversed.forward(self, y, x) -> None"]
    assert mismatches(Reversed(), ops.BuiltTake)[1:] == ["Reversed lacks bad", "Reversed.forward(self, y, x) -> None"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_is_built_has_its_interface(kind, example):
    device = MAKE[kind]("float32")
    op = example(device.make_context())
    if getattr(op, "channels_last", False) or type(op) is ops.PreparedConvolution:
        device = engines.with_onednn() if kind == "cpu" else device
    built = device.build(op)
    if type(op) in BUILDERS["cpu" if kind == "cpu" else "gpu"]:
        assert mismatches(built, interface_of(type(op))) == []
    else:
        assert built is None


def test_execution_has_its_interfaces(device):
    context = device.make_context(5)
    context.set_clock(0, 0)
    assert isinstance(context, ExecutionContext)
    assert mismatches(context.input_buffer, InputBuffer) == []
    assert mismatches(context.input_buffer.field((2,)), Field) == []
    assert mismatches(device.ring(2), protocol.Ring) == []
    graph = device.capture(lambda: None, context)
    assert graph.eager == device.eager and callable(graph)


def test_loss_scale_has_its_interface(kind):
    if kind == "cpu":
        assert MAKE[kind]("float32").loss_scale(None) is None
    else:
        from devices.host.backend import HostBackend

        device = GPU(0, "float32", HostBackend() if kind == "host" else None, "fp16")
        assert mismatches(device.loss_scale(None), protocol.LossScale) == []


# behavior


def test_contexts_of_one_device_are_independent(device):
    one, other = device.make_context(2**64 + 3), device.make_context(7)
    one.set_clock(4, 1)
    other.set_clock(9, 0)
    assert (one.seed, one.clock) == (3, (4, 1)) and (other.seed, other.clock) == (7, (9, 0))
    x, masks = put(device, np.ones((4, 64))), [blank(device, (4, 64), np.uint8) for _ in range(3)]
    out = blank(device, (4, 64))
    for context, mask in zip((one, other, one), masks, strict=True):
        device.build(ops.Dropout(4, 64, 0.5, 1, context)).forward(x, mask, out)
    first, second, third = (device.download(mask) for mask in masks)
    np.testing.assert_array_equal(first, third)
    assert (first != second).any()


def test_fields_hold_the_selected_pass(device):
    context = device.make_context()
    buffer = context.input_buffer
    field, target = buffer.field((3,)), device.zeros(3)
    buffer.begin()
    count = min(2, buffer.depth)
    for which in range(count):
        buffer.set_clock(which, 10 + which, 0)
        field.set(which, np.full(3, which + 1.0))
    buffer.send(count)
    for which in range(count):
        buffer.select(which)
        field.copy_to(target)
        assert (device.download(target) == which + 1).all() and context.clock == (10 + which, 0)
    field.replace(np.array([7.0, 8.0, 9.0]))
    field.copy_to(target)
    np.testing.assert_array_equal(device.download(target), [7, 8, 9])


def test_captured_function_reads_new_inputs(device):
    context = device.make_context()
    field, target = context.input_buffer.field((2,)), device.zeros(2)
    graph, actual = device.capture(lambda: field.copy_to(target), context), []
    for value in range(6):
        context.input_buffer.begin()
        field.set(0, np.full(2, float(value)))
        context.input_buffer.send()
        graph()
        actual.append(float(device.download(target)[0]))
    assert actual == [0, 1, 2, 3, 4, 5]
    device.drop_graphs()
    graph()
    assert device.why_eager() == device.eager


def test_events_measure_milliseconds_in_their_order(device):
    begin = device.record_event()
    device.synchronize()
    time.sleep(0.02)
    middle = device.record_event()
    device.fill(device.zeros(1000), 1)
    end = device.record_event()
    assert device.elapsed_ms(begin, middle) >= 19, "the sleep's 20 ms"
    assert device.elapsed_ms(begin, end) == pytest.approx(
        device.elapsed_ms(begin, middle) + device.elapsed_ms(middle, end), rel=1e-3
    )


def test_concurrent_parts_all_run(device):
    arrays = [device.zeros(4) for _ in range(3)]
    device.run_concurrently(1, *(lambda a=a, v=v: device.fill(a, v) for v, a in enumerate(arrays, 1)))
    assert [float(device.download(a)[0]) for a in arrays] == [1, 2, 3]


def test_columns_are_copied_and_summed(device):
    whole, other = (put(device, np.arange(12.0).reshape(2, 6) * k) for k in (1, 10))
    part = blank(device, (2, 4))
    device.copy_out(whole, 2, part)
    expected = np.arange(12.0).reshape(2, 6)[:, 2:]
    np.testing.assert_array_equal(device.download(part), expected)
    device.copy_into(part, other, 0)
    np.testing.assert_array_equal(device.download(other)[:, :4], expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_columns_of_several_arrays_are_summed(device, count):
    arrays = [put(device, np.arange(12.0).reshape(2, 6) * 10**k) for k in range(count + 1)]
    part = blank(device, (2, 4))
    device.copy_out(arrays[0], 2, part, arrays[1:])
    expected = np.arange(12.0).reshape(2, 6)[:, 2:] * sum(10**k for k in range(count + 1))
    np.testing.assert_array_equal(device.download(part), expected)


def test_relu_backward_with_and_without_bias(device):
    y = np.array([[1.0, -1.0, 0.0], [2.0, 3.0, -4.0]])
    dy = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    run, expected = device.relu_backward(2, 3, 1, 0.5), np.where(y > 0, dy, 0.5 * dy)
    there, db = put(device, dy), put(device, np.ones(3))
    run(put(device, y), there, db, True)
    np.testing.assert_array_equal(device.download(there), expected)
    np.testing.assert_array_equal(device.download(db), 1 + expected.sum(0))
    run(put(device, y), there := put(device, dy))
    np.testing.assert_array_equal(device.download(there), expected)


@pytest.mark.parametrize("p", [1, 5])
def test_sums_of_formulas_also_return_values(device, p, rng):
    x, u = rng.normal(size=(3, 4, p)), rng.normal(size=4)
    formulas = Formula("x - u", ("x", "u")), Formula("k * x", ("x",), constants=("k",))
    run = device.channel_sums(formulas, ("u",), 3, 4, p, 2.0, with_values=True, k=3.0)
    there, outs = put(device, x), [blank(device, 4), blank(device, 4)]
    run(there, put(device, u), outs, there)
    values = x - u[None, :, None]
    for out, expected in zip(outs, (values, 3 * x), strict=True):
        np.testing.assert_allclose(device.download(out), 2 * expected.sum((0, 2)), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(device.download(there), values, rtol=1e-6, atol=1e-6)


def test_loss_returns_its_gradient_in_forward(device, rng):
    x, label = put(device, rng.normal(size=(4, 3))), put(device, [0, 2, 1, 2])
    op, prob, loss = device.build(ops.SoftmaxLoss(4, 3, 1, None, 4.0)), blank(device, (4, 3)), blank(device, 1)
    gradient, expected = blank(device, (4, 3)), blank(device, (4, 3))
    op.forward(x, label, prob, loss, None, 0.5, gradient)
    op.backward(prob, label, put(device, [0.5]), expected)
    np.testing.assert_allclose(device.download(gradient), device.download(expected), rtol=1e-6)
