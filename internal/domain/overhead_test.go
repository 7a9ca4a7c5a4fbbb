package domain

import "testing"

// What QEMU needs in addition to the guest's memory are KubeVirt's numbers: for each vCPU, for the page tables, and for
// what the VM has.
func TestDefinition_Overhead(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	xml := func(memory, cpus, arch, more, devices string) string {
		return `<domain type="kvm"><name>a</name><memory unit="MiB">` + memory + `</memory><vcpu>` + cpus +
			`</vcpu><os><type arch="` + arch + `">hvm</type></os>` + more + `<devices>` + devices + `</devices></domain>`
	}
	const video = `<video><model type="vga"/></video>`
	for name, tt := range map[string]struct {
		xml  string
		want uint64
	}{
		"plain":        {xml("1024", "1", "x86_64", "", ""), 30 + 8 + 8 + 2},
		"large":        {xml("65536", "16", "x86_64", "", ""), 30 + 8 + 16*8 + 128},
		"a screen":     {xml("1024", "1", "x86_64", "", video+video), 30 + 8 + 8 + 2 + 32},
		"no screen":    {xml("1024", "1", "x86_64", "", `<video><model type="none"/></video>`), 30 + 8 + 8 + 2},
		"a TPM":        {xml("1024", "1", "x86_64", "", `<tpm model="tpm-crb"/>`), 30 + 8 + 8 + 2 + 53},
		"aarch64":      {xml("1024", "1", "aarch64", "", ""), 30 + 8 + 8 + 2 + 128},
		"passthrough":  {xml("1024", "1", "x86_64", "", `<hostdev mode="subsystem" type="pci"/>`), 30 + 8 + 8 + 2 + 1024},
		"confidential": {xml("1024", "1", "x86_64", `<launchSecurity type="sev"/>`, ""), 30 + 8 + 8 + 2 + 256},
	} {
		d, err := Parse(tt.xml)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Overhead(); got != tt.want*mebibyte {
			t.Errorf("%s: %d MiB, want %d", name, got/mebibyte, tt.want)
		}
	}

	// A new VM takes what it is placed for.
	spec := Spec{
		Name: "a", Type: "qemu", Memory: Memory{Size: new(uint64(2048 * mebibyte))},
		CPU: CPU{Sockets: new(2), Cores: new(3)},
	}
	d, err := New(spec, "11111111-2222-3333-4444-555555555555")
	if err != nil {
		t.Fatal(err)
	}
	if got := NewOverhead(spec); got != d.Overhead() || got != (30+8+6*8+4+32)*mebibyte {
		t.Errorf("placed with %d MiB, and defined with %d", got/mebibyte, d.Overhead()/mebibyte)
	}
}
