package virtualmachine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestImport_corpusElsewhere: definitions that need another libvirt, QEMU or architecture than the lab has are imported
// as well: the configuration that says what was read is valid, and plans nothing. Those of the lab are imported there,
// by TestAccVirtualMachine_importCorpus.
func TestImport_corpusElsewhere(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../domain/testdata/corpus/elsewhere/*.xml")
	if err != nil || len(files) < 30 {
		t.Fatalf("there are %d definitions: %v", len(files), err)
	}
	for _, file := range files {
		xml, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := domain.Parse(string(xml))
		if err != nil {
			t.Fatal(err)
		}
		persistent := d.Spec()
		seen := observation{vm: &fleet.VM{
			UUID: "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10", Name: persistent.Name, Host: "kvm1",
			HostUUID: "8d1f1d4e-0000-4000-8000-000000000001", State: libvirt.Shutoff, Reason: "Shutdown", Persistent: true,
			PersistentSpec: &persistent,
		}}
		var state, config model
		state.fromFleet(seen, &model{})
		for _, p := range attributePairs(written, &state, &config) {
			if _, ok := definitionAttributes[p.name]; ok {
				config.set(p.name, p.a)
			}
		}
		if diags := config.validate(); diags.HasError() {
			t.Errorf("%s: the configuration isn't valid: %s", filepath.Base(file), diagText(diags))
			continue
		}
		o := planning{config: &config, state: &state, hosts: []string{"kvm1"}}.plan()
		if o.diags.HasError() || len(o.replace) > 0 {
			t.Errorf("%s: %s, replaced: %v", filepath.Base(file), diagText(o.diags), o.replace)
		}
		for _, p := range attributePairs(definitionAttributes, &state, &o.planned) {
			if !p.a.Equal(p.b) {
				t.Errorf("%s: %s is %s, and planned as %s", filepath.Base(file), p.name, p.a, p.b)
			}
		}
	}
}
