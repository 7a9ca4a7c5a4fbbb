package placement

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// rbdPool is a storage pool in Ceph, with that secret in its login.
func rbdPool(secret string) *libvirt.StoragePool {
	return &libvirt.StoragePool{
		Name: "ceph", XML: "<pool type='rbd'><name>ceph</name><source><name>vms</name>" +
			"<host name='ceph1' port='6789'/><auth type='ceph' username='libvirt'><secret " + secret +
			"/></auth></source></pool>",
	}
}

// TestUnfitPool_rbd: a disk can be an RBD image, what a guest reads at its first boot can't. QEMU's login needs the
// UUID of a secret.
func TestUnfitPool_rbd(t *testing.T) {
	t.Parallel()

	_, h := testScheduler(t)

	const uuid = "uuid='5a1bb6ff-3f0b-4c5e-9d3a-000000000001'"

	for name, c := range map[string]struct {
		key, secret, want string
	}{
		"disk":       {"root", uuid, ""},
		"cloud-init": {domain.MediumKey, uuid, "Set cloud_init.pool to a pool of type dir, fs or netfs"},
		"ignition":   {domain.IgnitionKey, uuid, "Set ignition.pool to a pool of type dir, fs or netfs"},
		"usage":      {"root", "usage='client.libvirt'", "set source.auth.secret of the pool"},
	} {
		why := UnfitPool(t.Context(), h, rbdPool(c.secret), c.key)
		if !strings.Contains(why, c.want) || c.want == "" && why != "" {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

// TestUnfitOwnDisk: an RBD image is raw, no overlay, and not encrypted by libvirt.
func TestUnfitOwnDisk(t *testing.T) {
	t.Parallel()

	copied := domain.OwnDisk{Image: "images/debian", Clone: domain.CloneFull}

	for name, c := range map[string]struct {
		own  domain.OwnDisk
		disk domain.Disk
		want string
	}{
		"empty":       {domain.OwnDisk{Bytes: 1 << 30}, domain.Disk{}, ""},
		"copy":        {copied, domain.Disk{Format: "raw"}, ""},
		"thick":       {domain.OwnDisk{Bytes: 1 << 30, Preallocation: "full"}, domain.Disk{}, ""},
		"by default":  {domain.OwnDisk{Image: "images/debian"}, domain.Disk{}, "clone"},
		"overlay":     {domain.OwnDisk{Image: "images/debian", Clone: domain.CloneOverlay}, domain.Disk{}, "clone"},
		"qcow2":       {copied, domain.Disk{Format: "qcow2"}, "format"},
		"with tables": {domain.OwnDisk{Bytes: 1 << 30, Preallocation: "metadata"}, domain.Disk{}, "preallocation"},
		"encrypted":   {copied, domain.Disk{Values: domain.Values{domain.EncryptionSecret: "s"}}, "encryption"},
	} {
		if attribute, why := unfitOwnDisk(rbdPool(""), c.own, c.disk); attribute != c.want || (why == "") != (c.want == "") {
			t.Errorf("%s: %q of %q, want %q", name, why, attribute, c.want)
		}
	}

	dir := &libvirt.StoragePool{
		Name: "vms", XML: "<pool type='dir'><name>vms</name><target><path>/srv</path></target></pool>",
	}
	if _, why := unfitOwnDisk(dir, domain.OwnDisk{Image: "images/debian"}, domain.Disk{}); why != "" {
		t.Errorf("an overlay in a directory: %q", why)
	}
}

// TestNumberedName: no new RBD image has the name of another one, also if its pool doesn't list that. Files count.
func TestNumberedName(t *testing.T) {
	t.Parallel()

	const base = "web-data-1234abcd"

	for n, want := range map[int]string{1: base, 2: base + "-2"} {
		if got := NumberedName("netfs", base, n); got != want {
			t.Errorf("file %d is %q, want %q", n, got, want)
		}
	}

	first, second := NumberedName("rbd", base, 1), NumberedName("rbd", base, 1)
	if first == second || first == base || !strings.HasPrefix(first, base+"-") {
		t.Errorf("the images of two records are %q and %q", first, second)
	}
}

// TestWarnUnusedVolumes_rbd: an image that was kept is found by what its name begins with.
func TestWarnUnusedVolumes_rbd(t *testing.T) {
	t.Parallel()

	_, h := testScheduler(t)
	vm := &inventory.VM{On: h, Host: "h", PersistentSpec: &domain.Spec{}}
	vm.UUID, vm.Name = "1234abcd-3f0b-4c5e-9d3a-000000000001", "web"
	d := Desired{Spec: domain.Spec{Name: "web"}, OwnDisks: map[string]domain.OwnDisk{"data": {Pool: "ceph"}}}

	startRBDPool(t, h)

	kept := NumberedName("rbd", VolumeName(d.Spec, "data", vm.UUID), 1)
	for _, name := range []string{kept, "web-data-1234abce-00000000", "web-data-1234abcd-000000001"} {
		document := "<volume><name>" + name + "</name><capacity>1</capacity></volume>"
		image := libvirt.NewVolume{Pool: "ceph", Name: name, Document: document}
		if err := h.Conn.CreateVolume(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}

	warnings := d.warnUnusedVolumes(t.Context(), vm)
	if len(warnings) != 1 || !strings.Contains(warnings[0].Remedy, "ceph/"+kept) {
		t.Errorf("kept is %s, and the warnings are %+v", kept, warnings)
	}
}

// startRBDPool gives a host of libvirt's test driver an rbdPool.
func startRBDPool(t *testing.T, h *inventory.Host) {
	t.Helper()

	document := rbdPool("uuid='5a1bb6ff-3f0b-4c5e-9d3a-000000000001'").XML
	if err := h.Conn.DefineStoragePool(t.Context(), "ceph", document); err != nil {
		t.Fatal(err)
	}

	if err := h.Conn.StartStoragePool(t.Context(), "ceph"); err != nil {
		t.Fatal(err)
	}
}

// TestOtherCluster: an image that the VM has lost is where its record says.
func TestOtherCluster(t *testing.T) {
	t.Parallel()

	_, h := testScheduler(t)
	startRBDPool(t, h)

	for seen, want := range map[string]bool{
		"": false, "rbd:vms/a@ceph1:6789,ceph2:6789": false, "rbd:vms/a@other:6789": true,
	} {
		o := domain.OwnDisk{Pool: "ceph", Volume: "a", Path: "vms/a", SeenIn: seen}.On("there")
		if got := OtherCluster(t.Context(), h, nil, o); (got != "") != want {
			t.Errorf("%q: %q", seen, got)
		}
	}
}
