package fleet

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// One pass per host: a sample of several VMs is two calls to each of their hosts, and none to the others; so is a
// sample of all VMs of a host whose VMs are known.
func TestLab_sampleIsOnePassPerHost(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "stats", nil)

	var vms []*inventory.VM

	for i, host := range []string{"kvm1", "kvm1", "kvm2"} {
		d := guest(l, lab.Name(t)+string(rune('a'+i)), "noagent")
		d.Metadata.Host = host
		d.Metadata.Labels = map[string]string{"sampled": d.Spec.Name}
		vms = append(vms, create(t, f, l, d))
	}

	one, err := f.FindByLabels(t.Context(), vms[0].Metadata.Labels)
	if err != nil || len(one) != 1 || one[0].UUID != vms[0].UUID {
		t.Errorf("labels choose %v, %v", one, err)
	}

	before := f.Calls()

	samples, err := f.Sample(t.Context(), vms)
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]int{"virConnectGetAllDomainStats": 1, "virDomainListGetStats": 1}
	since := callsSince(f, before)

	for _, host := range []string{"kvm1", "kvm2"} {
		if diff := cmp.Diff(want, since[host]); diff != "" {
			t.Errorf("calls to %s: %s", host, diff)
		}
	}

	if len(since["kvm3"]) != 0 {
		t.Errorf("calls to kvm3: %v", since["kvm3"])
	}

	for _, vm := range vms {
		if s := samples[vm.UUID]; s == nil || s.CPU == nil || *s.CPU.Total == 0 {
			t.Errorf("sample of %s: %v", vm.Name, s)
		}
	}

	all, err := f.HostSample(t.Context(), "kvm2")
	if err != nil {
		t.Fatal(err)
	}

	found := map[string]bool{}
	for _, s := range all.VMs {
		found[s.VM.UUID] = s.Stats.CPU != nil
	}

	if !found[vms[2].UUID] || found[vms[0].UUID] {
		t.Errorf("kvm2 has %v", found)
	}
}

// callsSince gives the calls since before, but for those that open connections.
func callsSince(f *Fleet, before map[string]map[string]int) map[string]map[string]int {
	since := f.Calls()

	for host, calls := range since {
		for procedure, n := range before[host] {
			calls[procedure] -= n
		}

		maps.DeleteFunc(calls, func(procedure string, n int) bool { return n == 0 || procedure == "virConnectOpen" })
	}

	return since
}
