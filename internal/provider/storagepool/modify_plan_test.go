package storagepool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestWarnOfUsers: the plan of a removal names the VMs that use the pool, also where libvirt has chosen its directory,
// which isn't declared.
func TestWarnOfUsers(t *testing.T) {
	t.Parallel()
	vm := `<domain type="test"><name>web</name><memory>1024</memory><os><type>hvm</type></os><devices>` +
		`<disk type="block"><source dev="/dev/vg/disk"/><target dev="vda"/></disk></devices></domain>`
	f, err := fleet.New(fleet.Config{Hosts: map[string]inventory.HostConfig{
		"kvm1": {URI: fleettest.BuiltInURI(t, `<pool type="logical"><name>vms</name><source><name>vg</name></source></pool>`,
			vm)},
		"kvm2": {URI: fleettest.BuiltInURI(t,
			`<pool type="logical"><name>vms</name><source><name>other</name></source></pool>`, vm)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &poolResource{meta.Resource{Data: &meta.Data{Fleet: f}}}
	state := &model{Name: types.StringValue("vms"), Type: types.StringValue("logical")}
	said := r.warnOfUsers(t.Context(), state, true, "", types.Set{}, nil)
	if len(said) != 1 || said[0].Summary() != "Storage pool is in use: vms" ||
		!strings.HasPrefix(said[0].Detail(), "On host kvm1") || !strings.Contains(said[0].Detail(), "web") ||
		!strings.HasSuffix(said[0].Detail(), onhosts.UsersGoFirst) {
		t.Errorf("%v", said)
	}
}

// TestPlanChanges: a pool that a user changed on one host leaves its volumes there, and only there. The plan names the
// first of them, whoever has them. A filesystem that is mounted elsewhere leaves none.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	volumes := ""
	for i := range 9 {
		volumes += fmt.Sprintf("<volume><name>disk-%d</name><capacity>1024</capacity></volume>", 8-i)
	}
	pool := func(group, path string) inventory.HostConfig {
		return inventory.HostConfig{URI: fleettest.BuiltInURI(t, `<pool type="logical"><name>vms</name><source><name>`+group+
			`</name></source><target><path>/dev/`+group+`</path></target></pool>`, `<pool type="dir"><name>files</name>`+
			`<target><path>`+path+`</path></target>`+volumes+`</pool>`, `<pool type="fs"><name>mounted</name><source><device `+
			`path="/dev/vdb"/></source><target><path>`+path+`</path></target>`+volumes+`</pool>`)}
	}
	f, err := fleet.New(fleet.Config{Hosts: map[string]inventory.HostConfig{
		"kvm1": pool("other", "/other/"), "kvm2": pool("vg", "/vms/"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &poolResource{meta.Resource{Data: &meta.Data{Fleet: f}}}
	group, path := "vg", "/vms"
	for _, planned := range []struct {
		storage.Pool
		left []string
	}{
		{storage.Pool{Name: "vms", Type: "logical", SourceName: &group}, nil},
		{storage.Pool{Name: "files", Type: "dir", Path: &path}, []string{
			"\n  - 9 volumes stay behind on host kvm1: disk-0, disk-1, disk-2, disk-3, disk-4 and 4 more",
		}},
		{storage.Pool{Name: "mounted", Type: "fs", Path: &path, Devices: []string{"/dev/vdb"}}, nil},
	} {
		left := r.planChanges(t.Context(), planned.Pool, &model{Name: types.StringValue(planned.Name)})
		if !slices.Equal(left, planned.left) {
			t.Errorf("pool %s: %q, want %q", planned.Name, left, planned.left)
		}
	}
	want := meta.PoolChange{OtherStorage: `source.name = "vg" instead of "other"`}
	if got := r.Data.Planned.PoolChange("kvm1", "vms"); got != want {
		t.Errorf("the volume group of kvm1: %+v, want %+v", got, want)
	}
	want = meta.PoolChange{From: "/other", To: "/vms"}
	if got := r.Data.Planned.PoolChange("kvm1", "files"); got != want {
		t.Errorf("the directory of kvm1: %+v, want %+v", got, want)
	}
	for _, name := range []string{"vms", "files"} {
		if got := r.Data.Planned.PoolChange("kvm2", name); got != (meta.PoolChange{}) {
			t.Errorf("pool %s of kvm2: %+v", name, got)
		}
	}
}

// TestMayRedefine: only what is declared, and isn't as the hosts have it, gives them another definition.
func TestMayRedefine(t *testing.T) {
	t.Parallel()
	target, _ := targetAttribute().GetType().(types.ObjectType)
	source, _ := sourceAttribute().GetType().(types.ObjectType)
	of := func(p storage.Pool) *model {
		p.Name, p.Type = "vms", "dir"
		m := &model{Target: types.ObjectNull(target.AttrTypes), Source: types.ObjectNull(source.AttrTypes)}
		if diags := m.setFromPool(t.Context(), p); diags.HasError() {
			t.Fatal(diags)
		}
		return m
	}
	path, other, mode, same := "/vms", "/other", "0711", "711"
	is := of(storage.Pool{Path: &path, Mode: &mode})
	unknown := of(storage.Pool{Path: &path})
	unknown.Target = types.ObjectUnknown(target.AttrTypes)
	for name, tt := range map[string]struct {
		plan *model
		want bool
	}{
		"the same":                 {of(storage.Pool{Path: &path, Mode: &mode}), false},
		"permissions not declared": {of(storage.Pool{Path: &path}), false},
		"another notation":         {of(storage.Pool{Path: &path, Mode: &same}), false},
		"another path":             {of(storage.Pool{Path: &other}), true},
		"another owner":            {of(storage.Pool{Path: &path, Owner: &mode}), true},
		"known after apply":        {unknown, true},
	} {
		if got := mayRedefine(t.Context(), tt.plan, is); got != tt.want {
			t.Errorf("%s: it may be redefined: %v", name, got)
		}
	}
}
