// A driver without a GPU: cuDNN compiles the kernels of an attention graph while it makes the plan,
// and wants to load them. This says yes to that, and has no device to start anything on.
extern "C" {

static char something;

int cuInit(unsigned) { return 100; }  // CUDA_ERROR_NO_DEVICE
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 0, 0; }
int cuLibraryLoadData(void** library) { return *library = &something, 0; }
int cuLibraryGetKernel(void** kernel) { return *kernel = &something, 0; }
int cuKernelGetFunction(void** function) { return *function = &something, 0; }
// For cuDNN as it is built for CUDA 12.
int cuModuleLoadData(void** module) { return *module = &something, 0; }
int cuModuleGetFunction(void** function) { return *function = &something, 0; }

#define DOES_NOTHING(name) \
  int name() { return 0; }
DOES_NOTHING(cuCtxGetCurrent)
DOES_NOTHING(cuCtxGetLimit)
DOES_NOTHING(cuCtxPopCurrent)
DOES_NOTHING(cuCtxPushCurrent)
DOES_NOTHING(cuDeviceGet)
DOES_NOTHING(cuGetErrorName)
DOES_NOTHING(cuGetErrorString)
DOES_NOTHING(cuKernelGetAttribute)
DOES_NOTHING(cuKernelSetAttribute)
DOES_NOTHING(cuLaunchCooperativeKernel)
DOES_NOTHING(cuLaunchKernel)
DOES_NOTHING(cuLaunchKernelEx)
DOES_NOTHING(cuLibraryLoadFromFile)
DOES_NOTHING(cuLibraryUnload)
DOES_NOTHING(cuLinkAddData)
DOES_NOTHING(cuLinkComplete)
DOES_NOTHING(cuLinkCreate)
DOES_NOTHING(cuLinkDestroy)
DOES_NOTHING(cuModuleUnload)
DOES_NOTHING(cuOccupancyMaxPotentialClusterSize)
DOES_NOTHING(cuStreamGetCtx)
DOES_NOTHING(cuTensorMapEncodeIm2col)
DOES_NOTHING(cuTensorMapEncodeTiled)

}  // extern "C"
