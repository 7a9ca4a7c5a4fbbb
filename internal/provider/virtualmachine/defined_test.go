package virtualmachine

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestPlan_discardedVariables: a plan says that the UEFI variables are lost with the firmware that wrote them, and
// which file has them, whether or not the VM runs.
func TestPlan_discardedVariables(t *testing.T) {
	t.Parallel()
	const file = "/var/lib/libvirt/qemu/nvram/web_VARS.fd"
	with := func(firmware in) in { return minimal.with(in{"firmware": firmware, "update_policy": "Restart"}) }
	const discards = "start by an apply discards"
	for name, test := range map[string]struct {
		before, config in
		says           string
	}{
		"keys come":         {in{"type": "efi", "secure_boot": false}, in{"type": "efi", "secure_boot": true}, discards},
		"keys go":           {in{"type": "efi", "secure_boot": true}, in{"type": "efi", "secure_boot": false}, discards},
		"BIOS":              {in{"type": "efi"}, in{"type": "bios"}, "doesn't use them any more"},
		"had none":          {in{"type": "bios"}, in{"type": "efi"}, ""},
		"stays":             {in{"type": "efi"}, in{"type": "efi"}, ""},
		"another boot menu": {in{"type": "efi"}, in{"type": "efi", "boot_menu": in{"enabled": true}}, ""},
	} {
		for _, runs := range []bool{false, true} {
			p := planning{config: modelOf(t, with(test.config)), state: stateAfterApply(t, with(test.before))}
			p.defined.NVRAM = file
			if runs {
				p.live = vmAfterApply(t, with(test.before)).LiveSpec
			} else {
				p.state.Status = types.StringValue("Stopped")
			}
			said := diagText(p.plan().diags)
			if strings.Contains(said, "UEFI variables are discarded: web") != (test.says != "") ||
				!strings.Contains(said, test.says) || strings.Contains(said, file) != (test.says != "") {
				t.Errorf("%s, running %t: %s", name, runs, said)
			}
		}
	}
}

// TestStagesMemory: what the provider has left to the next start of a VM explains more memory only if it says how much.
func TestStagesMemory(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"memory.size": true, "memory.max_size": true, "cpu.numa": true, "memory.huge_pages": false, "memory.source": false,
	} {
		staged := domain.Staged{path: "x"}
		if got := stagesMemory(domain.Metadata{Staged: staged}); got != want {
			t.Errorf("%s: %t", path, got)
		}
		if got := stagesMemory(domain.Metadata{Unfinished: staged}); got != want {
			t.Errorf("%s, unfinished: %t", path, got)
		}
	}
}
