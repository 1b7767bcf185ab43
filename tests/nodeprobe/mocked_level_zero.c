/* A libze_loader.so.1 with Sysman that answers from the table: "count" devices of one driver, "0.name",
 * "0.bus", "0.memory.total". A name of a call is the error that it answers, "0.lost" a device that every call finds lost. */
#include "mocked_table.h"

enum { LOST = 0x70000001, INVALID = 0x78000004 };
static const unsigned ERRORS[] = {LOST, 0x70010000, 0x78000001, 0x78000003, INVALID, 0x7ffffffe, 7};
typedef struct { int device; } Handle;
void mocked_forget(void) { table_forget(); }
static Handle driver, devices[64];

static const char *key_of(const Handle *h, const char *name) {
    static char key[80];
    snprintf(key, sizeof key, "%d.%s", h->device, name);
    return key;
}
static unsigned fault(const char *call, const Handle *h) {
    if (number("random.percent", 0) > (long long)(draw() % 100)) return ERRORS[draw() % (sizeof ERRORS / sizeof *ERRORS)];
    if (h && h != &driver && number(key_of(h, "lost"), 0)) return LOST;
    return (unsigned)number(call, 0);
}
static unsigned long long of(const Handle *h, const char *name) {
    return number("random.answers", 0) ? (unsigned long long)draw() << 33 : (unsigned long long)number(key_of(h, name), 0);
}
static unsigned list(const char *call, Handle *parent, Handle *first, unsigned found, unsigned *count, Handle **out) {
    unsigned code = fault(call, parent);
    if (code) return code;
    if (number("random.answers", 0)) found = draw();
    for (unsigned i = 0; out && i < *count && i < found && i < 64; i++) {
        out[i] = first ? first : &devices[i];
        if (!first) devices[i].device = (int)i;
    }
    *count = found;
    return 0;
}

unsigned zesInit(unsigned flags) { load(); return flags ? INVALID : fault("zesInit", NULL); }
unsigned zesDriverGet(unsigned *count, Handle **out) { return list("zesDriverGet", NULL, &driver, 1, count, out); }
unsigned zesDeviceGet(Handle *h, unsigned *count, Handle **out) {
    return list("zesDeviceGet", h, NULL, (unsigned)number("count", 0), count, out);
}
typedef struct {
    int stype; void *next; unsigned type, vendor, device, flags, part, clock; unsigned long long most;
    unsigned contexts, priority, threads, width, units, subslices, slices; unsigned long long timer; unsigned valid, kernel;
    unsigned char uuid[16]; char name[256];
} Core;
unsigned zesDeviceGetProperties(Handle *h, struct {
    int stype; void *next; Core core; unsigned parts; char serial[64], board[64], brand[64], model[64], vendor[64], driver[64]; } *out) {
    unsigned code = fault("zesDeviceGetProperties", h);
    if (code) return code;
    if (out->stype != 1) return INVALID;
    memset(out->core.uuid, 0x20 + h->device, 16);
    table_text(key_of(h, "name"), out->core.name, 256);
    if (table_text(key_of(h, "serial"), out->serial, 64) < 0) strcpy(out->serial, "unknown");
    if (number("random.answers", 0)) memset(out->core.name, 'A' + h->device % 26, sizeof out->core.name);
    table_text("driver", out->driver, 64);
    return 0;
}
typedef struct { int generation, width; long long bandwidth; } Speed;
unsigned zesDevicePciGetProperties(Handle *h, struct {
    int stype; void *next; unsigned domain, bus, slot, function; Speed most; unsigned char counters[3]; } *out) {
    unsigned code = fault("zesDevicePciGetProperties", h);
    if (code) return code;
    if (out->stype != 2) return INVALID;
    out->bus = (unsigned)of(h, "bus");
    out->most = (Speed){(int)of(h, "pcie.max_generation"), (int)of(h, "pcie.max_width"), 0};
    return 0;
}
unsigned zesDevicePciGetState(Handle *h, struct { int stype; void *next; unsigned status, quality, stability; Speed speed; } *out) {
    unsigned code = fault("zesDevicePciGetState", h);
    if (code) return code;
    if (out->stype != 0x17) return INVALID;
    out->speed = (Speed){(int)of(h, "pcie.generation"), (int)of(h, "pcie.width"), 0};
    return 0;
}
unsigned zesDeviceGetState(Handle *h, struct { int stype; void *next; unsigned reset, repaired; } *out) {
    unsigned code = fault("zesDeviceGetState", h);
    if (code) return code;
    if (out->stype != 0x15) return INVALID;
    out->reset = (unsigned)of(h, "reset");
    return 0;
}
unsigned zesDeviceEnumMemoryModules(Handle *h, unsigned *count, Handle **out) {
    return list("zesDeviceEnumMemoryModules", h, h, (unsigned)number(key_of(h, "modules"), 1), count, out);
}
unsigned zesMemoryGetState(Handle *h, struct { int stype; void *next; unsigned health; unsigned long long free, size; } *out) {
    unsigned code = fault("zesMemoryGetState", h);
    if (code) return code;
    if (out->stype != 0x1e) return INVALID;
    out->size = of(h, "memory.total"), out->free = out->size - of(h, "memory.used");
    return 0;
}
