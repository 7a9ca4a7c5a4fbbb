package virtualmachine_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccDevices_firmware: firmware and machine types as they are asked for, in any notation; nothing of a firmware's
// variables is left when the VM has gone.
func TestAccDevices_firmware(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	prefix := lab.Name(t) + "-"
	names := map[string]string{}
	for _, key := range []string{"efi", "secure", "pc", "q35"} {
		names[key] = prefix + key
		l.RemoveDomain(t, names[key])
	}
	tf := acctest.NewCLI(t)
	config := func(change hcl) {
		vm := func(key string, more hcl) string {
			return tinyVM(names[key]).with(hcl{"host": quote("kvm2")}).with(more).named(key)
		}
		tf.Config(t, acctest.On(l, "kvm2")+
			vm("efi", hcl{"firmware": `{ type = "efi" }`}.with(change))+
			vm("secure", hcl{"firmware": `{ secure_boot = true }`})+
			vm("pc", hcl{"machine_type": quote("pc")})+
			vm("q35", hcl{"machine_type": quote("q35")}.with(change)))
	}
	config(nil)
	tf.Run(t, "apply")
	for _, look := range []struct {
		key, which string
		parts      []string
	}{
		{"efi", "--inactive", []string{`firmware='efi'`, `<feature enabled='no' name='secure-boot'/>`}},
		{"efi", "--update-cpu", []string{`type='pflash'`, `/var/lib/libvirt/qemu/nvram/` + names["efi"]}},
		{"secure", "--inactive", []string{`firmware='efi'`, `<feature enabled='yes' name='secure-boot'/>`}},
		{"secure", "--update-cpu", []string{`secure='yes'`, `type='pflash'`, `<smm state='on'`}},
		{"pc", "--inactive", []string{`machine='pc-i440fx-`}},
		{"q35", "--inactive", []string{`machine='pc-q35-`}},
	} {
		if err := contains(l.Virsh(t, "kvm2", "dumpxml", look.which, names[look.key]), look.parts...); err != nil {
			t.Error(err)
		}
	}
	secure, _ := tf.State(t, virtualmachine.TypeName+".secure")
	if got, ok := secure["firmware"].(map[string]any); !ok || got["secure_boot"] != true || got["type"] != "efi" {
		t.Errorf("firmware of the VM with secure boot: %v", secure["firmware"])
	}
	if nvram := l.Run(t, "kvm2", "ls", "/var/lib/libvirt/qemu/nvram"); strings.Count(nvram, prefix) != 2 {
		t.Errorf("variables of firmware: %s", nvram)
	}
	noChanges(t, tf)

	// The same in other words.
	versioned := func(key string) string {
		xml := l.Virsh(t, "kvm2", "dumpxml", names[key])
		_, rest, _ := strings.Cut(xml, "machine='")
		version, _, _ := strings.Cut(rest, "'")
		return version
	}
	tf.Config(t, acctest.On(l, "kvm2")+
		tinyVM(names["efi"]).with(hcl{"host": quote("kvm2"), "memory": `{ size = "65536Ki" }`}).named("efi")+
		tinyVM(names["secure"]).with(hcl{
			"host": quote("kvm2"), "firmware": `{ type = "efi", secure_boot = true }`,
		}).named("secure")+
		tinyVM(names["pc"]).with(hcl{"host": quote("kvm2"), "machine_type": quote(versioned("pc"))}).named("pc")+
		tinyVM(names["q35"]).with(hcl{"host": quote("kvm2"), "machine_type": quote(versioned("q35"))}).named("q35"))
	noChanges(t, tf)

	// Other firmware begins with variables of its own: secure boot without its keys would be none.
	if keysEnrolled(t, l, "kvm2", names["efi"]) {
		t.Error("firmware without secure boot has keys for it")
	}
	config(hcl{"update_policy": quote("Restart"), "firmware": `{ type = "efi", secure_boot = true }`})
	tf.Run(t, "apply")
	for _, key := range []string{"efi", "q35"} {
		if !keysEnrolled(t, l, "kvm2", names[key]) {
			t.Errorf("VM %s got secure boot without the keys", key)
		}
	}
	noChanges(t, tf)

	destroyAndCheck(t, l, tf, names["efi"], names["secure"], names["pc"], names["q35"])
	if nvram := l.Run(t, "kvm2", "ls", "/var/lib/libvirt/qemu/nvram"); strings.Contains(nvram, prefix) {
		t.Errorf("left behind: %s", nvram)
	}
}

// keysEnrolled tells whether a VM's firmware has keys to check signatures with.
func keysEnrolled(t *testing.T, l *lab.Lab, host, name string) bool {
	t.Helper()
	data, err := os.ReadFile(l.Host(host).Path("/var/lib/libvirt/qemu/nvram/" + name + "_VARS.fd"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(data, []byte("Microsoft Corporation"))
}

// TestAccFirmware_staged: new variables wait for the next start, whoever's apply does it, and it doesn't go unnoticed
// that another tool started the VM with the old ones.
func TestAccFirmware_staged(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{"host": quote(host), "update_policy": quote("Stage"), "run_strategy": quote("Manual")})
	apply := func(change hcl, pending bool) string {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.OneHost(l)+config.String())
		out := tf.Run(t, "apply")
		noChanges(t, tf)
		if state, _ := tf.State(t, address); state["restart_required"] != pending {
			t.Errorf("restart_required = %v", state["restart_required"])
		}
		return out
	}
	apply(hcl{"firmware": `{ type = "efi", secure_boot = false }`}, false)
	begun(t, l, host, name)
	expect(t, apply(hcl{"firmware": `{ type = "efi", secure_boot = true }`}, true),
		"Warning: UEFI variables are discarded: "+name, "/var/lib/libvirt/qemu/nvram/"+name+"_VARS.fd")
	destroyed(t, l, host, name)
	begun(t, l, host, name)
	tf.Run(t, "apply", "-refresh-only")
	apply(nil, true)
	destroyed(t, l, host, name)
	apply(hcl{"run_strategy": quote("Always")}, false)
	if !keysEnrolled(t, l, host, name) {
		t.Error("it has secure boot without the keys")
	}
	destroyAndCheck(t, l, tf, name)
}
