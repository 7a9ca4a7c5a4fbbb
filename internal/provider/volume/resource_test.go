package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestUnknownProvider: while the provider's configuration isn't known, no operation asks a host. Each says so.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := &volumeResource{meta.Resource{TypeName: TypeName, Data: &meta.Data{Unknown: true}}}
	var is resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &is)
	object, ok := is.Schema.Type().TerraformType(ctx).(tftypes.Object)
	if !ok {
		t.Fatal("the schema isn't an object")
	}
	attributes := map[string]tftypes.Value{}
	for name, typ := range object.AttributeTypes {
		attributes[name] = tftypes.NewValue(typ, nil)
	}
	raw := tftypes.NewValue(object, attributes)
	plan, state := tfsdk.Plan{Raw: raw, Schema: is.Schema}, tfsdk.State{Raw: raw, Schema: is.Schema}
	for verb, operate := range map[string]func() diag.Diagnostics{
		"create": func() diag.Diagnostics {
			var resp resource.CreateResponse
			r.Create(ctx, resource.CreateRequest{Plan: plan}, &resp)
			return resp.Diagnostics
		},
		"read": func() diag.Diagnostics {
			var resp resource.ReadResponse
			r.Read(ctx, resource.ReadRequest{State: state}, &resp)
			return resp.Diagnostics
		},
		"update": func() diag.Diagnostics {
			var resp resource.UpdateResponse
			r.Update(ctx, resource.UpdateRequest{Plan: plan, State: state}, &resp)
			return resp.Diagnostics
		},
		"delete": func() diag.Diagnostics {
			var resp resource.DeleteResponse
			r.Delete(ctx, resource.DeleteRequest{State: state}, &resp)
			return resp.Diagnostics
		},
		"import": func() diag.Diagnostics {
			var resp resource.ImportStateResponse
			r.ImportState(ctx, resource.ImportStateRequest{ID: "vms/data"}, &resp)
			return resp.Diagnostics
		},
	} {
		if said := operate(); len(said) != 1 || said[0].Summary() != "Unable to "+verb+" volume" {
			t.Errorf("%s: %v", verb, said)
		}
	}
}

// TestWarnSnapshot: a volume is told that loses its data once it is full, and no other one of a device.
func TestWarnSnapshot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool       string
		allocation int
		want       string // "" is no warning
	}{
		"thin":           {"logical", 4 << 20, "lvextend -L 1088673546b /dev/vms/data"},
		"thick":          {"logical", 1 << 30, ""},
		"thin elsewhere": {"zfs", 0, ""},
	} {
		conn, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: fleettest.BuiltInURI(t, `<pool type="`+test.pool+
			`"><name>vms</name><source><name>vms</name></source><target><path>/dev/vms</path></target></pool>`)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		document := fmt.Sprintf("<volume><name>data</name><capacity>%d</capacity><allocation>%d</allocation></volume>", 1<<30,
			test.allocation)
		volume := libvirt.NewVolume{Pool: "vms", Name: "data", Document: document}
		if err := conn.CreateVolume(t.Context(), volume); err != nil {
			t.Fatal(err)
		}
		s := &storage.Storage{Hosts: hostset.NewSet(hostset.Host{Name: "kvm1", Conn: conn})}
		said := warnSnapshot(t.Context(), s, &model{
			Name: types.StringValue("data"), Pool: types.StringValue("vms"), CurrentHost: types.StringValue("kvm1"),
			Path: types.StringValue("/dev/vms/data"),
		})
		if len(said) > 1 || (len(said) == 0) != (test.want == "") || len(said) == 1 && !strings.Contains(said[0].Detail(),
			test.want) {
			t.Errorf("%s: %v; want %q", name, said, test.want)
		}
	}
}

// TestChooseHost: a host that is set is chosen without asking any other one.
func TestChooseHost(t *testing.T) {
	t.Parallel()
	s := &storage.Storage{}
	for _, name := range []string{"kvm1", "kvm2"} {
		conn, err := libvirt.Open(libvirt.Config{Name: name, URI: fleettest.BuiltInURI(t,
			`<pool type="dir"><name>vms</name><target><path>/vms</path></target></pool>`)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		s.Hosts = append(s.Hosts, hostset.Host{Name: name, Conn: conn})
	}
	s.Hosts = hostset.NewSet(s.Hosts...)
	r := &volumeResource{}
	plan := &model{Name: types.StringValue("data"), Pool: types.StringValue("vms"), Host: types.StringValue("kvm2")}
	host, d := r.chooseHost(t.Context(), s, plan)
	other, _ := s.Hosts.Host("kvm1")
	if host != "kvm2" || d != nil || len(other.Conn.Calls()) > 0 {
		t.Errorf("host %q, %v, after these calls to the other host: %v", host, d, other.Conn.Calls())
	}
	plan.Host = types.StringNull()
	if host, d = r.chooseHost(t.Context(), s, plan); d == nil {
		t.Errorf("of two hosts that don't share the pool, %q is chosen", host)
	}
}

// TestWarnLost: the loss of a volume is told if its last host is fenced, unless another host has the same storage.
func TestWarnLost(t *testing.T) {
	t.Parallel()
	state := &model{
		Name: types.StringValue("data"), Pool: types.StringValue("vms"), CurrentHost: types.StringValue("kvm1"),
	}
	for name, test := range map[string]struct {
		fenced bool
		pool   string // its type on the other host
		want   int
	}{
		"fenced":                      {true, "dir", 1},
		"fenced, with shared storage": {true, "netfs", 0},
		"answers":                     {false, "dir", 0},
	} {
		file := filepath.Join(t.TempDir(), "node.xml")
		node := `<node><pool type="` + test.pool + `"><name>vms</name><source><host name="nas"/><dir path="/vms"/></source>` +
			`<target><path>/vms</path></target></pool></node>`
		if err := os.WriteFile(file, []byte(node), 0o600); err != nil {
			t.Fatal(err)
		}
		conn, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test://" + file})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		s := &storage.Storage{Hosts: hostset.NewSet(
			hostset.Host{Name: "kvm1", Conn: conn, Fenced: test.fenced}, hostset.Host{Name: "kvm2", Conn: conn})}
		if said := warnLost(t.Context(), s, state); len(said) != test.want {
			t.Errorf("%s: %v; want %d", name, said, test.want)
		}
	}
}
