package libvirt

// The binding's GetAllDomainStats makes an extra call for every domain's virtual CPUs, so the statistics are read
// through libvirt's C functions. They are looked up at run time. The binding does the same if it is built to load
// libvirt at run time; otherwise the library is loaded already. The declarations here are part of libvirt's stable ABI.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
# define LIBVIRT "libvirt.0.dylib"
#else
# define LIBVIRT "libvirt.so.0"
#endif

typedef struct {
	char name[80];
	int type;
	union { int i; unsigned int ui; long long l; unsigned long long ul; double d; char b; char *s; } value;
} param;

typedef struct { void *dom; param *params; int nparams; } record;

// The leading members of virError.
typedef struct { int code; int domain; char *message; } failure;

static int (*connect_stats)(void *, unsigned int, record ***, unsigned int);
static int (*list_stats)(void **, unsigned int, record ***, unsigned int);
static void (*free_records)(record **);
static int (*domain_uuid)(void *, char *);
static const char *(*domain_name)(void *);
static failure *(*last_error)(void);

static int load(void) {
	void *lib = dlopen(LIBVIRT, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return 0;
	*(void **)&connect_stats = dlsym(lib, "virConnectGetAllDomainStats");
	*(void **)&list_stats = dlsym(lib, "virDomainListGetStats");
	*(void **)&free_records = dlsym(lib, "virDomainStatsRecordListFree");
	*(void **)&domain_uuid = dlsym(lib, "virDomainGetUUIDString");
	*(void **)&domain_name = dlsym(lib, "virDomainGetName");
	*(void **)&last_error = dlsym(lib, "virGetLastError");
	return connect_stats && list_stats && free_records && domain_uuid && domain_name && last_error;
}

// libvirt keeps the last error per thread, so the error is fetched in the same call from Go.
static int checked(int n, failure *why) {
	failure *last = n < 0 ? last_error() : NULL;
	if (last) {
		why->code = last->code;
		why->domain = last->domain;
		why->message = last->message ? strdup(last->message) : NULL;
	}
	return n;
}

static int stats_of_all(void *conn, unsigned int groups, record ***records, unsigned int flags, failure *why) {
	return checked(connect_stats(conn, groups, records, flags), why);
}

static int stats_of_list(void **doms, unsigned int groups, record ***records, unsigned int flags, failure *why) {
	return checked(list_stats(doms, groups, records, flags), why);
}

static void release(record **records) { free_records(records); }
static int uuid_of(void *dom, char *buffer) { return domain_uuid(dom, buffer); }
static const char *name_of(void *dom) { return domain_name(dom); }

// In Go a union is only an array of bytes.
static long long int_of(param *p) { return p->type == 1 ? p->value.i : p->value.l; }
static unsigned long long uint_of(param *p) { return p->type == 2 ? p->value.ui : p->value.ul; }
static double double_of(param *p) { return p->value.d; }
static int bool_of(param *p) { return p->value.b; }
static char *string_of(param *p) { return p->value.s; }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	golibvirt "libvirt.org/go/libvirt"
)

// loadStats finds libvirt's functions, once.
var loadStats = sync.OnceValue(func() error {
	if C.load() == 0 {
		return fmt.Errorf("%w: this libvirt has no statistics in bulk", ErrUnsupported)
	}
	return nil
})

// statsRecords is an answer of libvirt in libvirt's memory, until release is called.
type statsRecords struct {
	list **C.record
	n    int
}

// all returns the records, which are valid until release.
func (r statsRecords) all() []*C.record { return unsafe.Slice(r.list, r.n) }

func (r statsRecords) release() {
	if r.list != nil {
		C.release(r.list)
	}
}

// statsOfAll calls virConnectGetAllDomainStats.
func (c *conn) statsOfAll(groups StatsGroups, flags golibvirt.ConnectGetAllDomainStatsFlags) (statsRecords, error) {
	var r statsRecords
	if err := loadStats(); err != nil {
		return r, err
	}
	raw, err := c.c.RawPtr()
	if err != nil {
		return r, err
	}
	defer func() { _, _ = golibvirt.CloseRawPtr(raw) }()
	var why C.failure
	c.countCall("virConnectGetAllDomainStats")
	//nolint:gocritic // It complains about what cgo makes of this line.
	n := C.stats_of_all(unsafe.Pointer(raw), C.uint(groups), &r.list, C.uint(flags), &why)
	if n < 0 {
		return statsRecords{}, asError(&why)
	}
	r.n = int(n)
	return r, nil
}

// statsOf reads the statistics (virDomainListGetStats) of the domains of the given records.
func (c *conn) statsOf(
	domains []*C.record, groups StatsGroups, flags golibvirt.ConnectGetAllDomainStatsFlags,
) (statsRecords, error) {
	var r statsRecords
	list := make([]unsafe.Pointer, 0, len(domains)+1)
	for _, d := range domains {
		list = append(list, d.dom)
	}
	list = append(list, nil)
	var why C.failure
	c.countCall("virDomainListGetStats")
	//nolint:gocritic // It complains about what cgo makes of this line.
	n := C.stats_of_list(&list[0], C.uint(groups), &r.list, C.uint(flags), &why)
	if n < 0 {
		return statsRecords{}, asError(&why)
	}
	r.n = int(n)
	return r, nil
}

// asError returns a failure as the binding's error type, which the callers check.
func asError(f *C.failure) error {
	defer C.free(unsafe.Pointer(f.message))
	return golibvirt.Error{
		Code: golibvirt.ErrorNumber(f.code), Domain: golibvirt.ErrorDomain(f.domain), Message: C.GoString(f.message),
	}
}

// translateRecord copies a record out of libvirt's memory.
func translateRecord(r *C.record) DomainStats {
	var uuid [37]C.char
	stats := DomainStats{Name: C.GoString(C.name_of(r.dom)), Params: make(StatsParams, int(r.nparams))}
	if C.uuid_of(r.dom, &uuid[0]) == 0 {
		stats.UUID = C.GoString(&uuid[0])
	}
	params := unsafe.Slice(r.params, int(r.nparams))
	for i := range params {
		stats.Params[C.GoString(&params[i].name[0])] = translateParam(&params[i])
	}
	return stats
}

// translateParam returns the value as an int64, uint64, float64, bool or string.
func translateParam(p *C.param) any {
	switch p._type {
	case 1, 3: // VIR_TYPED_PARAM_INT, _LLONG
		return int64(C.int_of(p))
	case 2, 4: // VIR_TYPED_PARAM_UINT, _ULLONG
		return uint64(C.uint_of(p))
	case 5: // VIR_TYPED_PARAM_DOUBLE
		return float64(C.double_of(p))
	case 6: // VIR_TYPED_PARAM_BOOLEAN
		return C.bool_of(p) != 0
	case 7: // VIR_TYPED_PARAM_STRING
		return C.GoString(C.string_of(p))
	}
	return nil
}
