package onhosts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestCheckNew: the plan of a new object that hosts have already has one warning that names them, and its creation
// fails with one such error, and touches no host. An object of the state isn't another one, and a host that doesn't
// answer has none.
func TestCheckNew(t *testing.T) {
	t.Parallel()
	has := map[string]string{"kvm1": "x", "kvm3": "y"}
	for what, c := range map[string]struct {
		saved string // the id in the state; "": none
		hosts types.Set
		names string // those of the error; "": none
	}{
		"another one":             {"", value.NewStringSet(nil), "kvm1, kvm3"},
		"on one host":             {"", value.NewStringSet([]string{"kvm1", "kvm2"}), "kvm1"},
		"on none":                 {"", value.NewStringSet([]string{"kvm2", "kvm4"}), ""},
		"replaced":                {"lan", value.NewStringSet(nil), ""},
		"one replaced, by UUID":   {"x", value.NewStringSet(nil), "kvm3"},
		"on which hosts, unknown": {"", types.SetUnknown(types.StringType), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			data := newData(t, map[string]bool{"kvm1": false, "kvm2": false, "kvm3": false, "kvm4": false})
			const typeName = "virtfleet_network"
			NoteSaved(data, &tfprotov6.UpgradeResourceStateRequest{
				TypeName: typeName, RawState: &tfprotov6.RawState{JSON: fmt.Appendf(nil, `{"id":%q}`, c.saved)},
			})
			var touched atomic.Int32
			touch := Each(func(context.Context, *libvirt.Host) error { touched.Add(1); return nil })
			change := Change{
				Data: data, TypeName: typeName, ImportID: "lan", Noun: `network "lan"`, Remove: touch,
				New: func(string) Do { return touch },
				UUID: func(_ context.Context, h *libvirt.Host) (string, error) {
					if h.Name() == "kvm4" {
						return "", errors.New("silent")
					}
					if uuid, ok := has[h.Name()]; ok {
						return uuid, nil
					}
					return "", libvirt.ErrNotFound
				},
			}
			targets, _ := Targets(data, c.hosts)
			said := change.CheckNew(t.Context(), targets, c.hosts, path.Root("name"))
			if said.HasError() || (len(said) == 1) != (c.names != "") {
				t.Fatalf("the plan says %v", said)
			}
			if c.names == "" || c.saved != "" {
				return
			}
			_, created := change.Create(t.Context(), targets.Without("kvm4"))
			if n := touched.Load(); n > 0 {
				t.Errorf("hosts were changed %d times", n)
			}
			if records, known := change.begun(t.Context(), targets); !known || len(records) > 0 {
				t.Errorf("records of the creation are left: %q", records)
			}
			for _, d := range append(said, created...) {
				if text := d.Detail(); len(created) != 1 || !strings.Contains(text, "\nHost: "+c.names+"\n") &&
					!strings.Contains(text, "\n\nHost: "+c.names+"\n") || !strings.Contains(text, `id = "lan"`) {
					t.Errorf("%s: %s", d.Summary(), text)
				}
			}
		})
	}
}
