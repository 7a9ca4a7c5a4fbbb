package virtualmachine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// nvdimmFile creates a file for an NVDIMM of 128 MiB on each of the hosts.
func nvdimmFile(t *testing.T, l *lab.Lab, name string, hosts ...string) string {
	t.Helper()
	file := "/var/lib/libvirt/images/" + name + ".nvdimm"
	for _, host := range hosts {
		l.Run(t, host, "truncate", "-s", "128M", file)
		t.Cleanup(func() {
			if err := os.Remove(l.Host(host).Path(file)); err != nil {
				t.Error(err)
			}
		})
	}
	return file
}

// TestAccNVDIMM_runs: a running VM has an NVDIMM in addition to its memory, and is given another. It is imported, its
// memory changes while it runs, what was changed by hand is put right, and what needs a restart or doesn't fit is
// refused.
func TestAccNVDIMM_runs(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	file := nvdimmFile(t, s.l, s.name, "kvm1", "kvm2")
	more := fmt.Sprintf(`, more = { path = %q, size = "128Mi" }`, nvdimmFile(t, s.l, s.name+"-more", "kvm1"))
	nvdimms := func(rows string) hcl { return hcl{"devices": "{ nvdimms = { " + rows + " } }"} }
	log := fmt.Sprintf(`log = { path = %q, size = "128Mi", label_size = "128Ki" }`, file)
	s.config = guest(s.l, s.name).with(talking).with(hcl{
		"host": quote("kvm1"), "memory": `{ size = "192Mi", max_size = "1Gi" }`,
	})
	s.apply(nvdimms(log), plancheck.ResourceActionCreate, []string{
		"<memory model='nvdimm' access='shared'>", "<alias name='ua-nvdimm-log'/>", "<memory unit='KiB'>327680<",
		"<currentMemory unit='KiB'>196608<", "<path>" + file + "<",
	}, nil, know("memory.size", exactly("192Mi")), know("devices.nvdimms.log.shared", knownvalue.Bool(true)))
	s.imported("memory.balloon", "guest_agent", "wait_for", "kernel", "cpu", "platform")
	s.apply(hcl{"memory": `{ size = "160Mi", max_size = "1Gi" }`}, plancheck.ResourceActionUpdate,
		[]string{"<currentMemory unit='KiB'>163840<"}, nil)
	s.apply(hcl{"memory": `{ size = "192Mi", max_size = "1Gi" }`}, plancheck.ResourceActionUpdate,
		[]string{"<currentMemory unit='KiB'>196608<", "<memory unit='KiB'>327680<"}, nil)
	s.drift([]string{"<currentMemory unit='KiB'>196608<"})
	s.steps[len(s.steps)-1].PreConfig = func() {
		s.l.Virsh(t, "kvm1", "setmem", s.name, "160M", "--live", "--config")
		// The guest gives its memory back when it gets to it.
		lab.Await(t, "the guest has less memory", func() bool {
			return look(t, s.l, "kvm1", s.name, "<currentMemory unit='KiB'>163840<")(nil) == nil
		})
	}
	s.refuse(nvdimms(""), "Change needs a restart", "devices.nvdimms.log: QEMU can't unplug one")
	s.refuse(nvdimms(strings.Replace(log, `"128Ki"`, `"256Ki"`, 1)), "Change needs a restart",
		"devices.nvdimms.log.label_size: The guest finds its NVDIMMs")
	large := nvdimms(strings.Replace(log, "128Mi", "1Gi", 1))
	s.refuse(large.with(hcl{"update_policy": quote("Restart")}), "memory.max_size",
		"The VM has 1024 MiB, and with the whole size of its memory devices 1216 MiB")
	s.refuse(nvdimms(log).with(hcl{"platform": "{ features = { acpi = false } }"}), "platform.features.acpi",
		"A VM with devices.nvdimms needs it")
	tooMuch := strings.Replace(more, "128Mi", "1Gi", 1)
	s.refuse(nvdimms(log+tooMuch).with(hcl{"memory": `{ size = "192Mi" }`}), "Change needs a restart",
		"devices.nvdimms.more: One can be plugged only into a VM that started with one, and with room in memory.max_size")
	s.apply(nvdimms(log+more), plancheck.ResourceActionUpdate, []string{
		"<alias name='ua-nvdimm-log'/>", "<alias name='ua-nvdimm-more'/>", "<memory unit='KiB'>458752<",
	}, nil, know("memory.size", exactly("192Mi")))
	s.apply(hcl{"memory": `{ size = "160Mi", max_size = "1Gi" }`}, plancheck.ResourceActionUpdate,
		[]string{"<alias name='ua-nvdimm-more'/>", "<currentMemory unit='KiB'>163840<"}, nil)
	s.runSteps()
}

// TestAccNVDIMM_moves: a live move takes along what is in the file of an NVDIMM. No other VM of the host gets the file,
// and an NVDIMM leaves with a restart.
func TestAccNVDIMM_moves(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	file := nvdimmFile(t, l, name, "kvm1", "kvm2")
	l.Run(t, "kvm1", "sh", "-c", "echo kept | dd of="+file+" conv=notrunc status=none")
	nvdimm := hcl{"devices": fmt.Sprintf(`{ nvdimms = { log = { path = %q, size = "128Mi" } } }`, file)}
	config := guest(l, name).with(talking).with(nvdimm).with(hcl{"memory": `{ size = "128Mi", max_size = "1Gi" }`})
	apply := func(host string, change hcl, has ...string) {
		t.Helper()
		config = config.with(change).with(hcl{"host": quote(host)})
		tf.Config(t, acctest.Config(l)+config.String())
		tf.Run(t, "apply")
		if err := look(t, l, host, name, has...)(nil); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	apply("kvm1", nil, "<memory model='nvdimm' access='shared'>", "<currentMemory unit='KiB'>131072<")
	apply("kvm2", nil, "<memory model='nvdimm' access='shared'>", "<currentMemory unit='KiB'>131072<")
	if is := l.Run(t, "kvm2", "head", "-c", "4", file); is != "kept" {
		t.Errorf("the file on kvm2 begins with %q", is)
	}
	other := guest(l, name+"-other").with(nvdimm).with(hcl{
		"host": quote("kvm2"), "memory": `{ size = "128Mi", max_size = "1Gi" }`,
	})
	tf.Config(t, acctest.Config(l)+config.String()+other.named("other"))
	if out := tf.Fail(t, "plan"); !strings.Contains(out, "Disk belongs to another virtual machine") {
		t.Error(out)
	}
	apply("kvm2", hcl{"devices": `{ nvdimms = {} }`, "update_policy": quote("Restart")}, "<memory unit='KiB'>131072<")
	if err := lacks(t, l, "kvm2", name, "<memory model")(nil); err != nil {
		t.Error(err)
	}
	tf.Config(t, acctest.Config(l)+config.with(nvdimm).with(hcl{"update_policy": ""}).String())
	expect(t, tf.Fail(t, "plan"), "devices.nvdimms.log: One can be plugged only into a VM that started with one")
	tf.Config(t, acctest.Config(l)+config.String())
	destroyAndCheck(t, l, tf, name)
}
