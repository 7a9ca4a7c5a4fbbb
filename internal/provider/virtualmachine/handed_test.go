package virtualmachine

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// A disk that is described in another form and is the same file stays what it is: nothing about the VM changes, and a
// running one isn't restarted. What isn't the same, as far as it can be told, is another disk.
func TestHanded(t *testing.T) {
	t.Parallel()
	const at = "/srv/vms/web-root"
	file, path, id := in{"file": at}, in{"volume": at}, in{"volume": "vms/web-root"}
	own := in{"pool": "vms", "size": "20Gi"}
	for name, test := range map[string]struct {
		is, want in
		same     bool
		refused  string
	}{
		"file to path":          {file, path, true, ""},
		"file to id":            {file, id, true, ""},
		"file to own":           {file, own, true, ""},
		"path to file":          {path, file, true, ""},
		"path to id":            {path, id, true, ""},
		"path to own":           {path, own, true, ""},
		"id to file":            {id, file, true, ""},
		"id to path":            {id, path, true, ""},
		"id to own":             {id, own, true, ""},
		"own to file":           {own, file, true, ""},
		"own to path":           {own, path, true, ""},
		"own to id":             {own, id, true, ""},
		"file to another id":    {file, in{"volume": "vms/other"}, false, ""},
		"id to another id":      {id, in{"volume": "fast/web-root"}, false, ""},
		"own to another id":     {own, in{"volume": "fast/web-root"}, false, ""},
		"device to own":         {in{"block": "/dev/vg/web"}, own, false, "isn't a file"},
		"device to id":          {in{"block": "/dev/vg/web"}, in{"volume": "vg/web"}, false, ""},
		"empty drive to a pool": {in{"device": "cdrom"}, own, false, "isn't a file"},
	} {
		state := stateWith(t, test.is, at)
		config := modelOf(t, minimal.with(in{"disks": in{"root": test.want}}))
		p := planning{config: config, state: state, hosts: []string{"kvm1"}}
		o := p.plan()
		if got := config.spec(state).Disks["root"].Source.File; (got == at) != test.same {
			t.Errorf("%s: the disk would be %q", name, got)
		}
		if diags := diagText(p.validatePlanned(&o.planned)); !strings.Contains(diags, test.refused) ||
			test.refused == "" && strings.Contains(diags, "Error") {
			t.Errorf("%s: %q, want %q", name, diags, test.refused)
		}
		if said := diagText(o.diags); test.same && said != "" {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestHanded_rbd: an RBD image that is declared in the other form is the same disk. The VM keeps the servers that it
// has. A snapshot of the image is another disk.
func TestHanded_rbd(t *testing.T) {
	t.Parallel()
	const at = "rbd:vms/root@ceph1:6789,ceph2"
	network := in{"protocol": "rbd", "name": "vms/root", "hosts": []string{"ceph1:6789", "ceph2"}}
	for name, test := range map[string]struct {
		network in
		volume  string
		same    bool
	}{
		"the image":        {network, "ceph/root", true},
		"another image":    {network, "ceph/other", false},
		"a snapshot":       {network.with(in{"snapshot": "base"}), "ceph/root", false},
		"another protocol": {network.with(in{"protocol": "nbd"}), "ceph/root", false},
	} {
		state := stateWith(t, in{"network": test.network}, "")
		config := modelOf(t, minimal.with(in{"disks": in{"root": in{"volume": test.volume}}}))
		o := planning{config: config, state: state, hosts: []string{"kvm1"}}.plan()
		planned := open(elements(o.planned.Disks)["root"])
		want := types.StringUnknown()
		if test.same {
			want = types.StringValue(at)
		}
		if got := planned["path"]; !got.Equal(want) {
			t.Errorf("%s: the path is planned as %s", name, got)
		}
		had, wants := state.spec(nil).Disks["root"].Source, config.spec(state).Disks["root"].Source
		if domain.SameImage(had, wants) != test.same || test.same && wants.Network.Auth != nil {
			t.Errorf("%s: the disk would be %s", name, wants)
		}
		if got := config.toFleet(state).Handed["root"]; (got == at) != test.same {
			t.Errorf("%s: %q is handed over", name, got)
		}
	}
}

// TestDisk_rbdVolume: a disk is read as the declared volume while the VM has that image. Anything else is drift.
func TestDisk_rbdVolume(t *testing.T) {
	t.Parallel()
	const at = "rbd:vms/root@ceph1:6789"
	source := func(name, snapshot string) domain.DiskSource {
		return domain.DiskSource{Network: &domain.NetworkSource{
			Protocol: "rbd", Name: name, Hosts: []string{"ceph1:6789"}, Values: domain.Values{"snapshot": snapshot},
			Auth: &domain.SourceAuth{Username: "libvirt", Secret: "5a1bb6ff-3f0b-4c5e-9d3a-000000000001"},
		}}
	}
	for name, test := range map[string]struct {
		is   domain.DiskSource
		path string
		kept bool
	}{
		"the image":     {source("vms/root", ""), at, true},
		"created":       {source("vms/root", ""), unknownMark, true},
		"another image": {source("vms/other", ""), at, false},
		"a snapshot":    {source("vms/root", "base"), at, false},
		"a file":        {domain.DiskSource{File: "/vms/root"}, at, false},
	} {
		prior := modelOf(t, minimal.with(in{"disks": in{"root": in{"volume": "ceph/root", "path": test.path}}})).Disks
		read := disksFromDomain(map[string]domain.Disk{"root": {Source: test.is}}, domain.Metadata{}, prior, false)
		a := open(elements(read)["root"])
		if kept := text(a.string("volume")) == "ceph/root" && text(a.string("path")) == at; kept != test.kept {
			t.Errorf("%s: it is read as volume %s with the path %s", name, a["volume"], a["path"])
		}
		if shown := isSet(a.object("network")); shown != (!test.kept && test.is.Network != nil) {
			t.Errorf("%s: network is read as %s", name, a["network"])
		}
		if was := diskSource(a, types.Object{}); test.kept && !domain.SameImage(was, test.is) {
			t.Errorf("%s: the next plan has %s", name, was)
		}
	}
}

// stateWith is the state of a VM with one disk, which is declared like that and is that file, unless it is none.
func stateWith(t *testing.T, disk in, at string) *model {
	t.Helper()
	if disk["pool"] != nil {
		return ownState(t, disk)
	}
	config := minimal.with(in{"disks": in{"root": disk}})
	planned := planning{config: modelOf(t, config)}.plan().planned
	vm := vmAfterApply(t, config)
	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if d := spec.Disks["root"]; disk["volume"] != nil {
			d.Source = domain.DiskSource{File: at}
			spec.Disks["root"] = d
		}
	}
	return stateAfterCreate(observation{vm: vm}, &planned)
}

// TestHanded_ownRBD: an RBD image that becomes the VM's own disk, or isn't any more, is the same disk: nothing is
// deleted, also if the other form names other servers of it.
func TestHanded_ownRBD(t *testing.T) {
	t.Parallel()
	const at = "rbd:vms/root@ceph1:6789,ceph2"
	own, id := in{"pool": "ceph", "size": "20Gi"}, in{"volume": "ceph/root"}
	network := in{"network": in{"protocol": "rbd", "name": "vms/root", "hosts": []string{"ceph1:6789", "ceph2"}}}
	one := in{"network": in{"protocol": "rbd", "name": "vms/root", "hosts": []string{"ceph2"}}}
	for name, test := range map[string]struct{ is, want in }{
		"id to own": {id, own}, "network to own": {network, own}, "own to id": {own, id}, "own to network": {own, network},
		"own to one server": {own, one},
	} {
		state := stateWith(t, test.is, at)
		if test.is["network"] == nil {
			state.Disks = editDevices(state.Disks, diskType, func(_ string, a object) bool {
				a["path"] = types.StringValue(at)
				return true
			})
		}
		config := modelOf(t, minimal.with(in{"disks": in{"root": test.want}}))
		p := planning{config: config, state: state, hosts: []string{"kvm1"}}
		o := p.plan()
		if had, wants := state.spec(nil).Disks["root"].Source, config.spec(state).Disks["root"].Source; !domain.SameDisk(
			had, wants, true) {
			t.Errorf("%s: the disk would be %s", name, wants)
		}
		if diags := diagText(p.validatePlanned(&o.planned)); strings.Contains(diags, "Error") {
			t.Errorf("%s: %s", name, diags)
		}
		if removed := removedDisks(config.Disks, state.Disks); len(removed) > 0 {
			t.Errorf("%s: %s are deleted", name, removed)
		}
		if got := config.toFleet(state).Handed["root"]; (got == at) != (test.want["network"] == nil) {
			t.Errorf("%s: %q is handed over", name, got)
		}
	}
}
