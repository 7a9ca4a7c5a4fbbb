package image

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
)

// TestRead_silentHost: an image that was imported, and not yet applied, stays in the state while no host answers, as
// on_unreachable says. An import fails.
func TestRead_silentHost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
		"kvm1": {URI: "qemu+unix:///system?socket=" + t.TempDir() + "/absent"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r := &imageResource{meta.Resource{
		TypeName: TypeName, Data: &meta.Data{Fleet: f, OnUnreachable: meta.OnUnreachableKeep},
	}}
	var is resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &is)
	for name, last := range map[string]map[string]string{
		"importing": nil, "imported": {"kvm1": onhosts.Present},
	} {
		raw := tftypes.NewValue(is.Schema.Type().TerraformType(ctx), nil)
		state := tfsdk.State{Raw: raw, Schema: is.Schema}
		states, diags := types.MapValueFrom(ctx, types.StringType, last)
		for attribute, v := range map[string]any{
			"id": "vms/base-000000000000", "pool": "vms", "volume": "base-000000000000", "name": "base",
			onhosts.StatesName: states,
		} {
			diags.Append(state.SetAttribute(ctx, path.Root(attribute), v)...)
		}
		if diags.HasError() {
			t.Fatal(diags)
		}
		resp := resource.ReadResponse{State: state}
		r.Read(ctx, resource.ReadRequest{State: state}, &resp)
		if failed := resp.Diagnostics.HasError(); failed != (last == nil) || len(resp.Diagnostics) == 0 {
			t.Errorf("%s: %v", name, resp.Diagnostics)
		}
		if !resp.State.Raw.Equal(state.Raw) {
			t.Errorf("%s: the state becomes %s", name, resp.State.Raw)
		}
	}
}

// TestCheckRoom: a plan says that a volume group has no room for a local image, because it occupies all its size there.
// In a directory, only what isn't zeros counts.
func TestCheckRoom(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	node, file := filepath.Join(t.TempDir(), "node.xml"), filepath.Join(t.TempDir(), "image")
	pools := ""
	for name, kind := range map[string]string{"vg": "logical", "vms": "dir"} {
		pools += fmt.Sprintf("<pool type='%s'><name>%s</name><capacity>1073741824</capacity>"+
			"<available>1073741824</available><source><name>vg</name></source><target><path>/srv/%[2]s</path></target>"+
			"<volume type='file'><name>had-0123456789ab</name><capacity>107371036672</capacity>"+
			"<allocation>107371036672</allocation></volume></pool>",
			kind, name)
	}
	if err := os.WriteFile(node, []byte("<node>"+pools+"</node>"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{"local": {URI: "test://" + node}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r := &imageResource{meta.Resource{TypeName: TypeName, Data: &meta.Data{Fleet: f}}}
	var is resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &is)
	source := types.ObjectValueMust(map[string]attr.Type{"file": types.StringType},
		map[string]attr.Value{"file": types.StringValue(file)})
	for _, c := range []struct {
		pool  string
		bytes int64
		data  int // how much of them isn't zeros
		want  int
	}{
		{"vg", 1 << 20, 0, 0},
		{"vg", 1 << 40, 0, 1},
		{"vms", 1 << 40, 0, 0},
		{"vms", 1 << 40, 2 << 20, 0},
		{"vms", 4 << 20, 4 << 20, 1},
		{"absent", 1 << 40, 0, 0},
	} {
		content := bytes.Repeat([]byte("x"), c.data)
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.Truncate(file, c.bytes)); err != nil {
			t.Fatal(err)
		}
		plan := tfsdk.Plan{Raw: tftypes.NewValue(is.Schema.Type().TerraformType(ctx), nil), Schema: is.Schema}
		diags := plan.SetAttribute(ctx, path.Root("name"), "base")
		diags.Append(plan.SetAttribute(ctx, path.Root("pool"), c.pool)...)
		diags.Append(r.checkRoom(ctx, plan, f.Connections(), f.Connections(), source)...)
		if diags.HasError() || diags.WarningsCount() != c.want {
			t.Errorf("%+v: %v", c, diags)
		}
	}
	// An image that exists is sent to the hosts that lack it.
	for state, want := range map[string]int{"absent": 1, onhosts.Present: 0} {
		if err := os.Truncate(file, 1<<40); err != nil {
			t.Fatal(err)
		}
		raw := tftypes.NewValue(is.Schema.Type().TerraformType(ctx), nil)
		was := tfsdk.State{Raw: raw, Schema: is.Schema}
		diags := was.SetAttribute(ctx, path.Root("name"), "base")
		for name, v := range map[string]any{
			"pool": "vg", "id": "vg/base-0123456789ab", "host_states": map[string]string{"local": state},
		} {
			diags.Append(was.SetAttribute(ctx, path.Root(name), v)...)
		}
		diags.Append(was.SetAttribute(ctx, path.Root("source").AtName("file"), file)...)
		plan := tfsdk.Plan{Raw: was.Raw, Schema: is.Schema}
		req := resource.ModifyPlanRequest{State: was, Plan: plan, Config: tfsdk.Config(plan)}
		private := reflect.ValueOf(&req.Private).Elem() // The framework doesn't export its type.
		private.Set(reflect.New(private.Type().Elem()))
		diags.Append(meta.WritePrivate(ctx, req.Private, notesKey, notesOf(&sourceModel{File: types.StringValue(file)}))...)
		resp := &resource.ModifyPlanResponse{Plan: plan, Diagnostics: diags}
		r.ModifyPlan(ctx, req, resp)
		if resp.Diagnostics.HasError() || resp.Diagnostics.WarningsCount() != want {
			t.Errorf("an image that is %s: %v", state, resp.Diagnostics)
		}
	}
}

// TestNotes_freshCheckout: a local file, compressed or not, that is written again with the same content is the same
// image.
func TestNotes_freshCheckout(t *testing.T) {
	t.Parallel()
	const content = "content of the image"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"plain": []byte(content), "packed": packed.Bytes()} {
		source := &sourceModel{File: types.StringValue(filepath.Join(t.TempDir(), name))}
		write := func(data []byte, age time.Duration) {
			t.Helper()
			at, file := time.Now().Add(-age), source.File.ValueString()
			if err := errors.Join(os.WriteFile(file, data, 0o600), os.Chtimes(file, at, at)); err != nil {
				t.Fatal(err)
			}
		}
		write(data, time.Hour)
		n, sum := notesOf(source), fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		write(data, time.Minute)
		now, stale := n.checked(t.Context(), source, sum)
		if stale || !now.Same(notesOf(source).Stamp) {
			t.Errorf("%s: stale is %v after a fresh checkout", name, stale)
		}
		write(bytes.Repeat([]byte("x"), len(data)), time.Second)
		if _, stale := n.checked(t.Context(), source, sum); !stale {
			t.Errorf("%s: another file isn't stale", name)
		}
	}
}
