package meta_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

func TestFrom_acceptsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	if d, diags := meta.From(nil); d != nil || diags.HasError() {
		t.Errorf("From(nil) = %v, %v", d, diags)
	}
	want := &meta.Data{}
	if d, diags := meta.From(want); d != want || diags.HasError() {
		t.Errorf("From(data) = %v, %v", d, diags)
	}
	if d, diags := meta.From("something else"); d != nil || !diags.HasError() {
		t.Errorf("From(string) = %v, %v", d, diags)
	}
}

func TestUnknownError_namesTheAttributes(t *testing.T) {
	t.Parallel()
	d := (&meta.Data{Unknown: true, UnknownAttributes: []string{"hosts.kvm1.uri"}}).UnknownError("read", "virtual machine")
	if d.Summary() != "Unable to read virtual machine" || !strings.Contains(d.Detail(), "hosts.kvm1.uri") {
		t.Errorf("got %q: %q", d.Summary(), d.Detail())
	}
}
