/* A libamd_smi.so that answers from the table: "count" sockets, "0.parts" processors of the first,
 * "0.uuid", "0.0.uuid" of its parts, "0.bdf". A name of a call is the error that it answers. */
#include "mocked_table.h"

enum { INVALID = 1, NOT_SUPPORTED = 2, NOT_FOUND = 31 };
static const int ERRORS[] = {1, 2, 7, 8, 10, 13, 30, 31, 34, 40, 51, 12345};
typedef struct { int socket, part; } Handle;
void mocked_forget(void) { table_forget(); }
static Handle handles[64][65];

static const char *key_of(const Handle *h, const char *name) {
    static char key[80];
    snprintf(key, sizeof key, "%d.%s", h->socket, name);
    return key;
}
static unsigned fault(const char *call) { return number("random.percent", 0) > (long long)(draw() % 100) ? ERRORS[draw() % (sizeof ERRORS / sizeof *ERRORS)] : (unsigned)number(call, 0); }
static unsigned value(const char *call, const Handle *h, const char *name, unsigned long long *out) {
    unsigned code = fault(call);
    if (code) return code;
    if (!number("random.answers", 0) && !find(key_of(h, name))) return NOT_SUPPORTED;
    *out = number("random.answers", 0) ? (unsigned long long)draw() << 31 : (unsigned long long)number(key_of(h, name), 0);
    return 0;
}
static unsigned list(const char *call, int first, unsigned found, unsigned *count, Handle **out) {
    unsigned code = fault(call);
    if (code) return code;
    if (number("random.answers", 0)) found = draw();
    for (unsigned i = 0; out && i < *count && i < found && i < 64; i++) {
        Handle *h = first < 0 ? &handles[i][0] : &handles[first][i + 1];
        h->socket = first < 0 ? (int)i : first, h->part = first < 0 ? -1 : (int)i;
        out[i] = h;
    }
    *count = found;
    return 0;
}

unsigned amdsmi_init(unsigned long long flags) { load(); return flags == 2 ? fault("amdsmi_init") : INVALID; }
unsigned amdsmi_shut_down(void) { return 0; }
unsigned amdsmi_get_socket_handles(unsigned *count, Handle **out) {
    return list("amdsmi_get_socket_handles", -1, (unsigned)number("count", 0), count, out);
}
unsigned amdsmi_get_processor_handles(Handle *h, unsigned *count, Handle **out) {
    return list("amdsmi_get_processor_handles", h->socket, (unsigned)number(key_of(h, "parts"), 1), count, out);
}
unsigned amdsmi_get_gpu_device_bdf(Handle *h, unsigned long long *out) {
    unsigned code = value("amdsmi_get_gpu_device_bdf", h, "bdf", out);
    if (!code) *out |= (unsigned long long)(h->part & 7); /* partitions differ in the function */
    return code;
}
unsigned amdsmi_get_gpu_device_uuid(Handle *h, unsigned *length, char *out) {
    char name[24];
    unsigned code = fault("amdsmi_get_gpu_device_uuid");
    snprintf(name, sizeof name, "%d.uuid", h->part);
    return code ? code : table_text(key_of(h, name), out, *length) < 0 ? NOT_FOUND : 0;
}
unsigned amdsmi_get_gpu_memory_usage(Handle *h, unsigned kind, unsigned long long *out) {
    return kind ? INVALID : value("amdsmi_get_gpu_memory_usage", h, "memory.used", out);
}
unsigned amdsmi_get_gpu_total_ecc_count(Handle *h, unsigned long long *out) {
    unsigned code = value("amdsmi_get_gpu_total_ecc_count", h, "ecc.corrected", out);
    return code ? code : value("amdsmi_get_gpu_total_ecc_count", h, "ecc.uncorrected", out + 1);
}
static unsigned partition(const char *call, const Handle *h, const char *name, char *out, unsigned room) {
    unsigned code = fault(call);
    return code ? code : table_text(key_of(h, name), out, room) < 0 ? NOT_SUPPORTED : 0;
}
unsigned amdsmi_get_gpu_compute_partition(Handle *h, char *out, unsigned room) {
    return partition("amdsmi_get_gpu_compute_partition", h, "compute", out, room);
}
unsigned amdsmi_get_gpu_memory_partition(Handle *h, char *out, unsigned room) {
    return partition("amdsmi_get_gpu_memory_partition", h, "memory.mode", out, room);
}
