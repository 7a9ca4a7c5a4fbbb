package fleet

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// adders are two VMs without a disk, each on a host of its own, and two runs that add one and the same disk to them.
type adders struct {
	*rivals
	vms [2]*inventory.VM
	// source names the disk to libvirt.
	source string
}

func newAdders(t *testing.T, l *lab.Lab) *adders {
	t.Helper()

	a := &adders{rivals: newRivals(t, l)}
	a.source = a.wishes[0].Spec.Disks["root"].Source.Name()

	return a
}

// begin creates the VMs anew, without the disk and with this run strategy.
func (a *adders) begin(t *testing.T, l *lab.Lab, strategy string) {
	t.Helper()

	for i, f := range a.runs {
		if vm := a.vms[i]; vm != nil {
			if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
				t.Fatal(err)
			}
		}

		f.ForgetAll()

		bare := a.wishes[i]
		bare.Spec.Disks, bare.OwnDisks, bare.Metadata.RunStrategy = map[string]domain.Disk{}, nil, strategy
		a.vms[i] = create(t, f, l, bare)
	}

	a.know(t)
}

// know has both runs read both hosts.
func (a *adders) know(t *testing.T) {
	t.Helper()

	for _, f := range a.runs {
		f.ForgetAll()

		if _, err := f.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// add gives one of the VMs the disk, and has it run.
func (a *adders) add(t *testing.T, i int) error {
	t.Helper()

	_, err := a.runs[i].Update(t.Context(), a.vms[i].UUID, lastOf(a.vms[i]), a.wishes[i])

	return err
}

// addBoth has the first run stop at a message while the other one adds the disk, or waits for the first.
func (a *adders) addBoth(t *testing.T, message string) (errs [2]error) {
	t.Helper()

	var wg sync.WaitGroup

	listen(a.runs[0], &onLog{Message: message, Do: func() {
		done := make(chan struct{})

		wg.Go(func() { errs[1] = a.add(t, 1); close(done) })

		select {
		case <-done:
		case <-time.After(3 * time.Second):
		}
	}})

	errs[0] = a.add(t, 0)
	fleettest.AwaitAll(t, &wg)

	return errs
}

// has reports whether a definition of the VM, or the running VM, has the disk.
func (a *adders) has(t *testing.T, l *lab.Lab, i int, options ...string) bool {
	t.Helper()

	args := append([]string{"domblklist", a.vms[i].UUID}, options...)

	return strings.Contains(l.Virsh(t, a.hosts[i].Name, args...), a.source)
}

// Two runs add one disk to two VMs that are off, and start them: at most one of them runs, also if the first has looked
// before the other VM had the disk.
func TestLab_addedDiskHasOneWriterAcrossRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a := newAdders(t, l)

	for _, message := range []string{"changing definition", "starting VM"} {
		a.begin(t, l, "Halted")
		a.onlyOne(t, l, a.addBoth(t, message))
	}
}

// The disk is a path that is one disk on all hosts: the definition says so before the VM starts.
func TestLab_addedPathHasOneWriterAcrossRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a := newAdders(t, l)
	a.begin(t, l, "Halted")

	name := lab.Name(t) + ".raw"

	for i, h := range a.hosts {
		a.source = l.Image(t, h.Name, name, "raw", 1<<20)
		a.wishes[i].Spec.Disks = map[string]domain.Disk{
			"root": {Source: domain.DiskSource{File: a.source}, Format: "raw"},
		}
		a.wishes[i].Metadata.SharedDisks = []string{"root"}
	}

	a.know(t)
	a.onlyOne(t, l, a.addBoth(t, "starting VM"))
}

// Two runs plug one disk into two VMs that run: one of them gets it. The other's definition is as it was before, and
// its error names both VMs. An own disk that the other was to get as well isn't left over.
func TestLab_pluggedDiskHasOneWriterAcrossRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a := newAdders(t, l)
	pool := lab.Name(t)

	for i, h := range a.hosts {
		diskPool(t, l, h.Name, pool, "/var/lib/libvirt/images")

		a.wishes[i].Spec.Disks = maps.Clone(a.wishes[i].Spec.Disks)
		a.wishes[i].Spec.Disks["own"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
		a.wishes[i].OwnDisks = map[string]domain.OwnDisk{"own": {Pool: pool, Bytes: 1 << 20}}
	}

	plugged := func(errs [2]error) {
		t.Helper()

		count := 0

		for i := range a.vms {
			live, defined := a.has(t, l, i), a.has(t, l, i, "--inactive")
			if live {
				count++
			}

			if live != (errs[i] == nil) || defined != live {
				t.Errorf("VM %d: plugged in %t, defined %t, %v", i, live, defined, errs[i])
			}

			volumes := l.Virsh(t, a.hosts[i].Name, "vol-list", pool)
			recorded := strings.Contains(l.Virsh(t, a.hosts[i].Name, "dumpxml", a.vms[i].UUID), pool)

			if made := strings.Contains(volumes, a.vms[i].Name); made != live || recorded != live {
				t.Errorf("VM %d: plugged in %t, recorded %t, %v: its pool has\n%s", i, live, recorded, errs[i], volumes)
			}
		}

		if count != 1 {
			t.Fatalf("%d of the two have the disk: %v, %v", count, errs[0], errs[1])
		}

		tells(t, "the other one", errors.Join(errs[0], errs[1]), placement.ErrShared, a.vms[0].Name, a.vms[1].Name)
	}

	for _, message := range []string{"changing definition", "changing running VM"} {
		a.begin(t, l, "Always")
		plugged(a.addBoth(t, message))
	}

	// Both at once, in two runs and in one.
	for _, same := range []bool{false, true} {
		if same {
			a.runs[1] = a.runs[0]
		}

		a.begin(t, l, "Always")

		var (
			errs [2]error
			wg   sync.WaitGroup
		)

		for i := range a.runs {
			wg.Go(func() { errs[i] = a.add(t, i) })
		}

		fleettest.AwaitAll(t, &wg)
		plugged(errs)
	}
}

// A disk is plugged into a VM while another one that has it is off. The other run has read both before: it doesn't
// start the other VM then.
func TestLab_pluggedDiskIsSeenByTheStartOfAnother(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a := newAdders(t, l)
	a.begin(t, l, "Always")

	off := a.wishes[1]
	off.Metadata.RunStrategy = "Halted"

	if _, err := a.runs[1].Update(t.Context(), a.vms[1].UUID, lastOf(a.vms[1]), off); err != nil {
		t.Fatal(err)
	}

	a.know(t)

	if err := a.add(t, 0); err != nil {
		t.Fatal(err)
	}

	a.onlyOne(t, l, [2]error{1: a.add(t, 1)})

	if !a.has(t, l, 0) {
		t.Error("the first one doesn't have the disk")
	}
}

// A disk that only the VM's host can have is plugged in without a question about other VMs.
func TestLab_pluggedLocalDiskAsksNothing(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a := newAdders(t, l)
	a.begin(t, l, "Always")

	a.source = l.Image(t, a.hosts[0].Name, lab.Name(t)+".raw", "raw", 1<<20)
	a.wishes[0].Spec.Disks = map[string]domain.Disk{
		"root": {Source: domain.DiskSource{File: a.source}, Format: "raw"},
	}

	before := a.runs[0].Calls()

	if err := a.add(t, 0); err != nil || !a.has(t, l, 0) {
		t.Fatalf("%v; plugged in: %t", err, a.has(t, l, 0))
	}

	after := a.runs[0].Calls()

	for _, h := range a.hosts {
		for _, call := range []string{"virConnectListAllDomains", "virConnectGetAllDomainStats"} {
			if was, is := before[h.Name][call], after[h.Name][call]; was != is {
				t.Errorf("%s was asked %s %d times", h.Name, call, is-was)
			}
		}
	}
}
