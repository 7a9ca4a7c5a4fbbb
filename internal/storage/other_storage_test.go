package storage_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestPool_otherStorage: of every type, another source is other storage, unless it may be another name or other servers
// of the same. What says nothing of the storage is no matter.
func TestPool_otherStorage(t *testing.T) {
	t.Parallel()
	hosts := func(names ...string) (all []storage.SourceHost) {
		for _, name := range names {
			all = append(all, storage.SourceHost{Name: name})
		}
		return all
	}
	for _, tt := range []struct {
		kind   string
		change func(*storage.Pool)
		want   string
	}{
		{"dir", func(p *storage.Pool) { p.Path, p.Mode = text("/srv/other"), text("0700") }, ""},
		{"dir", func(p *storage.Pool) { p.Type = "fs" }, `type = "fs" instead of "dir"`},
		{
			"fs", func(p *storage.Pool) { p.Devices = []string{"/dev/sdc1"} },
			`source.devices = ["/dev/sdc1"] instead of ["/dev/sdb1"]`,
		},
		{"fs", func(p *storage.Pool) { p.Devices = []string{"/dev/disk/by-id/wwn-0x5"} }, ""},
		{"fs", func(p *storage.Pool) { p.SourceFormat = text("xfs") }, ""},
		{"netfs", func(p *storage.Pool) { p.SourceDir = text("/other") }, `source.dir = "/other" instead of "/export"`},
		{"netfs", func(p *storage.Pool) { p.SourceDir = text("/export/") }, ""},
		{
			"netfs", func(p *storage.Pool) { p.SourceHosts = hosts("other.example.net") },
			`source.hosts = ["other.example.net"] instead of ["server.example.net"]`,
		},
		{"netfs", func(p *storage.Pool) { p.ProtocolVersion = text("4") }, ""},
		{"logical", func(p *storage.Pool) { p.SourceName = text("vg2") }, `source.name = "vg2" instead of "vg"`},
		{"logical", func(p *storage.Pool) { p.Devices = []string{"/dev/sdc", "/dev/sdd"} }, ""},
		{"logical", func(p *storage.Pool) { p.SourceName = nil }, ""},
		{
			"disk", func(p *storage.Pool) { p.Devices = []string{"/dev/sde"} },
			`source.devices = ["/dev/sde"] instead of ["/dev/sdd"]`,
		},
		{"disk", func(p *storage.Pool) { p.Path = text("/dev/disk/by-path") }, ""},
		{
			"iscsi", func(p *storage.Pool) { p.Devices = []string{"iqn.2026-01.net.example:other"} },
			`source.devices = ["iqn.2026-01.net.example:other"] instead of ["iqn.2026-01.net.example:vms"]`,
		},
		{"iscsi-direct", func(p *storage.Pool) { p.Initiator = text("iqn.2026-01.net.example:you") }, ""},
		{
			"iscsi-direct", func(p *storage.Pool) { p.SourceHosts = hosts("b") },
			`source.hosts = ["b"] instead of ["server.example.net"]`,
		},
		{"rbd", func(p *storage.Pool) { p.SourceName = text("other") }, `source.name = "other" instead of "vms"`},
		{"rbd", func(p *storage.Pool) { p.SourceHosts = hosts("b", "c") }, ""},
		{"rbd", func(p *storage.Pool) { p.SourceHosts = hosts("c") }, `source.hosts = ["c"] instead of ["a" "b"]`},
		{"rbd", func(p *storage.Pool) { p.Auth.Username = "you" }, ""},
		{"gluster", func(p *storage.Pool) { p.SourceDir = text("/sub") }, `source.dir = "/sub" instead of "/"`},
		{"zfs", func(p *storage.Pool) { p.SourceName = text("tank/vms") }, `source.name = "tank/vms" instead of "tank"`},
		{
			"scsi", func(p *storage.Pool) { p.Adapter = &storage.Adapter{Name: text("scsi_host1")} },
			"another source.adapter",
		},
		{"mpath", func(p *storage.Pool) { p.Path = text("/dev") }, ""},
	} {
		was, is := samples()[tt.kind], samples()[tt.kind]
		was.Name, was.Type, is.Name, is.Type = "vms", tt.kind, "vms", tt.kind
		tt.change(&is)
		if got := is.OtherStorage(was); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.kind, got, tt.want)
		}
	}
	named := storage.Pool{Name: "vg", Type: "logical", SourceName: text("other")}
	got := named.OtherStorage(storage.Pool{Name: "vg", Type: "logical"})
	if got != `source.name = "other" instead of "vg"` {
		t.Errorf("a volume group that is called as its pool: %q", got)
	}
}
