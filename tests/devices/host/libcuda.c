// A driver that is not there, for machines without one: cuDNN links to it, but asks it nothing while it only builds plans.
#define ABSENT(name) \
  int name(void) { return 100; /* CUDA_ERROR_NO_DEVICE */ }
ABSENT(cuDriverGetVersion)
ABSENT(cuInit)
ABSENT(cuGetErrorString)
ABSENT(cuModuleGetFunction)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleUnload)
ABSENT(cuTensorMapEncodeIm2col)
ABSENT(cuTensorMapEncodeTiled)
