"""caffelite trains Caffe nets: any prototxt and caffemodel, Caffe's numbers, on CPUs and NVIDIA GPUs."""

__version__ = "0.1.0"
