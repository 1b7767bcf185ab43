/* A libnvidia-ml.so.1 that answers from a table: real pynvml runs against it, without a driver.
 *
 * MOCKED_NVML names a flat JSON object: "count": 8, "0.uuid": "GPU-...", "0.memory.total": 85899345920. "CALL" or "3.CALL" is the error
 * that a call answers, for all devices or for one. A value that is not there is not supported. With "random.seed" and "random.percent"
 * every call fails so often with an error of its own choice, and "random.answers" fills its answers with noise.
 */
#include "mocked_table.h"
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };
static const int ERRORS[] = {1, 2, 3, 4, 6, 7, 10, 13, 14, 15, 16, 17, 18, 20, 25, 26, 27, 28, 999, 12345};

typedef struct { int device, part; } Handle;
static Handle handles[64][65];

static int text(const char *key, char *out, unsigned length) {
    int code = table_text(key, out, length);
    return code == -1 ? NOT_SUPPORTED : code == -2 ? INSUFFICIENT_SIZE : SUCCESS;
}

void mocked_forget(void) { table_forget(); }

static int fault(const char *call, const Handle *handle) {
    char key[120];
    if (number("random.percent", 0) > (long long)(draw() % 100)) return ERRORS[draw() % (sizeof ERRORS / sizeof *ERRORS)];
    long long code = number(call, SUCCESS);
    if (handle && code == SUCCESS) {
        snprintf(key, sizeof key, "%d.%s", handle->device, call);
        code = number(key, SUCCESS);
        if (code == SUCCESS && (snprintf(key, sizeof key, "%d.lost", handle->device), number(key, 0))) code = 15;
    }
    return (int)code;
}

static const char *key_of(const Handle *handle, const char *name) {
    static char key[120];
    if (handle->part) snprintf(key, sizeof key, "%d.mig.%d.%s", handle->device, handle->part - 1, name);
    else snprintf(key, sizeof key, "%d.%s", handle->device, name);
    return key;
}

static int value(const char *call, const Handle *handle, const char *name, long long *out) {
    int code = fault(call, handle);
    if (code) return code;
    if (number("random.answers", 0)) { *out = draw(); return SUCCESS; }
    if (!find(key_of(handle, name))) return NOT_SUPPORTED;
    *out = number(key_of(handle, name), 0);
    return SUCCESS;
}

#define ASK(NAME, FIELD) \
    int NAME(Handle *h, unsigned *out) { long long v = 0; int c = value(#NAME, h, FIELD, &v); if (!c) *out = (unsigned)v; return c; }
#define ASK_TEXT(NAME, FIELD) \
    int NAME(Handle *h, char *out, unsigned n) { int c = fault(#NAME, h); return c ? c : text(key_of(h, FIELD), out, n); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; load(); return fault("nvmlInitWithFlags", NULL); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : code == 3 ? "Not Supported" : "an error of the mocked driver"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { int c = fault("nvmlSystemGetDriverVersion", NULL); return c ? c : text("driver", out, n); }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { int c = fault("nvmlSystemGetNVMLVersion", NULL); return c ? c : text("library", out, n); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { int c = fault("nvmlSystemGetCudaDriverVersion_v2", NULL); if (!c) *out = (int)number("cuda", 0); return c; }
int nvmlDeviceGetCount_v2(unsigned *out) { int c = fault("nvmlDeviceGetCount_v2", NULL); if (!c) *out = (unsigned)number("count", 0); return c; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out) {
    if (index >= 64) return INVALID_ARGUMENT;
    Handle *handle = &handles[index][0];
    handle->device = (int)index;
    *out = handle;
    int code = fault("nvmlDeviceGetHandleByIndex_v2", handle);
    return code == 15 ? SUCCESS : code; /* a lost device is enumerated, and answers nothing */
}
ASK_TEXT(nvmlDeviceGetUUID, "uuid")
ASK_TEXT(nvmlDeviceGetName, "name")
ASK_TEXT(nvmlDeviceGetSerial, "serial")
ASK_TEXT(nvmlDeviceGetVbiosVersion, "vbios")
ASK_TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
ASK(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
ASK(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
ASK(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_generation")
ASK(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
ASK(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
ASK(nvmlDeviceGetPowerUsage, "power")
ASK(nvmlDeviceGetEnforcedPowerLimit, "power.limit")
ASK(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
int nvmlDeviceGetTotalEnergyConsumption(Handle *h, unsigned long long *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetTotalEnergyConsumption", h, "energy", &v);
    if (!code) *out = (unsigned long long)v;
    return code;
}
int nvmlDeviceGetUtilizationRates(Handle *h, struct { unsigned gpu, memory; } *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetUtilizationRates", h, "utilisation", &v);
    if (!code) out->gpu = (unsigned)v, out->memory = 0;
    return code;
}
ASK(nvmlDeviceGetPersistenceMode, "persistence")
ASK(nvmlDeviceGetMaxMigDeviceCount, "mig.most")
ASK(nvmlDeviceGetGpuInstanceId, "gi")
ASK(nvmlDeviceGetComputeInstanceId, "ci")

int nvmlDeviceGetPciInfo_v3(Handle *h, struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } *out) {
    int code = fault("nvmlDeviceGetPciInfo_v3", h);
    return code ? code : text(key_of(h, "pci"), out->address, 32);
}
int nvmlDeviceGetMemoryInfo(Handle *h, struct { unsigned long long total, free, used; } *out) {
    long long total = 0;
    int code = value("nvmlDeviceGetMemoryInfo", h, "memory.total", &total);
    if (code) return code;
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)number(key_of(h, "memory.used"), 0);
    out->free = out->total - out->used;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(Handle *h, struct { unsigned version; unsigned long long total, reserved, free, used; } *out) {
    long long total = 0;
    int code = value("nvmlDeviceGetMemoryInfo", h, "memory.total", &total);
    if (code) return code;
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)number(key_of(h, "memory.used"), 0);
    return SUCCESS;
}
int nvmlDeviceGetSramEccErrorStatus(Handle *h, struct { unsigned version; unsigned long long counts[11]; unsigned exceeded; } *out) {
    long long exceeded = 0;
    int code = value("nvmlDeviceGetSramEccErrorStatus", h, "ecc.threshold_exceeded", &exceeded);
    if (!code) out->exceeded = (unsigned)exceeded;
    return code;
}
int nvmlDeviceGetMigMode(Handle *h, unsigned *current, unsigned *pending) {
    long long mode = 0;
    int code = value("nvmlDeviceGetMigMode", h, "mig.mode", &mode);
    if (!code) *current = (unsigned)mode, *pending = (unsigned)number(key_of(h, "mig.pending"), mode);
    return code;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle *h, unsigned index, Handle **out) {
    int code = fault("nvmlDeviceGetMigDeviceHandleByIndex", h);
    if (code) return code;
    if (index >= 64) return INVALID_ARGUMENT;
    Handle *part = &handles[h->device][index + 1];
    part->device = h->device, part->part = (int)index + 1;
    if (!find(key_of(part, "uuid"))) return NOT_FOUND;
    *out = part;
    return SUCCESS;
}
int nvmlDeviceGetEccMode(Handle *h, unsigned *current, unsigned *pending) {
    long long mode = 0;
    int code = value("nvmlDeviceGetEccMode", h, "ecc.mode", &mode);
    if (!code) *current = (unsigned)mode, *pending = (unsigned)number(key_of(h, "ecc.pending"), mode);
    return code;
}
int nvmlDeviceGetTotalEccErrors(Handle *h, unsigned kind, unsigned counter, unsigned long long *out) {
    static const char *NAMES[2][2] = {{"ecc.corrected", "ecc.corrected_ever"}, {"ecc.uncorrected", "ecc.uncorrected_ever"}};
    long long count = 0;
    int code = value("nvmlDeviceGetTotalEccErrors", h, NAMES[kind & 1][counter & 1], &count);
    if (!code) *out = (unsigned long long)count;
    return code;
}
int nvmlDeviceGetRemappedRows(Handle *h, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    long long rows = 0;
    int code = value("nvmlDeviceGetRemappedRows", h, "remap.uncorrected", &rows);
    if (code) return code;
    *uncorrected = (unsigned)rows;
    *corrected = (unsigned)number(key_of(h, "remap.corrected"), 0);
    *pending = (unsigned)number(key_of(h, "remap.pending"), 0);
    *failed = (unsigned)number(key_of(h, "remap.failed"), 0);
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(Handle *h, unsigned link, unsigned *active) {
    char name[40];
    snprintf(name, sizeof name, "link.%u", link);
    int code = fault("nvmlDeviceGetNvLinkState", h);
    if (code) return code;
    if ((long long)link >= number(key_of(h, "links"), 0)) return INVALID_ARGUMENT;
    *active = (unsigned)number(key_of(h, name), 1);
    return SUCCESS;
}
int nvmlDeviceGetGpuFabricInfoV(Handle *h, struct {
    unsigned version; unsigned char uuid[16]; unsigned status, clique; unsigned char state; unsigned mask; unsigned char summary; } *out) {
    long long state = 0;
    int code = value("nvmlDeviceGetGpuFabricInfoV", h, "fabric.state", &state);
    if (code) return code;
    if ((out->version >> 24) > (unsigned)number("fabric.version", 3)) return VERSION_MISMATCH;
    out->state = (unsigned char)state;
    out->status = (unsigned)number(key_of(h, "fabric.status"), 0);
    out->clique = (unsigned)number(key_of(h, "fabric.clique"), 0);
    out->mask = (unsigned)number(key_of(h, "fabric.mask"), 0);
    memset(out->uuid, (int)number(key_of(h, "fabric.uuid"), 0), 16);
    if ((out->version >> 24) >= 3) out->summary = (unsigned char)number(key_of(h, "fabric.summary"), 0);
    return SUCCESS;
}
static const char *clock_name(unsigned type, int most) {
    if (type == 2) return most ? "clock.max_memory" : "clock.memory";
    return most ? "clock.max_sm" : "clock.sm";
}
int nvmlDeviceGetClockInfo(Handle *h, unsigned type, unsigned *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetClockInfo", h, clock_name(type, 0), &v);
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetMaxClockInfo(Handle *h, unsigned type, unsigned *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetMaxClockInfo", h, clock_name(type, 1), &v);
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetCurrentClocksEventReasons(Handle *h, unsigned long long *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetCurrentClocksEventReasons", h, "slowdowns", &v);
    if (!code) *out = (unsigned long long)v;
    return code;
}
int nvmlDeviceGetTemperature(Handle *h, unsigned sensor, unsigned *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetTemperature", h, "temperature", &v);
    (void)sensor;
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetTemperatureThreshold(Handle *h, unsigned threshold, unsigned *out) {
    long long v = 0;
    int code = value("nvmlDeviceGetTemperatureThreshold", h, threshold == 1 ? "temperature.slowdown" : "temperature.shutdown", &v);
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetPowerManagementLimitConstraints(Handle *h, unsigned *least, unsigned *most) {
    long long v = 0;
    int code = value("nvmlDeviceGetPowerManagementLimitConstraints", h, "power.max", &v);
    if (!code) *least = (unsigned)number(key_of(h, "power.min"), 0), *most = (unsigned)v;
    return code;
}

static Handle *listened[64];
static int events;
int nvmlEventSetCreate(void **set) { *set = listened; events = 0; return fault("nvmlEventSetCreate", NULL); }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(Handle *h, unsigned long long kinds, void *set) {
    int code = fault("nvmlDeviceRegisterEvents", h);
    (void)set;
    if (!code && kinds == 8) listened[h->device] = h;
    return code;
}
int nvmlEventSetWait_v2(void *set, struct { Handle *device; unsigned long long kind, data; unsigned gi, ci; } *out, unsigned wait) {
    int code = fault("nvmlEventSetWait_v2", NULL);
    (void)set;
    while (!code && events < 64) { /* each device tells its Xid once */
        Handle *h = listened[events++];
        if (!h || !find(key_of(h, "xid"))) continue;
        out->device = h, out->kind = 8, out->data = (unsigned long long)number(key_of(h, "xid"), 0);
        return SUCCESS;
    }
    usleep(1000 * (wait < 50 ? wait : 50));
    return code ? code : 10; /* timeout */
}
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } ProcessInfo;
static int processes(const char *call, Handle *h, const char *name, unsigned *count, ProcessInfo *out) {
    long long found = 0;
    int code = fault(call, h);
    if (code) return code;
    found = number("random.answers", 0) ? draw() % (draw() % 50 ? 8 : 1000) : number(key_of(h, name), 0);
    unsigned room = *count;
    *count = (unsigned)found;
    if (room < *count || (!out && *count)) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) out[i] = (ProcessInfo){1000 + i, i ? ~0ULL : 1 << 20, ~0u, ~0u};
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *h, unsigned *count, ProcessInfo *out) {
    return processes("nvmlDeviceGetComputeRunningProcesses_v3", h, "processes", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *h, unsigned *count, ProcessInfo *out) {
    return processes("nvmlDeviceGetGraphicsRunningProcesses_v3", h, "processes.graphics", count, out);
}
int nvmlDeviceGetFieldValues(Handle *h, int count, struct {
    unsigned field, scope; long long at, took; unsigned type, code; union { double d; unsigned u; unsigned long long w; } value; } *out) {
    int code = fault("nvmlDeviceGetFieldValues", h);
    if (code) return code;
    for (int i = 0; i < count; i++) {
        long long v = 0;
        const char *name = out[i].field == 29 ? "retired.single" : out[i].field == 30 ? "retired.double" : "retired.pending";
        out[i].code = (unsigned)value("field", h, out[i].field == 230 ? "recovery" : name, &v);
        out[i].type = 1;
        out[i].value.u = (unsigned)v;
    }
    return SUCCESS;
}
