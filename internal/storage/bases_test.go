package storage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestUnused: a plan doesn't read files of disks that no pool lists, so it can't know what they are based on. A raw
// disk is based on nothing.
func TestUnused(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	createVolume(t, h, "vms", "listed", "")
	s := storageOf(h)
	data := libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"}
	defineVM(t, h, "listed", "file", `file="/vms/listed"`)
	if _, err := h.DefineDomain(t.Context(), `<domain type="test"><name>raw</name><memory>1024</memory><os><type>hvm`+
		`</type></os><devices><disk type="file"><driver name="qemu" type="raw"/><source file="/raw/disk"/>`+
		`<target dev="vdb"/></disk></devices></domain>`); err != nil {
		t.Fatal(err)
	}
	if !s.Unused(t.Context(), s.Hosts, data) {
		t.Error("nothing uses it")
	}
	defineVM(t, h, "outside", "file", `file="/home/disk.qcow2"`)
	if users, err := s.KnownUsers(t.Context(), s.Hosts, data); err != nil || len(users) > 0 {
		t.Errorf("known are %v, %v", users, err)
	}
	if s.Unused(t.Context(), s.Hosts, data) {
		t.Error("a file that isn't read may be based on it")
	}
}

// TestUsers_inactivePool: what a disk in an inactive pool is based on is unknown, unless the VM's metadata says it.
func TestUsers_inactivePool(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	for _, pool := range []string{"images", "vms"} {
		startPool(t, h, pool, dirPool)
	}
	s := storageOf(h)
	base := libvirt.Volume{Pool: "images", Name: "base", Path: "/images/base"}
	other := libvirt.Volume{Pool: "images", Name: "other", Path: "/images/other"}
	if _, err := h.DefineDomain(t.Context(), `<domain type="test"><name>own</name>`+
		`<uuid>6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b</uuid><memory>1024</memory><os><type>hvm`+
		`</type></os><metadata><v:vm xmlns:v="urn:virtfleet:1" version="1" `+
		`uuid="6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b"><v:own-disks><v:disk `+
		`key="root" pool="vms" volume="own" path="/vms/own" image="images/base"/></v:own-disks></v:vm></metadata><devices>`+
		`<disk type="file"><source file="/vms/own"/><target dev="vdb"/></disk></devices></domain>`); err != nil {
		t.Fatal(err)
	}
	if err := h.StopStoragePool(t.Context(), "vms"); err != nil {
		t.Fatal(err)
	}
	if users, err := s.Users(t.Context(), s.Hosts, base); err != nil || len(users) != 1 || users[0].VM != "own" {
		t.Errorf("what an own disk is based on is used by %v, %v", users, err)
	}
	if users, err := s.Users(t.Context(), s.Hosts, other); err != nil || len(users) > 0 {
		t.Errorf("another volume is used by %v, %v", users, err)
	}
	defineVM(t, h, "by-hand", "volume", `pool="vms" volume="disk"`)
	if users, err := s.Users(t.Context(), s.Hosts, other); !errors.Is(err, libvirt.ErrBusy) || len(users) > 0 ||
		!strings.Contains(err.Error(), "virsh pool-start vms") {
		t.Errorf("what may be a base is used by %v, %v", users, err)
	}
}

// TestUsers_otherDirectory: a host that has a shared pool in another directory uses the volume under that path.
func TestUsers_otherDirectory(t *testing.T) {
	t.Parallel()
	one, other := openHost(t, "one"), openHost(t, "other")
	startPool(t, one, "vms", netfsPool)
	startPool(t, other, "vms", strings.Replace(netfsPool, "<path>/NAME", "<path>/mnt/NAME", 1))
	createVolume(t, one, "vms", "data", "")
	defineVM(t, other, "web", "file", `file="/mnt/vms//data"`)
	defineVM(t, other, "next", "file", `file="/mnt/vms/data2"`)
	s := storageOf(one, other)
	users, err := s.Users(t.Context(), s.Hosts, libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"})
	if err != nil || len(users) != 1 || users[0].VM != "web" || users[0].Host != "other" || users[0].Target != "vdb" {
		t.Errorf("used by %v, %v", users, err)
	}
}
