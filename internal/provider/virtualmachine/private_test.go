package virtualmachine

import "testing"

// A VM resumes with the definition that it had when its memory was saved, whatever is changed while it is off.
func TestWriteSaved(t *testing.T) {
	t.Parallel()
	private := privateValues{}
	one := vmAfterApply(t, minimal.with(in{"cpu": in{"vcpus": 1}}))
	two := vmAfterApply(t, minimal.with(in{"cpu": in{"vcpus": 2}}))
	if diags := writeLive(t.Context(), private, one); diags.HasError() {
		t.Fatal(diagText(diags))
	}
	two.LiveSpec, two.ManagedSave = nil, true
	for range 2 { // The second refresh knows nothing of the VM that ran.
		diags := writeSaved(t.Context(), private, two)
		diags.Append(writeLive(t.Context(), private, two)...)
		saved, d := readPrivateSpec(t.Context(), private, privateSavedAs)
		if diags.Append(d...); diags.HasError() || saved == nil || saved.CPU.VCPUs == nil || *saved.CPU.VCPUs != 1 {
			t.Fatalf("saved with %+v %s", saved, diagText(diags))
		}
	}
	two.ManagedSave = false
	diags := writeSaved(t.Context(), private, two)
	saved, d := readPrivateSpec(t.Context(), private, privateSavedAs)
	if saved != nil || diags.HasError() || d.HasError() {
		t.Errorf("the saved memory is gone: %+v %s", saved, diagText(diags))
	}
}
