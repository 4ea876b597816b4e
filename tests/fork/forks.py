"""Small trees of forks whose code is never compiled: a schema, and files that register types."""

from pathlib import Path

FRAGMENT = """
message LayerParameter {
  optional ScaledLossParameter scaled_loss_param = 8099;
  optional string note = 501 [default = "none"];
}
message ConvolutionParameter { optional uint32 rings = 601 [default = 0]; }
message DropoutParameter { optional float dropout_ratio = 1 [default = 0.25]; }
message PoolingParameter { enum PoolMethod { MAX = 0; AVE = 1; STOCHASTIC = 2; MEDIAN = 3; }
  optional PoolMethod pool = 1 [default = MAX]; }
message SolverParameter { optional float warmth = 701 [default = 1]; }
message ScaledLossParameter {
  enum Form { FLAT = 0; ROUND = 1; }
  optional float scale = 1 [default = 2];
  optional Form form = 2 [default = FLAT];
  repeated int32 sizes = 3;
}
"""

# A schema of 2014, as far as nets of these tests go
V1 = """
package caffe;
message BlobProto {
  optional int32 num = 1 [default = 0]; optional int32 channels = 2 [default = 0];
  optional int32 height = 3 [default = 0]; optional int32 width = 4 [default = 0];
  repeated float data = 5 [packed = true]; repeated float diff = 6 [packed = true];
}
message FillerParameter { optional string type = 1 [default = 'constant']; optional float value = 2 [default = 0];
  optional float std = 6 [default = 1]; }
message NetParameter {
  optional string name = 1; repeated LayerParameter layers = 2; repeated string input = 3; repeated int32 input_dim = 4;
  optional bool force_backward = 5 [default = false];
}
message SolverParameter { optional string train_net = 1; optional float base_lr = 5; optional int32 max_iter = 7;
  optional string net = 24; }
message SolverState { optional int32 iter = 1; optional string learned_net = 2; repeated BlobProto history = 3; }
message LayerParameter {
  repeated string bottom = 2; repeated string top = 3; optional string name = 4;
  enum LayerType { NONE = 0; INNER_PRODUCT = 14; SOFTMAX_LOSS = 21; DUMMY_DATA = 32; SCALED_LOSS = 90; }
  optional LayerType type = 5;
  repeated BlobProto blobs = 6; repeated float blobs_lr = 7; repeated float weight_decay = 8;
  optional InnerProductParameter inner_product_param = 17;
  optional DummyDataParameter dummy_data_param = 26;
  optional ScaledLossParameter scaled_loss_param = 60;
}
message InnerProductParameter { optional uint32 num_output = 1; optional bool bias_term = 2 [default = true];
  optional FillerParameter weight_filler = 3; optional FillerParameter bias_filler = 4; }
message DummyDataParameter { repeated FillerParameter data_filler = 1; repeated uint32 num = 2;
  repeated uint32 channels = 3; repeated uint32 height = 4; repeated uint32 width = 5; }
message ScaledLossParameter { optional float scale = 1 [default = 2]; }
"""


def make(folder: Path, proto: str = FRAGMENT, types: tuple[str, ...] = ("ScaledLoss", "Convolution")) -> Path:
    """A tree with the schema and files that register these types; enum values where a schema of 2014 is meant."""
    files = {"src/caffe/proto/caffe.proto": proto}
    for name in types:
        files[f"src/caffe/layers/{name.lower()}_layer.cpp"] = f"REGISTER_LAYER_CLASS({name});\n"
    if proto == V1:
        cases = "\n".join(f"case LayerParameter_LayerType_{n}: return new {n}Layer<Dtype>(param);" for n in types)
        files = {"src/caffe/proto/caffe.proto": proto, "src/caffe/layer_factory.cpp": cases}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
