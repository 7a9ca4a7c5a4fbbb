package storage

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fieldtest"
)

// Each field of a pool counts: a change of it is a difference, and so is a change by hand. It is written, and read
// back.
func TestPool_everyField(t *testing.T) {
	t.Parallel()
	full := func() Pool {
		return Pool{
			Name: "vms", Type: "netfs", Path: new("/srv"), Mode: new("0711"), Owner: new("1"), Group: new("2"),
			Label: new("l"), SourceName: new("n"), SourceDir: new("/d"), SourceFormat: new("nfs"), Initiator: new("iqn.a"),
			ProtocolVersion: new("4"), Devices: []string{"/dev/a", "/dev/b"},
			SourceHosts: []SourceHost{{"a", new(int64(1))}, {"b", new(int64(2))}},
			Adapter:     &Adapter{new("scsi_host"), new("host1"), new("p"), new("n"), new("w")},
			Auth:        &Auth{"ceph", "libvirt", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"},
		}
	}
	for path, other := range fieldtest.Variants(t, full()) {
		if other.IsIn(full()) && full().IsIn(other) {
			t.Errorf("%s: the pools are the same", path)
		}
		document, err := other.Document("")
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadPool(document)
		if err != nil {
			t.Fatal(err)
		}
		if !other.IsIn(*read) || !read.IsIn(other) {
			t.Errorf("%s: written was %+v, read is %+v", path, other, *read)
		}
	}
}
