package virtualmachine_test

import (
	"fmt"
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
		t.Cleanup(func() { l.Run(t, host, "rm", "-f", file) })
	}
	return file
}

// TestAccNVDIMM_runs: a running VM has an NVDIMM in addition to its memory. It is imported, its memory changes while
// it runs, what was changed by hand is put right, and it is removed with a restart. No other VM gets its file, and a
// move takes along what is in it.
func TestAccNVDIMM_runs(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	file := nvdimmFile(t, s.l, s.name, "kvm1", "kvm2")
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
		[]string{"<currentMemory unit='KiB'>163840<", "<memory unit='KiB'>327680<"}, nil)
	s.apply(hcl{"memory": `{ size = "192Mi", max_size = "1Gi" }`}, plancheck.ResourceActionUpdate,
		[]string{"<currentMemory unit='KiB'>196608<", "<memory unit='KiB'>327680<"}, nil)
	s.drift([]string{"<currentMemory unit='KiB'>196608<"}, "setmem", s.name, "160M", "--live", "--config")
	s.refuse(nvdimms(""), "Change needs a restart", "devices.nvdimms.log: The guest finds its NVDIMMs when it starts")
	s.refuse(nvdimms(strings.Replace(log, `"128Ki"`, `"256Ki"`, 1)), "Change needs a restart",
		"devices.nvdimms.log.label_size: The guest finds its NVDIMMs")
	s.refuse(nvdimms(`more = { path = "/n", size = "128Mi" }, `+log), "Change needs a restart", "devices.nvdimms.more")
	s.refuse(nvdimms(strings.Replace(log, "128Mi", "1Gi", 1)), "memory.max_size",
		"The VM has 1024 MiB, and with the whole size of its memory devices 1216 MiB")
	s.refuse(nvdimms(log).with(hcl{"platform": "{ features = { acpi = false } }"}), "platform.features.acpi",
		"A VM with devices.nvdimms needs it")
	s.runSteps()
}

var _ = acctest.Config
