package virtualmachine

import (
	"strings"
	"testing"

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
