package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// roundTrip is the delay of the distant hosts: across a continent.
const roundTrip = 50 * time.Millisecond

// oneVM is a VM of which a plan costs little more than the start of the provider's processes.
const oneVM = `virtfleet_virtual_machine.this["vm-0000"]`

// noRefresh is the plan that asks the hosts nothing.
const noRefresh = "-refresh=false"

// BenchmarkPlan plans VMs of several kinds of which nothing has changed.
func BenchmarkPlan(b *testing.B) {
	l := lab.Open(b)
	t := &table{
		title:   "terraform plan with nothing to change, medians of " + fmt.Sprint(*rounds) + " rounds",
		columns: [2]string{"plan", noRefresh},
	}
	planOneHost(b, l, t)
	if *full {
		planTwoHosts(b, l, t)
	}
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}

func planOneHost(b *testing.B, l *lab.Lab, t *table) {
	b.Helper()
	const vms = 200
	w := newWorkspace(b, l, 1, vms)
	near, far := w.direct(), w.delayed(b, roundTrip)
	w.plan(b, near) // What is read for the first time, from disks for example, isn't counted.

	var nearPlans, farPlans, nearOffline, farOffline, cpu, cpuOffline, terraform, terraformOffline, start sample
	var total, totalOffline sample
	for range *rounds {
		nearPlans.add(w.plan(b, near))
		nearOffline.add(w.plan(b, near, noRefresh))
		farPlans.add(w.plan(b, far))
		farOffline.add(w.plan(b, far, noRefresh))
		plan, offline := w.probe(b, roleTime, near), w.probe(b, roleTime, near, noRefresh)
		cpu.add(plan.CPU / vms)
		cpuOffline.add(offline.CPU / vms)
		terraform.add(plan.terraform / vms)
		terraformOffline.add(offline.terraform / vms)
		total.add(plan.CPU + plan.terraform)
		totalOffline.add(offline.CPU + offline.terraform)
		start.add(w.probe(b, roleTime, near, noRefresh, "-target="+oneVM).CPU / vms)
	}
	calls := w.probe(b, roleCount, near)

	t.ratio("200 VMs, one host", &nearPlans, &nearOffline, 1.3)
	t.difference("the same, round trip 50 ms", &farPlans, &farOffline, farPlans.beyond(&nearPlans), time.Second/2)
	t.ratio("CPU time of Terraform and the provider", &total, &totalOffline, 1.3)
	t.limit("provider's CPU time per VM", &cpu, &cpuOffline, 3*time.Millisecond)
	t.time("  of which the start of its processes", &start, nil)
	t.time("Terraform's own CPU time per VM", &terraform, &terraformOffline)
	t.count("calls to libvirt per VM", float64(calls.total())/vms)
}

func planTwoHosts(b *testing.B, l *lab.Lab, t *table) {
	b.Helper()
	const vms = 1000
	w := newWorkspace(b, l, 2, vms)
	far := w.delayed(b, roundTrip)
	w.plan(b, far)

	var plans, offline sample
	for range *rounds {
		plans.add(w.plan(b, far))
		offline.add(w.plan(b, far, noRefresh))
	}
	t.ratio("1,000 VMs, two hosts, round trip 50 ms", &plans, &offline, 1.3)
}

// sample is the durations of one thing, one of each round.
type sample []time.Duration

func (s *sample) add(d time.Duration) { *s = append(*s, d) }

func (s *sample) median() time.Duration { return median(*s) }

// over is how many times as long as another thing it took. Rounds are compared with themselves: a computer that gets
// busier or slower meanwhile changes both sides of a round.
func (s *sample) over(other *sample) float64 {
	ratios := make([]float64, len(*s))
	for i, d := range *s {
		ratios[i] = d.Seconds() / (*other)[i].Seconds()
	}
	return median(ratios)
}

// beyond is how much longer than another thing it took, compared as over does.
func (s *sample) beyond(other *sample) time.Duration {
	differences := make([]time.Duration, len(*s))
	for i, d := range *s {
		differences[i] = d - (*other)[i]
	}
	return median(differences)
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
