package placement

import (
	"reflect"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A volume that QEMU reaches over the network is no file, and one without encryption can't be opened with a secret. The
// error says what to declare.
func TestUnfitVolume(t *testing.T) {
	t.Parallel()

	encrypted := domain.Disk{Values: domain.Values{domain.EncryptionSecret: "5a1bb6ff-3f0b-4c5e-9d3a-000000000001"}}

	for why, test := range map[string]struct {
		volume libvirt.Volume
		disk   domain.Disk
	}{
		"": {libvirt.Volume{Type: "file", Format: "raw"}, domain.Disk{}},
		`network = { protocol = "gluster", name = "/root"`: {
			libvirt.Volume{Type: "network", PoolType: "gluster", Pool: "g", Name: "root", Path: "/root"}, domain.Disk{},
		},
		`network = { protocol = "iscsi"`: {libvirt.Volume{Type: "network", PoolType: "iscsi-direct"}, domain.Disk{}},
		"isn't encrypted":                {libvirt.Volume{Type: "file", Format: "raw"}, encrypted},
		`/b begins like a qcow2 image on top of /etc/shadow`: {
			libvirt.Volume{Type: "file", Path: "/b", Format: "qcow2", Backing: "/etc/shadow"}, domain.Disk{},
		},
		`format = "raw"`: {
			libvirt.Volume{Type: "file", Format: "qcow2", Backing: "/vms/web-root-0123abcd"}, domain.Disk{},
		},
	} {
		if got := UnfitVolume(&test.volume, test.disk); why == "" && got != "" || !strings.Contains(got, why) {
			t.Errorf("%q; want %q", got, why)
		}
	}

	if got := UnfitVolume(&libvirt.Volume{Type: "file", Format: "raw", Encrypted: true}, encrypted); got != "" {
		t.Error(got)
	}

	based := libvirt.Volume{Type: "file", Format: "qcow2", Backing: "/vms/debian-0123456789ab"}
	if got := UnfitVolume(&based, domain.Disk{}); got != "" {
		t.Error(got)
	}

	based.Backing, based.Path = "/vms/golden", "/vms/web.qcow2"
	if got := UnfitVolume(&based, domain.Disk{}); got != "" {
		t.Error(got)
	}

	based.Path = "/vms/web"
	if got := UnfitVolume(&based, domain.Disk{Format: "qcow2"}); got != "" {
		t.Error(got)
	}
}

// TestRBDImage: a disk on an RBD image has the servers and the secret of its pool, and isn't a snapshot. libvirt
// doesn't know that it is encrypted.
func TestRBDImage(t *testing.T) {
	t.Parallel()

	const secret = "5a1bb6ff-3f0b-4c5e-9d3a-000000000001"

	v := &libvirt.Volume{Type: "network", PoolType: "rbd", Pool: "ceph", Name: "root", Path: "vms/root", Format: "raw"}
	pool := &storage.Pool{
		SourceHosts: []storage.SourceHost{
			{Name: "ceph1", Port: new(int64(6789))}, {Name: "::1", Port: new(int64(300))}, {Name: "b"},
		},
		Auth: &storage.Auth{Type: "ceph", Username: "libvirt", Secret: secret},
	}

	image, why := rbdImage(v, pool)
	want := domain.NetworkSource{
		Protocol: "rbd", Name: "vms/root", Hosts: []string{"ceph1:6789", "[::1]:300", "b"},
		Auth: &domain.SourceAuth{Username: "libvirt", Secret: secret}, Values: domain.Values{"snapshot": ""},
	}

	if why != "" || !reflect.DeepEqual(*image, want) {
		t.Errorf("%+v, %s", image, why)
	}

	pool.Auth.Secret = ""
	if _, why = rbdImage(v, pool); !strings.Contains(why, `storage pool "ceph" names its secret by its usage`) {
		t.Error(why)
	}

	if why := UnfitVolume(v, domain.Disk{Values: domain.Values{domain.EncryptionSecret: secret}}); why != "" {
		t.Error(why)
	}
}

// TestDesired_freshFormat: only a volume that the same apply has created, and that nothing has written to since, is
// what libvirt finds in it.
func TestDesired_freshFormat(t *testing.T) {
	t.Parallel()

	d := Desired{Made: map[string][]string{"/p/new": {"1.5", "1.7"}, "/p/silent": {""}}}

	for name, c := range map[string]struct {
		volume libvirt.Volume
		want   string
	}{
		"just created":                   {libvirt.Volume{Path: "/p/new", Format: "qcow2", Changed: "1.5"}, "qcow2"},
		"just created on another host":   {libvirt.Volume{Path: "/p/new", Format: "raw", Changed: "1.7"}, "raw"},
		"written to since":               {libvirt.Volume{Path: "/p/new", Format: "qcow2", Changed: "1.6"}, ""},
		"created by another run":         {libvirt.Volume{Path: "/p/old", Format: "qcow2", Changed: "1.5"}, ""},
		"of a host that reports no time": {libvirt.Volume{Path: "/p/silent", Format: "qcow2"}, ""},
	} {
		if got := d.FreshFormat(&c.volume); got != c.want {
			t.Errorf("a volume %s has the format %q, want %q", name, got, c.want)
		}
	}
}
