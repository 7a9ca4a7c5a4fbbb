package volume

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// TestFindVolume: a volume that its last host doesn't have is the one of that name on another host if a VM uses that
// which used the volume, or is of the configuration; unless another resource has that one, or the first host lacks the
// pool and still has the file. Otherwise an error names both hosts. What a host has that can't be identified, or whose
// key led to another host, isn't taken for it. An import that can't ask all hosts is refused. One that names a host
// takes the one of that host, and no other.
func TestFindVolume(t *testing.T) {
	t.Parallel()
	const (
		pool   = `<pool type="dir"><name>vms</name><target><path>/vms</path></target>`
		volume = `<volume><name>data</name><capacity>1048576</capacity><target><path>/vms/data</path></target></volume>`
		vm     = "c0ffee00-0000-4000-8000-000000000001"
		user   = `<domain type="test"><name>web</name><uuid>` + vm + `</uuid><memory>16384</memory>` +
			`<os><type>hvm</type></os><devices><disk type="file"><source file="/vms/data"/>` +
			`<target dev="vda" bus="virtio"/></disk></devices></domain>`
		refused = `Host "kvm2" has a volume of this name at /vms/data`
	)
	for name, test := range map[string]struct {
		first, last string
		from        string // the host that an import names
		file        bool   // kvm1 has the volume's file
		fenced      bool   // kvm1 is
		taken       bool   // by another resource
		user        string // the VM on kvm2
		used        bool   // by that VM, when the volume was on kvm1
		ours        bool   // that VM is of the configuration
		located     error  // of kvm1
		want, says  string
	}{
		"moved":                     {first: pool + "</pool>", last: "kvm1", user: user, used: true, want: "kvm2"},
		"moved with our VM":         {first: pool + "</pool>", last: "kvm1", user: user, ours: true, want: "kvm2"},
		"another VM uses that":      {first: pool + "</pool>", last: "kvm1", user: user, says: refused},
		"no VM uses that":           {first: pool + "</pool>", last: "kvm1", used: true, says: refused},
		"another resource has that": {first: pool + "</pool>", last: "kvm1", taken: true},
		"no pool, nor the file":     {last: "kvm1", user: user, used: true, want: "kvm2"},
		"no pool, and another one":  {last: "kvm1", user: user, says: refused},
		"no pool, but the file":     {last: "kvm1", file: true, says: "pool \"vms\", but it has /vms/data"},
		"moved from a fenced host":  {last: "kvm1", fenced: true, user: user, used: true, want: "kvm2"},
		"fenced, and another one":   {last: "kvm1", fenced: true, user: user, says: `is fenced. ` + refused},
		"another host has its key": {
			first: pool + volume + "</pool>", last: "kvm1", located: hostset.ErrOtherHost, says: "state rm",
		},
		"its host can't be identified": {
			first: pool + volume + "</pool>", last: "kvm1", located: libvirt.ErrUnreachable,
			says: "unknown whether the volume exists",
		},
		"imported":                           {first: pool + "</pool>", want: "kvm2"},
		"imported without the first pool":    {want: "kvm2"},
		"imported while one is silent":       {first: "silent", says: `import id: "kvm2/vms/data"`},
		"imported, and both have it":         {first: pool + volume + "</pool>", says: `"kvm1/vms/data" or "kvm2/vms/data"`},
		"imported from a host":               {first: pool + volume + "</pool>", from: "kvm2", want: "kvm2"},
		"imported from the one that answers": {first: "silent", from: "kvm2", want: "kvm2"},
		"imported from the silent one":       {first: "silent", from: "kvm1", says: "absent"},
		"imported from one without it":       {first: pool + "</pool>", from: "kvm1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := fleet.HostConfig{URI: fleettest.BuiltInURI(t, test.first), Fenced: test.fenced}
			if test.first == "silent" {
				first.URI = "qemu+unix:///system?socket=" + t.TempDir() + "/absent"
			}
			first.SameFile = func(_ context.Context, path string, _ ...string) (same []string, err error) {
				if test.file {
					same = []string{path}
				}
				return same, nil
			}
			f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
				"kvm1": first, "kvm2": {URI: fleettest.BuiltInURI(t, pool+volume+"</pool>", test.user)},
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			r := &volumeResource{meta.Resource{
				TypeName: TypeName, Data: &meta.Data{Fleet: f, OnUnreachable: meta.OnUnreachableKeep},
			}}
			state := &model{Name: types.StringValue("data"), Pool: types.StringValue("vms")}
			if test.last != "" {
				state.CurrentHost, state.Path = types.StringValue(test.last), types.StringValue("/vms/data")
				r.Data.Volumes.Saved(meta.SavedVolume{Pool: "vms", Name: "data", Host: test.last})
			}
			if test.from != "" {
				state.CurrentHost = types.StringValue(test.from)
			}
			if test.taken {
				r.Data.Volumes.Saved(meta.SavedVolume{Pool: "vms", Name: "data", Host: "kvm2"})
			}
			if test.ours {
				r.Data.Managed.Saved(vm, meta.SavedVM{SavedName: "web", Host: "kvm1"})
			}
			var last lastPlace
			if test.used {
				last.users = []string{vm}
			}
			found, diags := r.findVolume(t.Context(), r.Data.Storage(), state, last, test.located)
			host, said := "", ""
			if found != nil {
				host = found.Host
			}
			for _, d := range diags {
				said += d.Summary() + " " + d.Detail()
			}
			if host != test.want || said == "" != (test.says == "") || !strings.Contains(said, test.says) {
				t.Errorf("found on %q, want %q; diagnostics: %q", host, test.want, said)
			}
		})
	}
}
