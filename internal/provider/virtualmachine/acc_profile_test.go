package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccProfile_life: guests of two profiles boot and answer, a VM for Windows 11 starts its firmware and its TPM, and
// one on KVM has the enlightenments, each of which can be declared in another way. Other profiles change nothing
// afterwards.
func TestAccProfile_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	prefix := lab.Name(t) + "-"
	names := map[string]string{}
	for _, key := range []string{"linux", "legacy", "windows", "kvm"} {
		names[key] = prefix + key
		l.RemoveDomain(t, names[key])
	}
	for _, disk := range []string{"linux", "legacy"} {
		l.Run(t, host, "qemu-img", "create", "-q", "-f", "raw", "/var/lib/libvirt/images/"+names[disk]+".img", "16M")
	}
	devices := func(key string) hcl {
		return hcl{
			"host": quote(host), "interfaces": `{ lan = { user = true } }`,
			"disks": `{ data = { file = "/var/lib/libvirt/images/` + names[key] + `.img", format = "raw" } }`,
		}
	}
	tf := acctest.NewCLI(t)
	answering := talking.with(hcl{"guest_agent": ""}) // The profile has it.
	kvm := func(more hcl) string {
		return tinyVM(names["kvm"]).with(hcl{
			"host": quote(host), "profile": quote("windows-11"), "type": quote("kvm"), "run_strategy": quote("Halted"),
			"interfaces": `{ lan = { user = true } }`, "disks": `{ system = { file = "/srv/windows.qcow2" } }`,
		}).with(more).named("kvm")
	}
	config := func(linux, more string) {
		tf.Config(t, acctest.OneHost(l)+
			guest(l, names["linux"]).with(answering).with(devices("linux")).with(hcl{"profile": quote(linux)}).named("linux")+
			guest(l, names["legacy"]).with(talking).with(devices("legacy")).
				with(hcl{"profile": quote("linux-legacy")}).named("legacy")+
			tinyVM(names["windows"]).with(hcl{"host": quote(host), "profile": quote("windows-11")}).named("windows")+more)
	}
	// What the lab's KVM lacks, or that it has none, is refused in the plan, and left out where it is declared so.
	config("linux", kvm(nil))
	refusal, lacking, imported := `platform.hyperv.frequencies "frequencies"`, kvm(hcl{"platform": `{ hyperv = {
    vpindex = false, runtime = false, synic = false, stimer = false, frequencies = false, tlbflush = false, ipi = false
  } }`}), "kvm"
	accelerated := hasKVM(t, l, host)
	if !accelerated {
		refusal, lacking, imported = `can't run domains of type "kvm"`, "", "windows"
	}
	expect(t, tf.Fail(t, "plan"), refusal)
	config("linux", lacking)
	plan := tf.Run(t, "plan")
	for _, part := range []string{
		`+ profile = "windows-11"`, `+ model = "tpm-crb"`, `+ secure_boot = true`, `+ offset = "localtime"`, `+ bus = "ide"`,
	} {
		expect(t, plan, part)
	}
	tf.Run(t, "apply")
	for key, parts := range map[string][]string{
		"linux": {
			`machine='pc-q35-`, `<target dev='vda' bus='virtio'/>`, `<model type='virtio'/>`, `<rng model='virtio'>`,
			`<console type='pty'`,
		},
		"legacy": {`machine='pc-i440fx-`, `<target dev='hda' bus='ide'/>`, `<model type='e1000'/>`, `<model type='vga'`},
		"windows": {
			`machine='pc-q35-`, `<smm state='on'`, `<tpm model='tpm-crb'>`, `<clock offset='localtime'>`,
			`<timer name='rtc' tickpolicy='catchup'/>`, `<timer name='hpet' present='no'/>`, `<input type='tablet' bus='usb'>`,
		},
		"kvm": {
			`<os firmware='efi'>`, `<feature enabled='yes' name='secure-boot'/>`, `<tpm model='tpm-crb'>`,
			`<backend type='emulator'`,
			`<hyperv mode='custom'>`, `<relaxed state='on'/>`, `<vapic state='on'/>`, `<spinlocks state='on' retries='8191'/>`,
			`<vpindex state='off'/>`, `<timer name='hypervclock' present='yes'/>`, `<clock offset='localtime'>`,
			`bus='sata'/>`, `<model type='e1000e'/>`,
		},
	} {
		if key == "kvm" && !accelerated {
			continue
		}
		if err := look(t, l, host, names[key], parts...)(nil); err != nil {
			t.Error(key, err)
		}
	}
	if err := lacks(t, l, host, names["legacy"], `<rng model`)(nil); err != nil {
		t.Error(err)
	}
	if err := lacks(t, l, host, names["windows"], `<hyperv`, `hypervclock`)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)

	linux := &started{l: l, host: host, name: names["linux"]}
	if err := linux.same(t)(nil); err != nil {
		t.Error(err)
	}
	config("windows-11", lacking)
	expect(t, tf.Run(t, "plan"), "Profile changes nothing of an existing virtual machine")
	tf.Run(t, "apply")
	if err := linux.same(t)(nil); err != nil {
		t.Error(err)
	}
	if err := look(t, l, host, names["linux"], `<target dev='vda' bus='virtio'/>`)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)

	// An import knows no profile, and changes nothing either.
	tf.Run(t, "state", "rm", virtualmachine.TypeName+"."+imported)
	tf.Run(t, "import", virtualmachine.TypeName+"."+imported, names[imported])
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, names["linux"], names["legacy"], names["windows"], names["kvm"])
}
