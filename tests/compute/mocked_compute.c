/* A libcuda.so.1, a libamdhip64.so with its libhiprtc.so, and a libze_loader.so.1, which compute on the host what the kernels of the check
 * compute on a device.
 *
 * The table is that of the mocked libnvidia-ml.so.1. "CALL" or "1.CALL" is the error that a call answers, -1 hangs and -2 crashes. "1.after"
 * is after how many calls on that device each one answers "1.after.code". "1.wrong.every": 1000000 alters each millionth value that is
 * computed, "1.wrong.copy" one byte of each copy to the host, and "1.idle" makes kernels do nothing. Whoever releases a
 * context without having freed its memory gets an error. With "1.spoils" each
 * later call of the process answers the error of the device. "1.flops", "1.rate" and "1.bus" are
 * what the device does in a second; its clock is moved by its work.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <unistd.h>
#include "../nodeprobe/mocked_table.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500 };
static const int ERRORS[] = {1, 2, 3, 34, 46, 100, 101, 201, 214, 218, 222, 700, 719, 802, 803, 999, -7, 123456};
static int current = -1, spoilt;
static long long calls[64];
static unsigned long long computed[64], held[64];
static double clock_of[64];
static const char *key_of(int device, const char *name) {
    static char key[4][120];
    static int next;
    char *at = key[next++ & 3];
    snprintf(at, sizeof key[0], "%d.%s", device, name);
    return at;
}

static long long of(const char *name, long long otherwise) { return number(key_of(current, name), otherwise); }

static int fault(const char *call, int device) {
    load();
    if (spoilt) return spoilt;
    if (number("random.percent", 0) > (long long)(draw() % 100)) return ERRORS[draw() % (sizeof ERRORS / sizeof *ERRORS)];
    long long code = number(call, 0);
    if (device >= 0 && device < 64) {
        if (!code) code = number(key_of(device, call), 0);
        if (!code && ++calls[device] > number(key_of(device, "after"), 1LL << 60)) code = number(key_of(device, "after.code"), 214);
    }
    if (code && device >= 0 && number(key_of(device, "spoils"), 0)) spoilt = (int)code;
    if (code == -1) fprintf(stderr, "%s hangs\n", call);
    while (code == -1) pause();
    if (code == -2) abort();
    return (int)code;
}
#define ASK(DEVICE) { int c = fault(__func__, DEVICE); if (c) return c; }
#define NOISE(OUT) if (number("random.answers", 0)) { *(OUT) = draw(); return SUCCESS; }

static void advance(double seconds) { if (current >= 0) clock_of[current] += seconds; }
static uint32_t spoil(unsigned long long every, uint32_t value) { return every && ++computed[current & 63] % every == 0 ? value ^ 1 : value; }

static void fill(uint32_t *p, uint64_t n, uint32_t period, uint32_t seed) {
    unsigned long long every = (unsigned long long)of("wrong.every", 0);
    for (uint64_t i = 0; i < n; i++) p[i] = spoil(every, (uint32_t)(i % period) * 2654435761u + seed);
    advance(4.0 * n / of("rate", 2000000000000));
}
static void differ(const uint32_t *a, const uint32_t *b, uint64_t n, uint64_t *found) {
    for (uint64_t i = 0; i < n; i++) if (a[i] != b[i]) { found[0]++; if (i < found[1]) found[1] = i; }
    advance(8.0 * n / of("rate", 2000000000000));
}
static void multiply(const float *at, const float *b, float *c, uint32_t n) {
    static int known;
    if (!known++) fprintf(stderr, "it multiplies\n");
    memset(c, 0, 4ul * n * n);
    for (uint32_t k = 0; k < n; k++) for (uint32_t i = 0; i < n; i++) for (uint32_t j = 0; j < n; j++)
        c[i * n + j] += at[k * n + i] * b[k * n + j];
    unsigned long long every = (unsigned long long)of("wrong.every", 0);
    for (uint32_t i = 0; every && i < n * n; i++) ((uint32_t *)c)[i] = spoil(every, ((uint32_t *)c)[i]);
    advance(2.0 * n * n * n / of("flops", 50000000000000));
}
static void run(const char *kernel, void **p) {
    if (of("idle", 0)) return;
    if (*kernel == 'f') fill(*(uint32_t **)p[0], *(uint64_t *)p[1], *(uint32_t *)p[2], *(uint32_t *)p[3]);
    else if (*kernel == 'd') differ(*(uint32_t **)p[0], *(uint32_t **)p[1], *(uint64_t *)p[2], *(uint64_t **)p[3]);
    else multiply(*(float **)p[0], *(float **)p[1], *(float **)p[2], *(uint32_t *)p[3]);
}

static int make(void **address, size_t size) {
    if (!address || held[current & 63] + size > (unsigned long long)of("memory.total", 0) - of("memory.used", 0)) return OUT_OF_MEMORY;
    size_t *block = calloc(1, size + 16);
    if (!block) return OUT_OF_MEMORY;
    *block = size;
    held[current & 63] += size;
    *address = (char *)block + 16;
    return SUCCESS;
}
static int drop(void *address) {
    size_t *block = (size_t *)((char *)address - 16);
    held[current & 63] -= *block;
    free(block);
    return SUCCESS;
}
static int copied(void *target, const void *source, size_t size, const char *rate, long long otherwise) {
    memcpy(target, source, size);
    advance((double)size / of(rate, otherwise));
    return SUCCESS;
}
static int unlike(void *target, size_t size) { if (of("wrong.copy", 0) && size > 100) ((char *)target)[size / 2] += 4; return SUCCESS; }

int both_init(const char *call) { int c = fault(call, -1); return c ? c : number("count", 0) ? SUCCESS : NO_DEVICE; }
int cuInit(unsigned flags) { (void)flags; return both_init(__func__); }
int hipInit(unsigned flags) { (void)flags; return both_init(__func__); }
int cuGetErrorName(int code, const char **name) { *name = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL; return *name ? SUCCESS : INVALID_VALUE; }
const char *hipGetErrorName(int code) { return code == 2 ? "hipErrorOutOfMemory" : NULL; }
int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    char text[64];
    ASK(device)
    const char *key = find(key_of(device, "cuda.uuid")) ? key_of(device, "cuda.uuid") : key_of(device, "uuid");
    if (table_text(key, text, sizeof text)) return INVALID_VALUE;
    int at = 0;
    for (char *p = strchr(text, '-'); p && *p && at < 32; p++) if (*p != '-') {
        unsigned digit = (unsigned)(*p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10);
        out[at / 2] = (unsigned char)(at % 2 ? out[at / 2] | digit : digit << 4);
        at++;
    }
    return SUCCESS;
}
int hipDeviceGetUuid(char *out, int device) { ASK(device) memcpy(out, "0123456789abcde", 15); out[15] = (char)('0' + device); return SUCCESS; }
int hiprtcCreateProgram(const char **program, const char *source, const char *name, int n, void *a, void *b) {
    (void)name, (void)n, (void)a, (void)b; ASK(-1) *program = strdup(source); return SUCCESS;
}
int hiprtcCompileProgram(const char *program, int n, void *options) { (void)n, (void)options; ASK(-1) return strstr(program, "__global__") ? SUCCESS : 6; }
int hiprtcGetCodeSize(const char *program, size_t *size) { ASK(-1) *size = strlen(program) + 1; return SUCCESS; }
int hiprtcGetCode(const char *program, char *out) { ASK(-1) strcpy(out, program); return SUCCESS; }
int hiprtcDestroyProgram(const char **program) { (void)program; return SUCCESS; }
int cuCtxSetCurrent(int *context) { ASK(*context) current = *context; return SUCCESS; }
int hipSetDevice(int device) { ASK(device) current = device; return SUCCESS; }

/* what both libraries have, under their own names */
#define BOTH(CUDA, HIP, SIGNATURE, BODY) int CUDA SIGNATURE BODY int HIP SIGNATURE BODY
BOTH(cuDriverGetVersion, hipDriverGetVersion, (int *out), { ASK(-1) NOISE(out) *out = (int)number("cuda", 0); return SUCCESS; })
BOTH(cuDeviceGetCount, hipGetDeviceCount, (int *out), { ASK(-1) *out = number("random.answers", 0) ? (int)(draw() % 9) - 1 : (int)number("count", 0); return SUCCESS; })
BOTH(cuDeviceGet, hipDeviceGet, (int *out, int index), { ASK(index) *out = index; return SUCCESS; })
BOTH(cuDeviceGetName, hipDeviceGetName, (char *out, int n, int device), { ASK(device) return table_text(key_of(device, "name"), out, (unsigned)n) ? INVALID_VALUE : SUCCESS; })
BOTH(cuDeviceTotalMem_v2, hipDeviceTotalMem, (size_t *out, int device), { ASK(device) NOISE(out) *out = (size_t)number(key_of(device, "memory.total"), 0); return SUCCESS; })
BOTH(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId, (char *out, int n, int device), { ASK(device) return table_text(key_of(device, "pci"), out, (unsigned)n) ? INVALID_VALUE : SUCCESS; })
BOTH(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain, (int **out, int device), { static int contexts[64]; ASK(device) contexts[device & 63] = device; *out = &contexts[device & 63]; return SUCCESS; })
BOTH(cuDevicePrimaryCtxRelease_v2, hipDevicePrimaryCtxRelease, (int device), { ASK(device) fprintf(stderr, "%llu bytes held\n", held[device & 63]); return held[device & 63] ? 709 : SUCCESS; })
BOTH(cuMemGetInfo_v2, hipMemGetInfo, (size_t *out, size_t *total), { ASK(current) NOISE(out) *total = (size_t)of("memory.total", 0); *out = *total - held[current & 63] - of("memory.used", 0); return SUCCESS; })
BOTH(cuMemAlloc_v2, hipMalloc, (void **out, size_t size), { ASK(current) return make(out, size); })
BOTH(cuMemFree_v2, hipFree, (void *address), { ASK(current) return drop(address); })
BOTH(cuMemHostAlloc, hipHostMalloc, (void **out, size_t size, unsigned flags), { (void)flags; ASK(current) *out = malloc(size); return *out ? SUCCESS : OUT_OF_MEMORY; })
BOTH(cuMemFreeHost, hipHostFree, (void *address), { ASK(current) free(address); return SUCCESS; })
BOTH(cuMemcpyHtoD_v2, hipMemcpyHtoD, (void *target, void *source, size_t size), { ASK(current) return copied(target, source, size, "bus", 50000000000); })
BOTH(cuMemcpyDtoH_v2, hipMemcpyDtoH, (void *target, void *source, size_t size), { ASK(current) copied(target, source, size, "bus", 50000000000); return unlike(target, size); })
BOTH(cuMemcpyDtoD_v2, hipMemcpyDtoD, (void *target, void *source, size_t size), { ASK(current) return copied(target, source, size, "rate", 1000000000000); })
BOTH(cuModuleLoadData, hipModuleLoadData, (void **out, const char *image), { ASK(current) *out = (void *)image; return strstr(image, ".version 6.0") || strstr(image, "__global__") ? SUCCESS : 218; })
BOTH(cuModuleUnload, hipModuleUnload, (void *module), { (void)module; ASK(current) return SUCCESS; })
BOTH(cuModuleGetFunction, hipModuleGetFunction, (char **out, void *module, const char *name), { (void)module; ASK(current) *out = strcmp(name, "fill") && strcmp(name, "differ") && strcmp(name, "multiply") ? NULL : strdup(name); return *out ? SUCCESS : NOT_FOUND; })
BOTH(cuLaunchKernel, hipModuleLaunchKernel, (const char *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **p, void **extra), {
    (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
    ASK(current)
    run(kernel, p);
    return SUCCESS; })
BOTH(cuEventCreate, hipEventCreateWithFlags, (double **out, unsigned flags), { (void)flags; ASK(current) *out = calloc(1, sizeof(double)); return SUCCESS; })
BOTH(cuEventRecord, hipEventRecord, (double *event, void *stream), { (void)stream; ASK(current) *event = clock_of[current & 63]; return SUCCESS; })
BOTH(cuEventSynchronize, hipEventSynchronize, (double *event), { (void)event; ASK(current) return SUCCESS; })
BOTH(cuEventElapsedTime, hipEventElapsedTime, (float *out, double *a, double *b), { ASK(current) NOISE(out) *out = (float)((*b - *a) * 1000); return SUCCESS; })
BOTH(cuEventDestroy_v2, hipEventDestroy, (double *event), { ASK(current) free(event); return SUCCESS; })

/* Level Zero: handles are numbers above 0 */
typedef struct { unsigned stype; void *next; unsigned word[5]; } Described;
enum { NO_BUILD = 0x70000004, WRONG = 0x78000004, IN_USE = 0x78000006, NO_KERNEL = 0x78000011, GROUP = 0x78000013, NO_PLACE = 0x78000015, SIZE = 0x78000016 };
typedef struct { char name[16]; unsigned group, set; uint64_t values[4]; } Kernel;
static const struct { char *name; size_t sizes[4]; } TAKES[] = {{"fill", {8, 8, 4, 4}}, {"differ", {8, 8, 8, 8}}, {"multiply", {8, 8, 8, 4}}};
static struct { const char *code; size_t size; int kernels; } module;
static int listed(unsigned *count, void **out, unsigned have) {
    if (out) for (unsigned i = 0; i < *count && i < have; i++) out[i] = (void *)(uintptr_t)(i + 1);
    *count = have;
    return SUCCESS;
}
int zeInit(unsigned flags) { (void)flags; return fault(__func__, -1); }
int zeDriverGet(unsigned *count, void **out) { ASK(-1) return listed(count, out, 1); }
int zeDeviceGet(void *driver, unsigned *count, void **out) { (void)driver; ASK(-1) return listed(count, out, (unsigned)number("count", 0)); }
int zeDeviceGetProperties(uintptr_t device, struct { unsigned stype; void *next; unsigned a[6]; uint64_t most; unsigned b[7]; uint64_t resolution;
                          unsigned bits, kernel_bits; unsigned char uuid[16]; char name[256]; } *out) {
    ASK((int)device - 1)
    memset(out->uuid, 0x20 + (int)device, 16);
    out->most = number("random.answers", 0) ? draw() : (uint64_t)number(key_of((int)device - 1, "memory.most"), 4ll << 30);
    return out->stype != 3 || table_text(key_of((int)device - 1, "name"), out->name, 256) ? 0x78000004 : SUCCESS;
}
int zeDeviceGetMemoryProperties(uintptr_t device, unsigned *count, struct { unsigned stype; void *next; unsigned a[3]; uint64_t total; char name[256]; } *out) {
    ASK((int)device - 1)
    if (out && out->stype != 7) return 0x78000004;
    if (out && *count) out->total = number("random.answers", 0) ? draw() : (uint64_t)number(key_of((int)device - 1, "memory.total"), 0);
    *count = number("random.answers", 0) ? (unsigned)draw() : 1;
    return SUCCESS;
}
int zeContextCreate(void *driver, Described *desc, void **out) { (void)driver; ASK(-1) *out = &current; return desc->stype == 0xd ? SUCCESS : 0x78000004; }
int zeContextDestroy(void *context) { (void)context; ASK(current) return held[current & 63] || module.code ? IN_USE : SUCCESS; }
int zeCommandListCreateImmediate(void *context, uintptr_t device, Described *desc, void **out) {
    (void)context; ASK((int)device - 1) current = (int)device - 1; *out = &current;
    return desc->stype == 0xe && desc->word[3] == 1 ? SUCCESS : 0x78000004;
}
int zeCommandListDestroy(void *list) { (void)list; ASK(current) return SUCCESS; }
int zeMemAllocDevice(void *context, Described *desc, size_t size, size_t align, void *device, void **out) {
    (void)context, (void)align, (void)device; ASK(current) return desc->stype != 0x15 ? 0x78000004 : make(out, size) ? 0x70000003 : SUCCESS;
}
int zeMemAllocHost(void *context, Described *desc, size_t size, size_t align, void **out) {
    (void)context, (void)align; ASK(current) return desc->stype != 0x16 ? 0x78000004 : make(out, size);
}
int zeMemFree(void *context, void *address) { (void)context; ASK(current) return drop(address); }
int zeCommandListAppendMemoryCopy(void *list, void *target, void *source, size_t size, void *event, unsigned n, void **events) {
    (void)list, (void)event, (void)n, (void)events; ASK(current) copied(target, source, size, "bus", 50000000000); return unlike(target, size);
}

int zeModuleCreate(void *context, void *device, struct { unsigned stype; void *next; unsigned format; size_t size; const char *code, *flags; void *constants; } *desc,
                   void **out, void *log) {
    (void)context, (void)device, (void)log; ASK(current)
    if (desc->stype != 0x1b || desc->format || *(const uint32_t *)desc->code != 0x07230203) return NO_BUILD;
    module.code = memcpy(malloc(desc->size), desc->code, desc->size);
    module.size = desc->size, module.kernels = 0;
    *out = &module;
    return SUCCESS;
}
int zeModuleDestroy(void *handle) { (void)handle; ASK(current) if (module.kernels) return IN_USE; free((void *)module.code); module.code = NULL; return SUCCESS; }
int zeKernelCreate(void *handle, struct { unsigned stype; void *next; unsigned flags; const char *name; } *desc, Kernel **out) {
    (void)handle; ASK(current)
    if (desc->stype != 0x1d || !memmem(module.code, module.size, desc->name, strlen(desc->name) + 1)) return NO_KERNEL;
    strncpy((*out = calloc(1, sizeof **out))->name, desc->name, sizeof (*out)->name - 1);
    module.kernels++;
    return SUCCESS;
}
int zeKernelDestroy(Kernel *kernel) { ASK(current) free(kernel); module.kernels--; return SUCCESS; }
int zeKernelSetGroupSize(Kernel *kernel, unsigned x, unsigned y, unsigned z) { ASK(current) kernel->group = x; return x == 256 && y == 1 && z == 1 ? SUCCESS : GROUP; }
int zeKernelSetArgumentValue(Kernel *kernel, unsigned index, size_t size, const void *value) {
    ASK(current)
    unsigned which = 0;
    while (strcmp(TAKES[which].name, kernel->name)) which++;
    if (index > 3) return NO_PLACE;
    if (size != TAKES[which].sizes[index]) return SIZE;
    memcpy(&kernel->values[index], value, size);
    kernel->set |= 1u << index;
    return SUCCESS;
}
int zeCommandListAppendLaunchKernel(void *list, Kernel *kernel, const unsigned *groups, void *event, unsigned n, void **events) {
    (void)list, (void)event, (void)n, (void)events; ASK(current)
    if (kernel->set != 15 || kernel->group != 256 || !groups[0] || !groups[1] || groups[2] != 1) return WRONG;
    void *p[4] = {&kernel->values[0], &kernel->values[1], &kernel->values[2], &kernel->values[3]};
    run(kernel->name, p);
    return SUCCESS;
}

void mocked_forget_compute(void) { module.code = NULL; table_forget(); spoilt = 0; memset(calls, 0, sizeof calls); memset(held, 0, sizeof held); memset(computed, 0, sizeof computed); current = -1; }
